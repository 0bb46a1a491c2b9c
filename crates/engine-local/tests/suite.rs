//! The local engine keeps every promise of the contract, under each durability.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_engine::{Acknowledged, Engine, Nature, Writers};
use lazuli_engine_local::{Durability, LocalEngine, LocalOptions, ReopeningEngine};
use lazuli_testkit::engine_suite::{self, Fixture};
use std::time::Duration;

fn fixture(durability: Durability) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let options = LocalOptions { durability, ..LocalOptions::default() };
    Fixture::new(LocalEngine::open(dir.path(), options).unwrap(), dir)
}

mod sync {
    lazuli_testkit::engine_suite!(|| super::fixture(super::Durability::Sync));
}

mod interval {
    use super::{Durability, Duration, fixture};
    lazuli_testkit::engine_suite!(|| fixture(Durability::Interval(Duration::from_millis(5))));
}

mod memory {
    lazuli_testkit::engine_suite!(|| super::fixture(super::Durability::Memory));
}

/// As the server runs it.
mod reopening {
    use super::{Fixture, LocalOptions, ReopeningEngine};

    fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let engine = ReopeningEngine::open(dir.path(), LocalOptions::default()).unwrap();
        Fixture::new(engine, dir)
    }

    lazuli_testkit::engine_suite!(fixture);
}

/// random histories of tables with indexes, on a directory as the server uses it.
#[test]
fn an_index_changes_no_answer() {
    let make = || fixture(Durability::Sync);
    lazuli_testkit::index_histories::an_index_changes_no_answer(&make, 64);
}

/// random histories, replayed from the feed of their table.
#[test]
fn a_feed_replays_to_the_table() {
    let make = || fixture(Durability::Sync);
    lazuli_testkit::feed_histories::a_feed_replays_to_the_table(&make, 32);
}

/// random histories of a table whose entities expire.
#[test]
fn expired_entities_do_not_exist() {
    let make = || fixture(Durability::Sync);
    lazuli_testkit::expiry_histories::expired_entities_do_not_exist(&make, 32);
}

///
#[test]
fn racing_writers_leave_one_order() {
    let make = || fixture(Durability::Sync);
    lazuli_testkit::feed_histories::racing_writers_leave_one_order(&make, 8);
}

///
#[test]
fn messages_come_with_their_entities() {
    let make = || fixture(Durability::Sync);
    lazuli_testkit::message_histories::messages_come_with_their_entities(&make, 8);
}

/// readers go on where they were when the directory is opened again.
#[test]
fn a_feed_goes_on_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let open = || -> std::sync::Arc<dyn Engine> {
        std::sync::Arc::new(LocalEngine::open(dir.path(), LocalOptions::default()).unwrap())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut engine = open();
        let mut history = lazuli_testkit::feed_histories::History::new(&engine, 7).await;
        for _ in 0..6 {
            history.go_on(&engine, 20).await;
            engine.close().await.unwrap();
            drop(engine);
            engine = open();
        }
        history.end(&engine).await;
    });
}

/// With a life of zero, a view expires when a commit replaces what it shows.
#[test]
fn expired_view_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let options = LocalOptions { view_ms_max: 0, ..LocalOptions::default() };
    let engine = LocalEngine::open(dir.path(), options).unwrap();
    assert_eq!(engine.limits().view_ms_max, 0);
    engine_suite::expired_view_says_so(&engine, || ());
}

#[test]
fn only_what_was_synced_is_sure_to_stay() {
    let nature = |durability| {
        let dir = tempfile::tempdir().unwrap();
        let options = LocalOptions { durability, ..LocalOptions::default() };
        ReopeningEngine::open(dir.path(), options).unwrap().nature()
    };
    let synced = nature(Durability::Sync);
    assert_eq!((synced.writers, synced.acknowledged), (Writers::Sole, Acknowledged::Kept));
    assert!(synced.only_we_change_it());
    for durability in [Durability::Interval(Duration::from_secs(1)), Durability::Memory] {
        let nature: Nature = nature(durability);
        assert_eq!(nature.acknowledged, Acknowledged::MayVanish);
        assert!(!nature.only_we_change_it());
    }
}
