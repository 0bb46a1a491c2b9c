//! How views use connections (K-7.14, K-7.16).

mod common;

use common::{fresh_with_address, key, open_on};
use lazuli_engine::Engine;
use lazuli_testkit::stores::postgres::is_there;
use std::time::Duration;

/// A client that forgot its snapshots must not keep queries from their connections.
#[tokio::test]
async fn an_expired_view_gives_its_connection_back_by_itself() {
    if !is_there() {
        return;
    }
    let (address, _) = fresh_with_address();
    let engine = open_on(&address, |options| {
        options.connections = 4.try_into().unwrap();
        options.view_life = Duration::from_secs(2);
    });
    let mut forgotten = Vec::new();
    // Three of four connections are for views.
    for _ in 0..3 {
        let view = engine.view().await.unwrap();
        view.get(key("a").as_slice()).await.unwrap();
        forgotten.push(view);
    }
    // It waits for a connection. The view is younger than those, because nothing was read through it.
    let read = async {
        loop {
            match engine.view().await.unwrap().get(key("a").as_slice()).await {
                Err(lazuli_engine::EngineError::Expired) => {}
                done => return done,
            }
        }
    };
    assert_eq!(read.await.unwrap(), None);
    let late = forgotten.first().unwrap().get(key("a").as_slice()).await;
    assert!(matches!(late, Err(lazuli_engine::EngineError::Expired)), "{late:?}");
}

#[tokio::test]
async fn clients_may_keep_a_part_of_the_connections() {
    if !is_there() {
        return;
    }
    let (address, _) = fresh_with_address();
    for (connections, kept) in [(4, 1), (16, 3), (64, 12)] {
        let engine =
            open_on(&address, |options| options.connections = connections.try_into().unwrap());
        assert_eq!(engine.limits().views_kept_max, kept);
    }
}
