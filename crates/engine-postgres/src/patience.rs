//! By when a call must have its answer: one deadline for everything that it waits for (K-8.7).
//!
//! A call waits for its turn, for a connection, for the database, and for the outcome of a commit whose
//! answer was lost. If each of these waits had its own limit, they would add up.

use lazuli_engine::EngineError;
use std::time::Duration;
use tokio::time::Instant;

/// The least time that the first attempt gets, if there is as much.
const FIRST_MIN: Duration = Duration::from_millis(500);

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

    /// By when the first attempt of something retryable must have its answer: a silently dead connection
    /// is noticed early enough for another one to answer.
    pub(crate) fn first(self) -> Instant {
        self.begun + self.wait_max * 3 / 5
    }

    /// The same for a call that may have waited before: its first attempt has less time, not none.
    pub(crate) fn first_of_late(self) -> Instant {
        self.first().max(Instant::now() + FIRST_MIN).min(self.deadline())
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

    /// By when the outcome of a commit must be known.
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

/// The error of a call that sent nothing.
pub(crate) fn too_late() -> EngineError {
    EngineError::Unavailable("the database is too slow, or too many wait for it".into())
}
