//! Views, the connections that they occupy, and what becomes of one whose connection is lost (K-7.14, K-7.16).

mod common;

use common::{Line, commit, create, fresh_with_address, key, losing_first, open_on, put};
use lazuli_engine::{Direction, Engine, EngineError, KeyRange, Scan, ScanEnd, View, Visit};
use lazuli_engine_postgres::PostgresOptions;
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::TestPace;
use lazuli_testkit::stores::postgres::{Server, is_there};
use lazuli_testkit::wire_cut::Weather;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

async fn read(view: &dyn View) -> Result<(), EngineError> {
    view.get(key("a").as_slice()).await.map(|_| ())
}

#[track_caller]
fn check_expired(result: Result<(), EngineError>) {
    assert!(matches!(result, Err(EngineError::Expired)), "{result:?}");
}

/// it outlives a request's view, and ends whether it is used or not.
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

/// Queries continue however many snapshots clients keep, and a dropped view returns its connection.
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

/// A database that accepts fewer connections than the pool may have: what it refuses goes on with those that
/// there are.
#[test]
fn views_share_the_connections_that_the_database_accepts() {
    if !is_there() {
        return;
    }
    let server = Server::start("-c max_connections=4 -c superuser_reserved_connections=0");
    create(&server.address());
    run(async {
        let wait_max = Duration::from_secs(4);
        let engine = open_on(&server.address(), |options| options.wait_max = wait_max);
        let query = async || read(&*engine.view().await?).await;
        for done in futures_util::future::join_all((0..16).map(|_| query())).await {
            done.unwrap();
        }
    });
}

/// What the transaction showed is gone with its connection, and asking again brings nothing back.
#[tokio::test]
async fn a_kept_view_ends_with_its_connection() {
    if !is_there() {
        return;
    }
    let Line { engine, proxy, .. } = Line::new();
    let kept = engine.kept_view().await.unwrap();
    read(&*kept).await.unwrap();
    proxy.set(Weather::Cut);
    let lost = read(&*kept).await;
    assert!(matches!(lost, Err(EngineError::Unavailable(_) | EngineError::Expired)), "{lost:?}");
    check_expired(read(&*kept).await);
    proxy.set(Weather::Clear);
    read(&*engine.kept_view().await.unwrap()).await.unwrap();
}

async fn scan(view: &dyn View) -> Result<usize, EngineError> {
    let range = KeyRange::prefix(b"L");
    let direction = Direction::Forward;
    let scan = Scan { range, direction, rows_max: 10, bytes_max: usize::MAX, rows_expected: 10 };
    let mut shown = 0;
    let mut visitor = |_: &[u8], _: &[u8], _| {
        shown += 1;
        Visit::Continue
    };
    let end = view.scan(scan, &mut visitor).await?;
    assert_eq!(end, ScanEnd::Done);
    Ok(shown)
}

/// K-7.14: a view that has shown nothing begins again on another connection.
#[tokio::test]
async fn a_view_outlives_a_connection_that_is_lost_before_its_first_answer() {
    if !is_there() {
        return;
    }
    let Line { engine, proxy, .. } = Line::new();
    engine.commit(commit(vec![], vec![put("a", "v")])).await.unwrap();
    let kept = engine.kept_view().await.unwrap();
    losing_first(&proxy, read(&*kept)).await.unwrap();
    for _ in 0..3 {
        let view = engine.view().await.unwrap();
        losing_first(&proxy, read(&*view)).await.unwrap();
        let view = engine.view().await.unwrap();
        assert_eq!(losing_first(&proxy, scan(&*view)).await.unwrap(), 1);
        // As a query does: both are sent at once.
        let view = engine.view().await.unwrap();
        let both = async { tokio::join!(read(&*view), scan(&*view)) };
        let (found, shown) = losing_first(&proxy, both).await;
        found.unwrap();
        assert_eq!(shown.unwrap(), 1);
    }
}

/// K-7.14: so it does where views may have one connection, which two readers of the view had.
#[tokio::test]
async fn a_view_of_two_readers_begins_again_where_no_other_connection_is_free() {
    if !is_there() {
        return;
    }
    let Line { engine, proxy, .. } = Line::with(|options| options.connections = NonZeroU32::MIN);
    engine.commit(commit(vec![], vec![put("a", "v")])).await.unwrap();
    let view = engine.view().await.unwrap();
    let both = async { tokio::join!(read(&*view), scan(&*view)) };
    let (found, shown) = losing_first(&proxy, both).await;
    found.unwrap();
    assert_eq!(shown.unwrap(), 1);
}

/// K-2.2: a view that has shown something shows nothing of another snapshot.
#[tokio::test]
async fn a_view_that_has_answered_ends_with_its_connection() {
    if !is_there() {
        return;
    }
    let Line { engine, proxy, .. } = Line::new();
    let view = engine.view().await.unwrap();
    read(&*view).await.unwrap();
    engine.commit(commit(vec![], vec![put("a", "v")])).await.unwrap();
    let lost = losing_first(&proxy, scan(&*view)).await;
    assert!(matches!(lost, Err(EngineError::Unavailable(_))), "{lost:?}");
    let again = scan(&*view).await;
    assert!(matches!(again, Err(EngineError::Unavailable(_))), "{again:?}");
}
