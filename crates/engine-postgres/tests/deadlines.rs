//! How long calls wait: one time for all that a call waits for (K-8.7). The line falls silent, and the clock of
//! the runtime is moved by whoever waits, so that nobody really does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Append, check, commit, fresh_with_address, key, open_on, proxy, put, through};
use lazuli_engine::{Commit, CommitError, Engine, Expect, Write};
use lazuli_engine_postgres::PostgresEngine;
use lazuli_testkit::stores::postgres::is_there;
use lazuli_testkit::wire_cut::{Weather, WireCut};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const WAIT_MAX: Duration = Duration::from_secs(5);
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// What a timer and a turn of the runtime may add.
const SLACK: Duration = Duration::from_millis(200);
const CALLS: u32 = 60;

struct Silent {
    engine: PostgresEngine,
    _proxy: WireCut,
}

/// An engine of few connections, all open, whose line has fallen silent.
async fn silent() -> Silent {
    let (address, _) = fresh_with_address();
    let proxy = proxy(&address);
    let engine = open_on(&through(&proxy, &address), |options| {
        options.connections = 4.try_into().unwrap();
        options.wait_max = WAIT_MAX;
        options.settle_max = SETTLE_MAX;
    });
    let warm = (0..8).flat_map(|n| [insert(n + 1000), merge("hot"), several(n)]);
    let warm = warm.map(|commit| engine.commit(commit));
    for done in futures_util::future::join_all(warm).await {
        done.unwrap();
    }
    proxy.set(Weather::HalfOpen);
    tokio::time::pause();
    Silent { engine, _proxy: proxy }
}

fn insert(n: u32) -> Commit {
    let text = format!("row{n}");
    commit(vec![check(&text, Expect::Absent)], vec![put(&text, "v")])
}

fn merge(text: &str) -> Commit {
    commit(vec![], vec![Write::Modify(key(text), Arc::new(Append("+")))])
}

/// Two keys, one of which all of them modify.
fn several(n: u32) -> Commit {
    let modify = Write::Modify(key("common"), Arc::new(Append("+")));
    commit(vec![], vec![put(&format!("several{n}"), "v"), modify])
}

/// Commits that share a turn.
fn in_line(n: u32) -> Commit {
    let writes = vec![put(&format!("line{n}"), "v"), put("head", "h")];
    Commit { turns: vec![key("head")], ..commit(vec![], writes) }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test)
}

fn check_commits(what: &str, make: fn(u32) -> Commit) {
    if !is_there() {
        return;
    }
    run(async {
        let Silent { engine, _proxy } = silent().await;
        let calls = (0..CALLS).map(|n| {
            let engine = &engine;
            async move {
                // They come one after the other.
                sleep(Duration::from_millis(u64::from(n) * 150)).await;
                let began = Instant::now();
                let done = engine.commit(make(n)).await;
                (done, began.elapsed())
            }
        });
        let mut undetermined = 0;
        for (done, took) in futures_util::future::join_all(calls).await {
            match done {
                Err(CommitError::Undetermined(_)) => {
                    undetermined += 1;
                    assert!(took <= SETTLE_MAX + SLACK, "{what}: sent, and open after {took:?}");
                }
                Err(CommitError::Engine(_) | CommitError::Busy) => {
                    assert!(took <= WAIT_MAX + SLACK, "{what}: refused after {took:?}");
                }
                other => panic!("{what}: {other:?}"),
            }
        }
        assert!(undetermined < CALLS, "{what}: nobody waited");
    });
}

#[test]
fn inserts_that_wait_for_a_lane_end_in_their_time() {
    check_commits("inserts", insert);
}

#[test]
fn merges_that_wait_for_a_key_end_in_their_time() {
    check_commits("merges", |_| merge("hot"));
}

#[test]
fn commits_that_wait_for_a_common_key_end_in_their_time() {
    check_commits("several", several);
}

#[test]
fn commits_that_wait_for_their_turn_end_in_their_time() {
    check_commits("in line", in_line);
}

#[test]
fn reads_that_wait_for_a_lane_end_in_their_time() {
    if !is_there() {
        return;
    }
    run(async {
        let Silent { engine, _proxy } = silent().await;
        let calls = (0..CALLS).map(|n| {
            let engine = &engine;
            async move {
                sleep(Duration::from_millis(u64::from(n) * 150)).await;
                let began = Instant::now();
                let found = engine.read(&[key(&format!("row{n}"))]).await;
                assert!(found.is_err());
                began.elapsed()
            }
        });
        for took in futures_util::future::join_all(calls).await {
            assert!(took <= WAIT_MAX + SLACK, "given up after {took:?}");
        }
    });
}
