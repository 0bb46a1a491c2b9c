//! A primary that is lost: its synchronous standby has every acknowledged commit, and the engine finds it
//! (K-7.18, K-10.5).

mod common;

use common::{check, commit, create, key, now, open_on, options, put};
use lazuli_engine::{CommitError, Engine, Expect};
use lazuli_engine_postgres::PostgresEngine;
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::postgres::{Pair, Server, is_there};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
                        // Nobody else inserts these keys.
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

/// K-8.7: the engine goes on after a restart, whatever was in flight.
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

/// K-7.18: a standby alone is no place for a gateway.
#[test]
fn standby_is_not_used() {
    if !is_there() {
        return;
    }
    let pair = Pair::start();
    create(&pair.address());
    let result = run(async {
        let mut options = options(&pair.standby.address());
        options.connect_max = Some(std::time::Duration::from_millis(1));
        PostgresEngine::open(options, now).await
    });
    let error = result.map(drop).unwrap_err().to_string();
    assert!(error.contains("no connection"), "{error}");
}
