//! A process that is slow but alive: others wait for it.

use crate::common::options;
use crate::workload::{key, spread};
use lazuli_engine::{Check, Commit, Engine, Expect, Revision, Write};
use lazuli_engine_tikv::{TikvEngine, TikvOptions};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::TestPace;
use lazuli_testkit::stores::tikv::StandIn;
use std::sync::Arc;

const KEYS: [&str; 2] = ["count0", "row0"];

/// With a check, so that the commit reads first.
fn both(value: &'static str) -> Commit {
    let check = Check { key: key("row1"), expect: Expect::Absent };
    let puts = KEYS.map(|name| Write::Put(key(name), value.into()));
    Commit { checks: vec![check], ..Commit::new(Revision(0), puts.to_vec()) }
}

/// K-6.2: a commit reads for longer than a lock lives. Its locks still live for the full time afterwards.
#[test]
fn locks_of_a_commit_that_read_for_long_are_respected() {
    let cluster = StandIn::start();
    spread(&cluster);
    run(async {
        let pace = Arc::new(TestPace::slowed(10));
        let patient = TikvOptions { wait_ms_max: 60_000, ..options(&cluster) };
        let slow = TikvOptions { pace: pace.clone(), ..patient.clone() };
        let slow = Arc::new(TikvEngine::new(&slow).unwrap());
        let other = TikvEngine::new(&patient).unwrap();
        slow.commit(both("old")).await.unwrap();
        other.read(&KEYS.map(key)).await.unwrap();
        cluster.control("reset");
        cluster.control("hold KvGet 1");
        let engine = slow.clone();
        let committed = tokio::spawn(async move { engine.commit(both("new")).await });
        let until = async |call: &str| {
            while !cluster.counts().contains_key(call) {
                tokio::task::yield_now().await;
            }
        };
        until("KvGet").await;
        cluster.control("forward 4000");
        pace.advance(4_000);
        cluster.control("hold KvCommit 1");
        // Only the read: the other hold stays.
        cluster.control("release KvGet");
        until("KvCommit").await;
        let keys = KEYS.map(key);
        let read = other.view().await.unwrap();
        let read = tokio::spawn(async move { read.multi_get(&keys).await });
        // It meets the locks, and asks what became of their transaction.
        until("KvCheckTxnStatus").await;
        cluster.control("release");
        committed.await.unwrap().unwrap();
        let found = read.await.unwrap().unwrap();
        assert!(found.iter().flatten().all(|found| found.value == "new"), "{found:?}");
        let counts = cluster.counts();
        assert_eq!(counts["KvPrewrite"], 2, "it was rolled back, and began again: {counts:?}");
    });
}

/// A read that misses a slow commit is ordered before it, and so is everything the read sees: a
/// snapshot shows both commits, or not the later one.
#[test]
fn read_and_snapshot_agree_on_the_order_of_commits() {
    let cluster = StandIn::start();
    run(async {
        let put = |name: &str| Commit::new(Revision(0), vec![Write::Put(key(name), "v".into())]);
        let patient = TikvOptions { wait_ms_max: 60_000, ..options(&cluster) };
        let slow = Arc::new(TikvEngine::new(&patient).unwrap());
        let other = Arc::new(TikvEngine::new(&patient).unwrap());
        slow.commit(put("old")).await.unwrap();
        other.commit(put("old")).await.unwrap();
        cluster.control("reset");
        cluster.control("onepc off");
        cluster.control("hold KvCommit 1");
        let engine = slow.clone();
        let late = tokio::spawn(async move { engine.commit(put("x")).await });
        let until = async |call: &str| {
            while !cluster.counts().contains_key(call) {
                tokio::task::yield_now().await;
            }
        };
        until("KvCommit").await;
        let snapshot = other.view().await.unwrap();
        snapshot.get(b"Lold").await.unwrap();
        other.commit(put("y")).await.unwrap();
        let keys = [key("x"), key("y")];
        let engine = other.clone();
        let wanted = keys.clone();
        let read = tokio::spawn(async move { engine.read(&wanted).await });
        // It may or may not wait for the lock.
        while !read.is_finished() && !cluster.counts().contains_key("KvCheckTxnStatus") {
            tokio::task::yield_now().await;
        }
        cluster.control("release");
        late.await.unwrap().unwrap();
        let is_there = |found: Vec<Option<lazuli_engine::Found>>| {
            found.into_iter().map(|found| found.is_some()).collect::<Vec<_>>()
        };
        let read = is_there(read.await.unwrap().unwrap());
        let shown = is_there(snapshot.multi_get(&keys).await.unwrap());
        assert!(read[1], "it was acknowledged before");
        // A reader that sees "y" without "x" has observed that "y" came first.
        assert!(read[0] || !shown[0] || shown[1], "read {read:?}, snapshot {shown:?}");
    });
}
