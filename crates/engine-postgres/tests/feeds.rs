//! The order of a change feed whose table many gateways write (X-6.3, K-7.22).

mod common;

use common::{fresh_with_address, open_on, raw};
use lazuli_engine::Engine;
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::feed_histories::History;
use lazuli_testkit::stores::postgres::is_there;
use std::sync::Arc;
use std::time::Instant;

/// A commit has its revision but is not yet visible: no other commit to the feed becomes visible before it,
/// through any gateway. Otherwise a reader would skip the first.
#[test]
fn no_commit_overtakes_another_of_the_same_feed() {
    if !is_there() {
        return;
    }
    run(async {
        let (address, one) = fresh_with_address();
        let one: Arc<dyn Engine> = Arc::new(one);
        let other: Arc<dyn Engine> = Arc::new(open_on(&address, |_| {}));
        let mut history = History::new(&one, 1).await;
        history.insert(&other, 1).await.unwrap();
        // Like a slow commit of a third gateway.
        let slow = raw(&address).await;
        let head =
            r"select 1 from lazuli_kv where k >= '\x4c68' and k < '\x4c69' for no key update";
        slow.batch_execute("begin").await.unwrap();
        assert_eq!(slow.query(head, &[]).await.unwrap().len(), 1, "the feed has a head");
        {
            let mut overtakes = std::pin::pin!(history.insert(&one, 2));
            let waits = "select 1 from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))";
            loop {
                tokio::select! {
                    biased;
                    _ = &mut overtakes => panic!("a commit overtook another"),
                    waiting = slow.query(waits, &[]) => {
                        if !waiting.unwrap().is_empty() {
                            break;
                        }
                        slow.batch_execute("select pg_stat_clear_snapshot()").await.unwrap();
                    }
                }
            }
            slow.batch_execute("commit").await.unwrap();
            overtakes.await.unwrap();
        }
        history.go_on(&other, 10).await;
        history.end(&other).await;
    });
}

/// Many writers of one recorded table do not hold each other up: their writes go together.
#[test]
#[ignore = "a measurement: cargo test --release -p lazuli-engine-postgres --test feeds -- --ignored --nocapture"]
fn writers_of_a_recorded_table() {
    const WRITERS: usize = 64;
    const WRITES: usize = 20;
    for gateways in [1, 2] {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (address, _) = fresh_with_address();
            let open = |_| {
                let engine = open_on(&address, |options| {
                    options.connections = 16.try_into().unwrap();
                });
                Arc::new(engine) as Arc<dyn Engine>
            };
            let engines: Vec<Arc<dyn Engine>> = (0..gateways).map(open).collect();
            for is_recorded in [false, true] {
                let seed = u64::from(is_recorded);
                let history = match is_recorded {
                    true => History::new(&engines[0], seed).await,
                    false => History::unrecorded(&engines[0], seed).await,
                };
                let history = Arc::new(history);
                let began = Instant::now();
                let writers = (0..WRITERS).map(|writer| {
                    let (history, engine) = (history.clone(), engines[writer % gateways].clone());
                    tokio::spawn(async move {
                        for n in 0..WRITES {
                            history.insert(&engine, writer * WRITES + n).await.unwrap();
                        }
                    })
                });
                for writer in writers.collect::<Vec<_>>() {
                    writer.await.unwrap();
                }
                let rate = (WRITERS * WRITES) as f64 / began.elapsed().as_secs_f64();
                println!("{gateways} gateways, recorded {is_recorded}: {rate:.0} inserts/s");
            }
        });
    }
}
