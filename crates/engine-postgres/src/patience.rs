//! By when a call must have its answer: one time for all that it waits for (K-8.7).
//!
//! A call waits for its turn, for a connection, for the database, and for what became of a commit whose
//! answer was lost. If each of these waits had a limit of its own, they would add up.

use lazuli_engine::EngineError;
use std::time::Duration;
use tokio::time::Instant;

/// The times of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    begun: Instant,
    wait_max: Duration,
    settle_max: Duration,
}

impl Patience {
    pub(crate) fn new(wait_max: Duration, settle_max: Duration) -> Self {
        Self { begun: Instant::now(), wait_max, settle_max }
    }

    /// By when the first attempt of what can be tried again must have its answer: a connection that died
    /// without a word is noticed early enough for another one to answer.
    pub(crate) fn first(self) -> Instant {
        self.begun + self.wait_max * 3 / 5
    }

    /// By when a commit must be on its way. What is sent at the last moment would be given up at once, at the
    /// cost of its connection.
    pub(crate) fn sent_by(self) -> Instant {
        self.begun + self.wait_max * 4 / 5
    }

    /// By when the database must have answered.
    pub(crate) fn deadline(self) -> Instant {
        self.begun + self.wait_max
    }

    /// By when it must be known what became of a commit.
    pub(crate) fn settled_by(self) -> Instant {
        self.begun + self.settle_max
    }

    /// Fails if it is too late to send anything.
    pub(crate) fn check(self) -> Result<(), EngineError> {
        match Instant::now() < self.sent_by() {
            true => Ok(()),
            false => Err(too_late()),
        }
    }
}

/// Nothing was sent.
pub(crate) fn too_late() -> EngineError {
    EngineError::Unavailable("the database is too slow, or too many wait for it".into())
}
