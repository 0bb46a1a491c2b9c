//! External stores that engines are tested on: how to start them, and a name space per test.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod postgres;
pub mod tikv;

use lazuli_engine::BoxFuture;
use lazuli_engine::retry::{Pace, give_way};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A port that is free now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// A name that no other test uses, in this process or another, because they share one store.
pub fn name_space() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    format!("space_{:016x}_{number}", RandomState::new().hash_one(std::process::id()))
}

/// The machine's time and randomness, for engines that retry. The clock can be advanced.
pub struct TestPace {
    started: Instant,
    /// How many real milliseconds one millisecond of this clock takes.
    slowness: u64,
    moved_ms: AtomicU64,
    random: RandomState,
    drawn: AtomicU64,
}

impl Default for TestPace {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            slowness: 1,
            moved_ms: AtomicU64::new(0),
            random: RandomState::new(),
            drawn: AtomicU64::new(0),
        }
    }
}

impl TestPace {
    /// A clock that runs this many times slower, so that timeouts do not fire because the machine is busy.
    pub fn slowed(times: u64) -> Self {
        Self { slowness: times, ..Self::default() }
    }

    pub fn advance(&self, ms: u64) {
        self.moved_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Pace for TestPace {
    fn now_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap();
        elapsed / self.slowness + self.moved_ms.load(Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        self.random.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    fn pause(&self, ms: u64) -> BoxFuture<'_, ()> {
        match ms {
            0 => Box::pin(give_way()),
            ms => Box::pin(tokio::time::sleep(Duration::from_millis(ms))),
        }
    }
}
