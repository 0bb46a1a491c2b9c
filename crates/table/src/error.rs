//! Errors of the table service.

use crate::expiry::write::Unmet;
use crate::feed::FeedToken;
use crate::index::IndexConflict;
use lazuli_engine::{BoxError, CommitError, EngineError};
use lazuli_layout::CorruptRecord;
use lazuli_model::EntityError;
use lazuli_service::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("the table does not exist")]
    TableNotFound,
    #[error("the table already exists")]
    TableAlreadyExists,
    #[error("the table is being deleted")]
    TableBeingDeleted,
    #[error("the entity does not exist")]
    EntityNotFound,
    #[error("the entity already exists")]
    EntityAlreadyExists,
    /// The entity does not have the version that the write requires.
    #[error("the update condition does not hold")]
    ConditionNotMet,
    /// The write would give two entities the same unique values.
    #[error(transparent)]
    IndexConflict(IndexConflict),
    #[error("the table has no change feed")]
    NoFeed,
    #[error("entities of the table do not expire")]
    NoExpiry,
    #[error("the token is of another table")]
    TokenOfOtherFeed,
    /// Changes after the token's position are no longer kept.
    #[error("the changes after the token are no longer kept")]
    ChangesDropped {
        /// The oldest position from which a reader can continue.
        oldest: FeedToken,
    },
    /// The store no longer shows the state of the snapshot.
    #[error("the snapshot has ended")]
    SnapshotEnded,
    #[error(transparent)]
    Entity(#[from] EntityError),
    #[error("the batch has no operation")]
    EmptyBatch,
    #[error("the batch has more than 100 operations")]
    TooManyOperations,
    #[error("the batch names an entity twice")]
    DuplicateRow,
    #[error("the batch names more than one partition")]
    DifferentPartition,
    #[error("the batch names more than one table")]
    DifferentTable,
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

/// A batch that was not applied, and the operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("operation {index}: {error}")]
pub struct BatchFailure {
    pub index: usize,
    #[source]
    pub error: TableError,
}

impl BatchFailure {
    pub(crate) const fn new(index: usize, error: TableError) -> Self {
        Self { index, error }
    }
}

impl From<StoreError> for TableError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Busy,
            StoreError::Undetermined => Self::Undetermined,
            StoreError::TooLarge { what, max, got } => Self::TooLarge { what, max, got },
            StoreError::Engine(error) => Self::Engine(error),
            StoreError::Corrupt(error) => Self::Corrupt(error),
        }
    }
}

impl From<EngineError> for TableError {
    fn from(error: EngineError) -> Self {
        StoreError::from(error).into()
    }
}

/// What a failed commit means if the caller does not look at its checks.
impl From<CommitError> for TableError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Refused { reason, index } => refused(index, reason),
            error => StoreError::from(error).into(),
        }
    }
}

/// What the refusal of write `index` means.
fn refused(index: usize, reason: BoxError) -> TableError {
    let reason = match reason.downcast::<EntityError>() {
        Ok(error) => return TableError::Entity(*error),
        Err(reason) => reason,
    };
    let reason = match reason.downcast::<Unmet>() {
        Ok(unmet) => return unmet.into_error(),
        Err(reason) => reason,
    };
    match reason.downcast::<IndexConflict>() {
        Ok(conflict) => TableError::IndexConflict(*conflict),
        Err(reason) => StoreError::from(CommitError::Refused { reason, index }).into(),
    }
}
