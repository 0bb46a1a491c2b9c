//! The clock of the machine, moved forward.

use lazuli_model::{Clock, SystemClock, Timestamp};
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that can be moved while stores and services use it.
#[derive(Default)]
pub(crate) struct MovedClock(AtomicU64);

impl MovedClock {
    pub(crate) fn advance_seconds(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    /// How far it has been moved.
    pub(crate) fn moved_seconds(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus_seconds(self.moved_seconds())
    }
}
