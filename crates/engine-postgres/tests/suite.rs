//! The engine suite on a real server, with one engine and with two on one store (K-10.1, K-10.2).

mod common;

use common::{fresh, open_on};
use lazuli_engine::Engine;
use lazuli_testkit::engine_suite::{self, Fixture, Spread};
use lazuli_testkit::stores::postgres::is_there;
use std::sync::Arc;

lazuli_testkit::engine_suite!(if is_there(), || Fixture::new(fresh(), ()));

/// Every promise also holds when each call goes to another gateway.
mod two_engines {
    use super::*;

    fn fixture() -> Fixture {
        let (address, one) = common::fresh_with_address();
        let other = open_on(&address, |_| {});
        Fixture::new(Spread::new([Arc::new(one) as Arc<dyn Engine>, Arc::new(other)]), ())
    }

    lazuli_testkit::engine_suite!(if is_there(), fixture);

    /// random histories of tables with indexes.
    #[test]
    fn an_index_changes_no_answer() {
        if !is_there() {
            return;
        }
        lazuli_testkit::index_histories::an_index_changes_no_answer(&fixture, 16);
    }

    /// random histories, replayed from the feed of their table.
    #[test]
    fn a_feed_replays_to_the_table() {
        if is_there() {
            lazuli_testkit::feed_histories::a_feed_replays_to_the_table(&fixture, 8);
        }
    }

    /// random histories of a table whose entities expire.
    #[test]
    fn expired_entities_do_not_exist() {
        if is_there() {
            lazuli_testkit::expiry_histories::expired_entities_do_not_exist(&fixture, 8);
        }
    }

    ///
    #[test]
    fn racing_writers_leave_one_order() {
        if is_there() {
            lazuli_testkit::feed_histories::racing_writers_leave_one_order(&fixture, 4);
        }
    }

    ///
    #[test]
    fn messages_come_with_their_entities() {
        if is_there() {
            lazuli_testkit::message_histories::messages_come_with_their_entities(&fixture, 4);
        }
    }
}

#[test]
fn expired_view_says_so() {
    if !is_there() {
        return;
    }
    let pace = Arc::new(lazuli_testkit::stores::TestPace::default());
    let (address, _) = common::fresh_with_address();
    let engine = open_on(&address, |options| options.pace = pace.clone());
    engine_suite::expired_view_says_so(&engine, || {
        pace.advance(engine.limits().view_ms_max);
    });
}
