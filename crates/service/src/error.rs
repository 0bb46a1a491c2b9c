//! Why the store could not do what a service asked, whatever the service.

use lazuli_engine::{BoxError, CommitError, EngineError};
use lazuli_layout::CorruptRecord;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written, and the same request may succeed later.
    #[error("the service is busy")]
    Busy,
    /// The write may have happened, and nobody can tell.
    #[error("the outcome of the write is unknown")]
    Undetermined,
    /// More than the engine takes at once; our own limits lie below those of every engine.
    #[error("too large for the engine: {got} {what}, at most {max}")]
    TooLarge { what: &'static str, max: usize, got: usize },
    #[error(transparent)]
    Engine(EngineError),
    #[error(transparent)]
    Corrupt(#[from] CorruptRecord),
}

impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> Self {
        match error {
            // The request took longer than its view may live; a new one gets a new view.
            EngineError::Expired => Self::Busy,
            other => Self::Engine(other),
        }
    }
}

/// What a failed commit means where the caller knows none of its checks.
impl From<CommitError> for StoreError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Refused { reason, .. } => refusal(reason),
            CommitError::Undetermined(_) => Self::Undetermined,
            CommitError::TooLarge { what, max, got } => Self::TooLarge { what, max, got },
            CommitError::Engine(error) => error.into(),
            // Another writer was faster, and nothing was written.
            CommitError::GuardFailed { .. }
            | CommitError::CheckFailed { .. }
            | CommitError::Conflict
            | CommitError::Busy => Self::Busy,
            // What this code does not know, it does not call a failure.
            _ => Self::Undetermined,
        }
    }
}

fn refusal(reason: BoxError) -> StoreError {
    match reason.downcast::<CorruptRecord>() {
        Ok(error) => StoreError::Corrupt(*error),
        Err(reason) => StoreError::Engine(EngineError::Io(reason)),
    }
}
