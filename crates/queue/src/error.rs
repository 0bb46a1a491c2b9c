//! Errors of the queue service.

use lazuli_engine::{CommitError, EngineError};
use lazuli_layout::CorruptRecord;
use lazuli_service::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("the queue does not exist")]
    QueueNotFound,
    /// The queue exists, with other metadata.
    #[error("the queue already exists")]
    QueueAlreadyExists,
    /// The message is gone or expired, or the receipt is not its current one.
    #[error("the message does not exist")]
    MessageNotFound,
    /// An update would make the message visible only after its expiry.
    #[error("the message expires before it would be visible")]
    VisibilityPastExpiry,
    /// The store failed or is busy, or the outcome of the write is unknown.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<EngineError> for QueueError {
    fn from(error: EngineError) -> Self {
        Self::Store(error.into())
    }
}

impl From<CommitError> for QueueError {
    fn from(error: CommitError) -> Self {
        Self::Store(error.into())
    }
}

impl From<CorruptRecord> for QueueError {
    fn from(error: CorruptRecord) -> Self {
        Self::Store(error.into())
    }
}
