//! How long calls wait: one deadline for everything that a call waits for (K-8.7). The line falls silent, and
//! the runtime's clock is advanced, so that no test really waits.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Append, Line, check, commit, key, on_one_thread, put};
use futures_util::future::join_all;
use lazuli_engine::{Commit, CommitError, Engine, Expect, Write};
use lazuli_engine_postgres::PostgresEngine;
use lazuli_testkit::wire_cut::Weather;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const WAIT_MAX: Duration = Duration::from_secs(5);
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// What a timer and one turn of the runtime may add.
const SLACK: Duration = Duration::from_millis(200);
const CALLS: u32 = 60;

/// An engine of few connections, all open, whose line has fallen silent.
async fn silent() -> Line {
    let line = Line::with(|options| {
        options.connections = 4.try_into().unwrap();
        options.wait_max = WAIT_MAX;
        options.settle_max = SETTLE_MAX;
    });
    let warm = (0..8).flat_map(|n| [insert(n + 1000), merge("hot"), several(n)]);
    let warm = warm.map(|commit| line.engine.commit(commit));
    for done in join_all(warm).await {
        done.unwrap();
    }
    line.proxy.set(Weather::HalfOpen);
    tokio::time::pause();
    line
}

/// The answers to calls that begin one after the other, and how long each took.
async fn answers<T>(call: impl AsyncFn(&PostgresEngine, u32) -> T) -> Vec<(T, Duration)> {
    let line = silent().await;
    let timed = async |n: u32| {
        sleep(Duration::from_millis(u64::from(n) * 150)).await;
        let began = Instant::now();
        (call(&line.engine, n).await, began.elapsed())
    };
    join_all((0..CALLS).map(timed)).await
}

fn insert(n: u32) -> Commit {
    let text = format!("row{n}");
    commit(vec![check(&text, Expect::Absent)], vec![put(&text, "v")])
}

fn merge(text: &str) -> Commit {
    commit(vec![], vec![Write::Modify(key(text), Arc::new(Append("+")))])
}

/// Two keys, one of which all these commits modify.
fn several(n: u32) -> Commit {
    let modify = Write::Modify(key("common"), Arc::new(Append("+")));
    commit(vec![], vec![put(&format!("several{n}"), "v"), modify])
}

/// Commits that share a turn.
fn in_line(n: u32) -> Commit {
    let writes = vec![put(&format!("line{n}"), "v"), put("head", "h")];
    Commit { turns: vec![key("head")], ..commit(vec![], writes) }
}

fn check_commits(what: &str, make: fn(u32) -> Commit) {
    on_one_thread(async {
        let mut undetermined = 0;
        for (done, took) in answers(async |engine, n| engine.commit(make(n)).await).await {
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
    on_one_thread(async {
        let read = async |engine: &PostgresEngine, n| engine.read(&[key(&format!("row{n}"))]).await;
        for (found, took) in answers(read).await {
            assert!(found.is_err());
            assert!(took <= WAIT_MAX + SLACK, "given up after {took:?}");
        }
    });
}
