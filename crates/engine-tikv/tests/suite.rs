//! The whole contract on the stand-in cluster (K-10.1, K-10.2).

mod common;

use common::{engine_on, options};
use lazuli_engine::{Engine, EngineError};
use lazuli_engine_tikv::{TikvEngine, TikvOptions};
use lazuli_testkit::engine_suite::{self, Fixture, Spread};
use lazuli_testkit::stores::TestPace;
use lazuli_testkit::stores::tikv::StandIn;
use std::sync::Arc;

mod in_one_region {
    use super::*;

    lazuli_testkit::engine_suite!(|| {
        let cluster = StandIn::start();
        Fixture::new(engine_on(&cluster), cluster)
    });
}

/// Each call goes to another process; the keys of the suite are in several regions, led by
/// different stores, so that many commits take two phases.
mod two_engines_in_many_regions {
    use super::*;

    fn fixture() -> Fixture {
        with_borders(&[b"L1", b"L\x01", b"La", b"Lm", b"Lrow1"])
    }

    fn with_borders(borders: &[&[u8]]) -> Fixture {
        let cluster = StandIn::start();
        for (number, border) in borders.iter().enumerate() {
            cluster.control_at("split", border);
            cluster.lead(border, number % 3 + 1);
        }
        let engines = [engine_on(&cluster), engine_on(&cluster)];
        let engines = engines.map(|engine| Arc::new(engine) as Arc<dyn Engine>);
        Fixture::new(Spread::new(engines), cluster)
    }

    lazuli_testkit::engine_suite!(fixture);

    /// random histories of tables with indexes. Entities, entries and owners are in different
    /// regions.
    #[test]
    fn an_index_changes_no_answer() {
        let make = || with_borders(&[b"Le", b"Li", b"Lu"]);
        lazuli_testkit::index_histories::an_index_changes_no_answer(&make, 16);
    }

    /// entities, changes and the head of the feed are in different regions.
    #[test]
    fn a_feed_replays_to_the_table() {
        let make = || with_borders(&[b"Le", b"Lf", b"Lh"]);
        lazuli_testkit::feed_histories::a_feed_replays_to_the_table(&make, 6);
    }

    /// entities and moments are in different regions.
    #[test]
    fn expired_entities_do_not_exist() {
        let make = || with_borders(&[b"Le", b"Lf", b"Lx"]);
        lazuli_testkit::expiry_histories::expired_entities_do_not_exist(&make, 4);
    }

    ///
    #[test]
    fn racing_writers_leave_one_order() {
        let make = || with_borders(&[b"Le", b"Lf", b"Lh"]);
        lazuli_testkit::feed_histories::racing_writers_leave_one_order(&make, 2);
    }

    /// entities, messages and the records of queues are in different regions.
    #[test]
    fn messages_come_with_their_entities() {
        let make = || with_borders(&[b"Le", b"Lm", b"Lq"]);
        lazuli_testkit::message_histories::messages_come_with_their_entities(&make, 2);
    }
}

#[test]
fn expired_view_says_so() {
    let cluster = StandIn::start();
    let pace = Arc::new(TestPace::default());
    let options = TikvOptions { pace: pace.clone(), ..options(&cluster) };
    let engine = TikvEngine::new(&options).unwrap();
    engine_suite::expired_view_says_so(&engine, || pace.advance(engine.limits().view_ms_max + 1));
}

/// the cluster keeps old versions twice as long.
#[tokio::test]
async fn kept_view_expires_too() {
    let cluster = StandIn::start();
    let pace = Arc::new(TestPace::default());
    let options = TikvOptions { pace: pace.clone(), ..options(&cluster) };
    let engine = TikvEngine::new(&options).unwrap();
    let kept = engine.kept_view().await.unwrap();
    kept.get(b"La").await.unwrap();
    assert_eq!(engine.limits().kept_view_ms_max, 300_000);
    pace.advance(300_001);
    let late = kept.get(b"La").await;
    assert!(matches!(late, Err(EngineError::Expired)), "{late:?}");
}
