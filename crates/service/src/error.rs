//! Errors of the store, common to all services.

use lazuli_engine::{BoxError, CommitError, EngineError};
use lazuli_layout::CorruptRecord;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written; a retry may succeed.
    #[error("the service is busy")]
    Busy,
    /// The write may have happened; there is no way to find out.
    #[error("the outcome of the write is unknown")]
    Undetermined,
    /// Larger than the engine allows; our own limits are below those of every engine.
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
            // The request outlived its view; a retry gets a new one.
            EngineError::Expired => Self::Busy,
            other => Self::Engine(other),
        }
    }
}

/// What a failed commit means if the caller does not look at its checks.
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
            // Unknown errors are not reported as failures.
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
