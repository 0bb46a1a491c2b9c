//! Why an engine could not do what it was asked.

use crate::Revision;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A read, or a chore, that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine is closed, or a failed sync made it refuse to go on.
    #[error("the engine is unavailable: {0}")]
    Unavailable(String),
    /// The view was used for longer than the engine keeps what it shows. A new view serves.
    #[error("the view is older than the engine allows")]
    Expired,
    /// The device or the store beneath failed.
    #[error("the store failed: {0}")]
    Io(#[source] BoxError),
    /// What was read is not what was written: a person must look.
    #[error("stored data is corrupt: {0}")]
    Corrupt(String),
}

/// A commit that did not happen, or whose outcome is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A guard did not hold. Nothing was written.
    #[error("guard {index} failed: found {found:?}")]
    GuardFailed { index: usize, found: Option<Revision> },
    /// A check did not hold. Nothing was written.
    #[error("check {index} failed: found {found:?}")]
    CheckFailed { index: usize, found: Option<Revision> },
    /// The [`Modify`](crate::Modify) of write `index`, or what was derived from it, refused. Nothing
    /// was written.
    #[error("write {index} was refused: {reason}")]
    Refused {
        index: usize,
        #[source]
        reason: BoxError,
    },
    /// Another commit was in the way; the same commit may succeed if tried again.
    #[error("the commit conflicts with another")]
    Conflict,
    /// The answer was lost: the commit may have happened. Never blindly retried, never reported as
    /// failed.
    #[error("the outcome of the commit is unknown: {0}")]
    Undetermined(#[source] BoxError),
    #[error("too large: {got} {what}, at most {max}")]
    TooLarge { what: &'static str, max: usize, got: usize },
    /// The queue is full: try later. Nothing was written.
    #[error("the engine is busy")]
    Busy,
    #[error(transparent)]
    Engine(#[from] EngineError),
}
