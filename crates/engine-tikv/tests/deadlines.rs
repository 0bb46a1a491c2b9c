//! A call ends when its time is up, whatever it waits for and however many others wait for the same
//! thing: waits do not add up (K-6.18, K-8.7).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::options;
use futures_util::future::join_all;
use lazuli_engine::{BoxError, Commit, Current, Engine, Key, Modify, Revision, Write};
use lazuli_engine_tikv::{TikvEngine, TikvOptions};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::TestPace;
use lazuli_testkit::stores::tikv::StandIn;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAIT_MS: u64 = 300;
/// This many calls would take this long if each began to wait only after the previous one had given up.
const CALLS: u32 = 20;
const WITHIN: Duration = Duration::from_secs(4);

#[derive(Debug)]
struct Touch;

impl Modify for Touch {
    fn modify(&self, _: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        Ok(Some(b"v".to_vec()))
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

fn key() -> Key {
    Key::from(b"Lkey".to_vec())
}

fn touch() -> Commit {
    Commit::new(Revision(0), vec![Write::Modify(key(), Arc::new(Touch))])
}

fn impatient(options: TikvOptions) -> TikvEngine {
    let pace = Arc::new(TestPace::default());
    TikvEngine::new(&TikvOptions { pace, wait_ms_max: WAIT_MS, ..options }).unwrap()
}

/// All fail, and none is late.
async fn assert_in_time<T, E>(calls: impl Iterator<Item = impl Future<Output = Result<T, E>>>) {
    let began = Instant::now();
    let failed = join_all(calls).await.iter().filter(|result| result.is_err()).count();
    assert_eq!(failed, CALLS as usize);
    assert!(began.elapsed() < WITHIN, "{:?}", began.elapsed());
}

/// The region is unknown, and the driver accepts connections but never answers.
#[test]
fn calls_that_need_a_silent_driver_end_in_time() {
    let cluster = StandIn::start();
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("tikv://{}", silent.local_addr().unwrap()).parse().unwrap();
    run(async {
        let engine = impatient(TikvOptions { address, ..options(&cluster) });
        let keys = [key()];
        assert_in_time((0..CALLS).map(|_| engine.read(&keys))).await;
        assert_in_time((0..CALLS).map(|_| engine.commit(touch()))).await;
    });
}

/// They take turns, and the first waits for stores that are away.
#[test]
fn commits_in_line_for_a_key_end_in_time() {
    let cluster = StandIn::start();
    run(async {
        let engine = impatient(options(&cluster));
        // The first needs time to connect.
        while engine.commit(touch()).await.is_err() {}
        (1..=3).for_each(|store| drop(cluster.control(&format!("stop {store}"))));
        assert_in_time((0..CALLS).map(|_| engine.commit(touch()))).await;
    });
}
