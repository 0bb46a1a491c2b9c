//! Loss of a primary: its synchronous standby has every acknowledged commit, and the engine finds it
//! (K-7.18, K-10.5).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{check, commit, create, key, now, open_on, options, put};
use lazuli_engine::{CommitError, Engine, Expect, Revision};
use lazuli_engine_postgres::PostgresEngine;
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::postgres::{Pair, Server, is_there};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

#[test]
fn acknowledged_commits_survive_the_loss_of_the_primary() {
    if !is_there() {
        return;
    }
    let pair = Pair::start();
    create(&pair.address());
    run(async {
        let engine = Arc::new(open_on(&pair.address(), |_| {}));
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let is_over = Arc::new(AtomicUsize::new(usize::MAX));
        let mut writers = JoinSet::new();
        for writer in 0..8 {
            let (engine, acknowledged, is_over) =
                (engine.clone(), acknowledged.clone(), is_over.clone());
            writers.spawn(async move {
                let (mut sure, mut doubtful) = (Vec::new(), 0);
                for n in 0.. {
                    if acknowledged.load(Ordering::SeqCst) >= is_over.load(Ordering::SeqCst) {
                        break;
                    }
                    let name = format!("{writer}/{n}");
                    let insert = commit(vec![check(&name, Expect::Absent)], vec![put(&name, "v")]);
                    match engine.commit(insert).await {
                        Ok(revision) => {
                            sure.push((key(&name), revision));
                            acknowledged.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(CommitError::Undetermined(_)) => doubtful += 1,
                        Err(CommitError::Engine(_) | CommitError::Busy) => {}
                        // No other writer inserts these keys.
                        Err(other) => panic!("{name}: {other:?}"),
                    }
                }
                (sure, doubtful)
            });
        }
        while acknowledged.load(Ordering::SeqCst) < 50 {
            tokio::task::yield_now().await;
        }
        tokio::task::block_in_place(|| pair.fail_over());
        let before = acknowledged.load(Ordering::SeqCst);
        is_over.store(before + 50, Ordering::SeqCst);
        let results = writers.join_all().await;
        let sure: Vec<_> = results.iter().flat_map(|(sure, _)| sure).collect();
        assert!(sure.len() >= before + 50, "it goes on at the new primary");
        for (key, revision) in sure {
            let found = engine.read(std::slice::from_ref(key)).await.unwrap().remove(0);
            assert_eq!(found.map(|found| found.revision), Some(*revision), "{key:?}");
        }
    });
}

/// K-8.7: the engine continues after a restart, whatever was in flight.
#[test]
fn engine_goes_on_after_a_restart_of_the_database() {
    if !is_there() {
        return;
    }
    let server = Server::start("");
    create(&server.address());
    run(async {
        let engine = open_on(&server.address(), |_| {});
        let first = engine.commit(commit(vec![], vec![put("a", "v")])).await.unwrap();
        for how in ["fast", "immediate"] {
            server.instance.control(&["-m", how, "restart"]).unwrap();
            let found = engine.read(&[key("a")]).await.unwrap().remove(0).unwrap();
            assert_eq!(found.revision, first);
            engine.commit(commit(vec![], vec![put("b", how)])).await.unwrap();
        }
    });
}

/// K-7.18: a gateway does not start on a standby alone.
#[test]
fn standby_is_not_used() {
    if !is_there() {
        return;
    }
    let pair = Pair::start();
    create(&pair.address());
    let result = run(async {
        let mut options = options(&pair.standby.address());
        options.connect_max = Some(Duration::from_millis(1));
        PostgresEngine::open(options, now).await
    });
    let error = result.map(drop).unwrap_err().to_string();
    assert!(error.contains("no connection"), "{error}");
}

/// How long a commit waits for its answer, and until when its outcome is known, in milliseconds.
struct Waits(u64, u64);

fn kill_standby(pair: &Pair) {
    pair.standby.kill().unwrap();
}

/// Commits an insert of `a` after `lose` has made the primary lose its standby, and runs `meanwhile` once the
/// primary waits for it.
async fn commit_without_standby(
    Waits(wait_ms, settle_ms): Waits,
    lose: fn(&Pair),
    meanwhile: impl FnOnce(&Pair),
) -> (Pair, Arc<PostgresEngine>, Result<Revision, CommitError>) {
    let pair = Pair::start();
    create(&pair.address());
    let engine = Arc::new(open_on(&pair.address(), |options| {
        options.wait_max = Duration::from_millis(wait_ms);
        options.settle_max = Duration::from_millis(settle_ms);
    }));
    // Prepares the statements.
    engine.commit(commit(vec![], vec![put("warm", "v")])).await.unwrap();
    lose(&pair);
    let insert = commit(vec![check("a", Expect::Absent)], vec![put("a", "v")]);
    let committing = engine.clone();
    let done = tokio::spawn(async move { committing.commit(insert).await });
    wait_for_waiting(&pair, |sessions| sessions > 0);
    tokio::task::block_in_place(|| meanwhile(&pair));
    let done = done.await.unwrap();
    (pair, engine, done)
}

/// Waits until this holds for the number of the primary's sessions that wait for the standby.
fn wait_for_waiting(pair: &Pair, is_so: impl Fn(usize) -> bool) {
    let waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
    let patience = Instant::now() + Duration::from_secs(30);
    let count = || pair.primary.query(waiting).unwrap().trim().parse().unwrap();
    while !tokio::task::block_in_place(|| is_so(count())) {
        assert!(Instant::now() < patience);
    }
}

/// K-7.12: a commit that the primary has, and no standby, is not acknowledged: it is lost if the primary is.
#[test]
fn commit_that_no_standby_has_is_not_acknowledged() {
    if !is_there() {
        return;
    }
    run(async {
        let (pair, engine, done) =
            commit_without_standby(Waits(2_000, 5_000), kill_standby, |_| ()).await;
        assert!(matches!(done, Err(CommitError::Undetermined(_))), "{done:?}");
        // Sessions that waited on would use up the connections of the database.
        wait_for_waiting(&pair, |sessions| sessions == 0);
        tokio::task::block_in_place(|| pair.standby.resume(None).unwrap());
        engine.commit(commit(vec![], vec![put("b", "v")])).await.unwrap();
    });
}

/// The same if the primary crashes meanwhile: when it is back, it shows what no standby has.
#[test]
fn commit_that_no_standby_has_is_not_acknowledged_after_a_crash() {
    if !is_there() {
        return;
    }
    run(async {
        let crash = |pair: &Pair| pair.primary.control(&["-m", "immediate", "restart"]).unwrap();
        let (_pair, _, done) =
            commit_without_standby(Waits(8_000, 10_000), kill_standby, crash).await;
        assert!(matches!(done, Err(CommitError::Undetermined(_))), "{done:?}");
    });
}

/// K-7.12: the standby comes back in time.
#[test]
fn commit_that_a_standby_gets_late_is_acknowledged() {
    if !is_there() {
        return;
    }
    run(async {
        let resume = |pair: &Pair| pair.standby.resume(None).unwrap();
        let (_pair, engine, done) =
            commit_without_standby(Waits(500, 60_000), kill_standby, resume).await;
        let found = engine.read(&[key("a")]).await.unwrap().remove(0);
        assert_eq!(found.map(|found| found.revision), Some(done.unwrap()));
    });
}

/// K-7.12, K-7.18: the standby is promoted while the primary goes on. What is acknowledged is on the new one.
#[test]
fn old_primary_that_goes_on_acknowledges_nothing() {
    if !is_there() {
        return;
    }
    run(async {
        let promote = |pair: &Pair| pair.standby.promote().unwrap();
        let (pair, _, done) = commit_without_standby(Waits(2_000, 8_000), promote, |_| ()).await;
        let new = open_on(&pair.standby.address(), |_| {});
        let found = new.read(&[key("a")]).await.unwrap().remove(0);
        match done {
            Ok(revision) => assert_eq!(found.map(|found| found.revision), Some(revision)),
            Err(CommitError::Undetermined(_) | CommitError::Engine(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
        // The new primary takes the writes of those that connect to it.
        new.commit(commit(vec![], vec![put("b", "v")])).await.unwrap();
    });
}
