//! Start-up of a server on a cluster (K-8.2, K-8.4, K-8.5), and closing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{engine_on, options};
use lazuli_engine::{Commit, Engine, EngineError, Key, Revision, Write};
use lazuli_engine_tikv::{OpenError, Opened, TikvEngine, TikvOptions};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::TestPace;
use lazuli_testkit::stores::tikv::StandIn;
use std::sync::Arc;

async fn open(cluster: &StandIn, now: Revision) -> Result<Opened, OpenError> {
    TikvEngine::open(options(cluster), || now).await
}

/// The cluster's time; its clock is the machine's.
async fn time_of(cluster: &StandIn) -> Revision {
    engine_on(cluster).commit(Commit::new(Revision(0), vec![])).await.unwrap()
}

async fn put(cluster: &StandIn, key: &[u8], value: &'static str) {
    let put = Write::Put(Key::from(key.to_vec()), value.into());
    engine_on(cluster).commit(Commit::new(Revision(0), vec![put])).await.unwrap();
}

#[test]
fn empty_cluster_is_claimed_once() {
    let cluster = StandIn::start();
    run(async {
        let now = time_of(&cluster).await;
        let (one, other) = tokio::join!(open(&cluster, now), open(&cluster, now));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(one.cluster, other.cluster);
        assert_eq!(one.cluster.len(), 32);
        assert!(one.warnings.is_empty(), "{:?}", one.warnings);
        put(&cluster, b"Lk", "data").await;
        let again = open(&cluster, now).await.unwrap();
        assert_eq!(again.cluster, one.cluster);
        again.engine.health().await.unwrap();
    });
}

#[test]
fn keys_of_others_and_newer_formats_are_refused() {
    let cluster = StandIn::start();
    run(async {
        let now = time_of(&cluster).await;
        put(&cluster, b"Logs of others", "data").await;
        let refused = open(&cluster, now).await.err().unwrap();
        let OpenError::ForeignData { key } = &refused else { panic!("{refused}") };
        assert_eq!(key, "'Logs of others'");
        put(&cluster, b"L\0format", "2 0123 lazuli 9.0.0").await;
        let refused = open(&cluster, now).await.err().unwrap();
        assert!(matches!(refused, OpenError::NewerFormat { found: 2 }), "{refused}");
        assert!(refused.hint().contains("newer lazuli"));
    });
}

#[test]
fn clocks_that_differ_are_warned_of_and_refused() {
    let cluster = StandIn::start();
    run(async {
        let now = time_of(&cluster).await.0;
        const SECOND: u64 = 10_000_000;
        let warned = open(&cluster, Revision(now - 60 * SECOND)).await.unwrap();
        assert_eq!(warned.warnings.len(), 1, "{:?}", warned.warnings);
        let refused = open(&cluster, Revision(now - 3600 * SECOND)).await.err().unwrap();
        assert!(matches!(refused, OpenError::Clock { minutes: 59..=60 }), "{refused}");
    });
}

/// No server answers at the address: one sentence that names it.
#[test]
fn cluster_that_is_away_is_named() {
    let port = lazuli_testkit::stores::free_port();
    let pace = Arc::new(TestPace::default());
    let address = format!("tikv://127.0.0.1:{port}").parse().unwrap();
    // The clock jumps 30 s, so that the test need not wait.
    let options = TikvOptions { wait_ms_max: 1, ..TikvOptions::new(address, pace.clone()) };
    run(async {
        let opening = TikvEngine::open(options, || Revision(0));
        let forward = async {
            tokio::task::yield_now().await;
            pace.advance(31_000);
        };
        let (opened, ()) = tokio::join!(opening, forward);
        let refused = opened.err().unwrap();
        assert!(matches!(refused, OpenError::Away { .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
        assert!(text.contains("refused"), "{text}");
    });
}

/// K-8.7: if the cluster goes away, calls fail within the deadline; afterwards they work again by themselves.
#[test]
fn cluster_that_comes_back_is_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = StandIn::start_in(directory.path());
    run(async {
        let options = TikvOptions { wait_ms_max: 30, ..options(&cluster) };
        let engine = TikvEngine::new(&options).unwrap();
        let key = [Key::from(b"Lk".to_vec())];
        // So short a limit that a busy machine may need more than one try.
        while engine.read(&key).await.is_err() {}
        for store in 1..=3 {
            cluster.control(&format!("stop {store}"));
        }
        let away = engine.read(&key).await;
        assert!(matches!(away, Err(EngineError::Unavailable(_))), "{away:?}");
        assert!(engine.health().await.is_err());
        let _cluster = tokio::task::block_in_place(|| cluster.restart_in(directory.path()));
        let mut found = engine.read(&key).await;
        while found.is_err() {
            found = engine.read(&key).await;
        }
        assert_eq!(found.unwrap(), [None]);
        engine.health().await.unwrap();
    });
}
