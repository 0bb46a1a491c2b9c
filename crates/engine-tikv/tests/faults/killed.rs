//! Processes killed in the middle of a commit: others read and write the same keys within five seconds.

use crate::common::{engine_on, options};
use crate::with_seeds;
use crate::workload::{key, spread};
use lazuli_engine::{Commit, Engine, Revision, Write};
use lazuli_engine_tikv::{TikvEngine, TikvOptions};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::tikv::StandIn;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Far more than needed, so that a busy machine passes: locks of a dead process live for three
/// seconds, and a read that waited forever would not return.
const WITHIN: Duration = Duration::from_secs(30);

/// Keys in three regions.
const KEYS: [&str; 3] = ["count0", "feed0", "row0"];

fn all(value: &'static str) -> Commit {
    let puts = KEYS.map(|name| Write::Put(key(name), value.into()));
    Commit::new(Revision(0), puts.to_vec())
}

/// Begins a commit in a separate process, and kills the process once the cluster holds `locks` locks:
/// the runtime ends, with everything that ran on it. What it sent may still arrive.
fn die_with_locks(cluster: &StandIn, locks: usize) {
    let process = Runtime::new().unwrap();
    let engine = engine_on(cluster);
    process.spawn(async move { engine.commit(all("new")).await });
    let started = Instant::now();
    while cluster.locks() < locks {
        assert!(started.elapsed() < WITHIN, "the commit does not get that far");
    }
    process.shutdown_timeout(WITHIN);
}

/// Another process reads the old values. After that, the dead transaction can no longer commit.
fn assert_old(cluster: &StandIn) {
    run(async {
        let engine = engine_on(cluster);
        let started = Instant::now();
        for name in KEYS {
            let found = engine.read(&[key(name)]).await.unwrap();
            assert_eq!(found[0].as_ref().unwrap().value, "old", "{name}");
        }
        assert!(started.elapsed() < WITHIN, "{:?}", started.elapsed());
    });
}

/// Another process writes new values.
fn assert_writable(cluster: &StandIn) {
    run(async {
        let engine = engine_on(cluster);
        engine.commit(all("newer")).await.unwrap();
        let found = engine.read(&KEYS.map(key)).await.unwrap();
        assert!(found.iter().flatten().all(|found| found.value == "newer"), "{found:?}");
        assert_eq!(cluster.locks(), 0);
    });
}

fn cluster_with_old_values() -> StandIn {
    let cluster = StandIn::start();
    spread(&cluster);
    run(async {
        let engine = engine_on(&cluster);
        engine.commit(all("old")).await.unwrap();
        engine.close().await.unwrap();
    });
    assert_eq!(cluster.locks(), 0, "a closed engine leaves no lock");
    cluster
}

/// K-6.14: a lock of a transaction whose primary key is not locked. The primary's prewrite arrives
/// after its process was killed, before or after others have found the lock.
#[test]
fn process_killed_between_two_prewrites_leaves_keys_readable() {
    with_seeds(|mut seed| {
        let cluster = cluster_with_old_values();
        // The first key written is the primary. Every attempt of the process gets this far.
        cluster.control_at("hold KvPrewrite 1000000", key(KEYS[0]).as_slice());
        die_with_locks(&cluster, 2);
        if seed.one_in(2) {
            cluster.control("release");
            assert_old(&cluster);
        } else {
            assert_old(&cluster);
            cluster.control("release");
        }
        assert_old(&cluster);
        assert_writable(&cluster);
    });
}

#[test]
fn process_killed_between_prewrite_and_commit_leaves_the_old_state() {
    with_seeds(|_| {
        let cluster = cluster_with_old_values();
        cluster.control("refuse KvCommit 1000000");
        die_with_locks(&cluster, KEYS.len());
        assert_old(&cluster);
        cluster.control("reset");
        assert_writable(&cluster);
    });
}

/// The commit of the primary key happened: another process finishes the transaction.
#[test]
fn process_killed_after_the_commit_of_the_primary_has_committed() {
    with_seeds(|_| {
        let cluster = cluster_with_old_values();
        // The second commit, and all later ones, are in other regions.
        for name in &KEYS[1..] {
            cluster.control_at("refuse KvCommit 1000000", key(name).as_slice());
        }
        run(async {
            engine_on(&cluster).commit(all("new")).await.unwrap();
        });
        cluster.control("reset");
        run(async {
            let started = Instant::now();
            let found = engine_on(&cluster).read(&KEYS.map(key)).await.unwrap();
            assert!(found.iter().flatten().all(|found| found.value == "new"), "{found:?}");
            assert_eq!(found.iter().flatten().count(), KEYS.len());
            assert!(started.elapsed() < WITHIN);
            assert_eq!(cluster.locks(), 0);
        });
    });
}

/// K-6.11, K-6.14: upkeep finds locks that no reader meets, and drops versions older than ten minutes.
#[test]
fn upkeep_removes_forgotten_locks_and_moves_the_safe_point() {
    let cluster = cluster_with_old_values();
    // Upkeep commits nothing, so a late commit of the dead process can be refused throughout.
    cluster.control("refuse KvCommit 1000000");
    die_with_locks(&cluster, KEYS.len());
    run(async {
        let engine = engine_on(&cluster);
        engine.tend().await.unwrap();
        assert_eq!(cluster.locks(), KEYS.len(), "they may be alive");
        cluster.control("forward 61000");
        engine.tend().await.unwrap();
        assert_eq!(cluster.locks(), 0);
        let behind_ms: u64 = cluster.control("safepoint").parse().unwrap();
        assert!((600_000..660_000).contains(&behind_ms), "{behind_ms} ms");
        let found = engine.read(&KEYS.map(key)).await.unwrap();
        assert!(found.iter().flatten().all(|found| found.value == "old"), "{found:?}");
        let options = TikvOptions { collect_garbage: false, ..options(&cluster) };
        let beside_tidb = TikvEngine::new(&options).unwrap();
        cluster.control("forward 700000");
        beside_tidb.tend().await.unwrap();
        let behind_ms: u64 = cluster.control("safepoint").parse().unwrap();
        assert!(behind_ms > 1_200_000, "{behind_ms} ms");
    });
}
