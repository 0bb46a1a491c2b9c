//! The pauses of retries, in simulated time.

use super::executor::Handle;
use lazuli_engine::BoxFuture;
use lazuli_engine::retry::Pace;
use lazuli_testkit::seed::Seeded;
use std::sync::{Mutex, PoisonError};

/// Simulated time for a millisecond of a pause. A client waits about four hundred of them, so most
/// retries finish before it gives up.
const TICKS_PER_MS: u64 = 10;

pub(super) struct SimulatedPace {
    handle: Handle,
    random: Mutex<Seeded>,
}

impl SimulatedPace {
    pub(super) fn new(handle: Handle, random: Seeded) -> Self {
        Self { handle, random: Mutex::new(random) }
    }
}

impl Pace for SimulatedPace {
    fn now_ms(&self) -> u64 {
        self.handle.now() / TICKS_PER_MS
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).below(1 << 16) as u64
    }

    fn pause(&self, ms: u64) -> BoxFuture<'_, ()> {
        Box::pin(self.handle.sleep(ms * TICKS_PER_MS))
    }
}
