//! Views that are kept between requests, and the connections that they occupy (K-7.14, K-7.16).

mod common;

use common::{fresh_with_address, key, open_on, proxy, through};
use lazuli_engine::{Engine, EngineError, View};
use lazuli_engine_postgres::PostgresOptions;
use lazuli_testkit::stores::TestPace;
use lazuli_testkit::stores::postgres::is_there;
use lazuli_testkit::wire_cut::Weather;
use std::sync::Arc;

async fn read(view: &dyn View) -> Result<(), EngineError> {
    view.get(key("a").as_slice()).await.map(|_| ())
}

#[track_caller]
fn check_expired(result: Result<(), EngineError>) {
    assert!(matches!(result, Err(EngineError::Expired)), "{result:?}");
}

/// it lives longer than a view of a request, and ends, used or not.
#[tokio::test]
async fn a_kept_view_has_a_life_of_its_own() {
    if !is_there() {
        return;
    }
    let pace = Arc::new(TestPace::default());
    let (address, _) = fresh_with_address();
    let engine = open_on(&address, |options| options.pace = pace.clone());
    let (of_request, kept) = (engine.view().await.unwrap(), engine.kept_view().await.unwrap());
    for view in [&of_request, &kept] {
        read(&**view).await.unwrap();
    }
    pace.advance(engine.limits().view_ms_max);
    check_expired(read(&*of_request).await);
    read(&*kept).await.unwrap();
    pace.advance(engine.limits().kept_view_ms_max - engine.limits().view_ms_max);
    check_expired(read(&*kept).await);
}

/// Queries go on however many snapshots clients keep, and a view that is dropped gives its connection back.
#[tokio::test]
async fn kept_views_leave_connections_to_others() {
    if !is_there() {
        return;
    }
    let (address, _) = fresh_with_address();
    for (connections, kept_max) in [(1, 0), (4, 1), (16, 3)] {
        let set = |options: &mut PostgresOptions| {
            options.connections = connections.try_into().unwrap();
        };
        let engine = open_on(&address, set);
        assert_eq!(engine.limits().kept_views_max, kept_max);
        for _ in 0..2 {
            let mut kept = Vec::new();
            for _ in 0..kept_max {
                kept.push(engine.kept_view().await.unwrap());
                read(&**kept.last().unwrap()).await.unwrap();
            }
            read(&*engine.view().await.unwrap()).await.unwrap();
        }
        engine.close().await.unwrap();
    }
}

/// What the transaction showed is gone with its connection, and asking again brings nothing back.
#[tokio::test]
async fn a_kept_view_ends_with_its_connection() {
    if !is_there() {
        return;
    }
    let (address, _) = fresh_with_address();
    let proxy = proxy(&address);
    let engine = open_on(&through(&proxy, &address), |_| {});
    let kept = engine.kept_view().await.unwrap();
    read(&*kept).await.unwrap();
    proxy.set(Weather::Cut);
    let lost = read(&*kept).await;
    assert!(matches!(lost, Err(EngineError::Unavailable(_) | EngineError::Expired)), "{lost:?}");
    check_expired(read(&*kept).await);
    proxy.set(Weather::Clear);
    read(&*engine.kept_view().await.unwrap()).await.unwrap();
}
