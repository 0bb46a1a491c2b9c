//! Errors of an engine.

use crate::Revision;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A read or a maintenance call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine is closed, or stopped after a failed sync.
    #[error("the engine is unavailable: {0}")]
    Unavailable(String),
    /// The view was used for longer than the engine keeps its snapshot. Open a new view.
    #[error("the view is older than the engine allows")]
    Expired,
    /// The device or the underlying store failed.
    #[error("the store failed: {0}")]
    Io(#[source] BoxError),
    /// The data read is not the data written: an operator must investigate.
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
    /// The [`Modify`](crate::Modify) of write `index`, or a derived check of it, refused. Nothing
    /// was written.
    #[error("write {index} was refused: {reason}")]
    Refused {
        index: usize,
        #[source]
        reason: BoxError,
    },
    /// Conflict with another commit; a retry may succeed.
    #[error("the commit conflicts with another")]
    Conflict,
    /// The reply was lost: the commit may have happened. Never retry it blindly, never report it as
    /// failed.
    #[error("the outcome of the commit is unknown: {0}")]
    Undetermined(#[source] BoxError),
    #[error("too large: {got} {what}, at most {max}")]
    TooLarge { what: &'static str, max: usize, got: usize },
    /// The queue is full: retry later. Nothing was written.
    #[error("the engine is busy")]
    Busy,
    #[error(transparent)]
    Engine(#[from] EngineError),
}
