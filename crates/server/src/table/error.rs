//! Maps errors of the Table service to error codes.

use crate::error::{ApiError, Stage};
use crate::table::changes::refused::changes_error;
use lazuli_engine::EngineError;
use lazuli_model::{EntityError, KeyError, NameError};
use lazuli_table::TableError;
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::odata::filter::FilterError;
use lazuli_wire::odata::json::BodyError;

impl From<NameError> for ApiError {
    fn from(error: NameError) -> Self {
        match error {
            NameError::Length => ErrorCode::OutOfRangeInput.into(),
            NameError::Characters | NameError::Reserved => ErrorCode::InvalidResourceName.into(),
        }
    }
}

impl From<EntityError> for ApiError {
    fn from(error: EntityError) -> Self {
        match error {
            EntityError::TooManyProperties => ErrorCode::TooManyProperties.into(),
            EntityError::PropertyNameTooLong => ErrorCode::PropertyNameTooLong.into(),
            EntityError::PropertyNameInvalid => ErrorCode::PropertyNameInvalid.into(),
            EntityError::DuplicateProperty => ErrorCode::DuplicatePropertiesSpecified.into(),
            EntityError::PropertyValueTooLarge => ErrorCode::PropertyValueTooLarge.into(),
            EntityError::EntityTooLarge => ErrorCode::EntityTooLarge.into(),
            EntityError::DateOutOfRange { name, value } => Self::with_text(
                ErrorCode::OutOfRangeInput,
                message::out_of_range(&name, &value.to_string()),
            ),
        }
    }
}

/// A key of a request body that cannot be stored (T-3.17; the code for large ones is unverified).
pub(crate) fn body_key_error(error: KeyError, property: &str, value: &str) -> ApiError {
    match error {
        KeyError::TooLarge { .. } => ErrorCode::KeyValueTooLarge.into(),
        KeyError::ForbiddenCharacter => {
            let text = message::out_of_range(property, value);
            ApiError::with_text(ErrorCode::OutOfRangeInput, text)
        }
    }
}

/// A key of a URL that cannot be stored (T-1.27).
pub(crate) fn url_key_error(error: KeyError) -> ApiError {
    match error {
        KeyError::TooLarge { .. } => ErrorCode::KeyValueTooLarge.into(),
        KeyError::ForbiddenCharacter => ApiError::invalid_input(message::ERROR_IN_QUERY_SYNTAX),
    }
}

/// An invalid `$filter`; the message repeats it (T-4.24).
pub(crate) fn filter_error(error: &FilterError, filter: &str) -> ApiError {
    match *error {
        FilterError::Syntax { position } => {
            ApiError::invalid_input(message::filter_syntax(position, filter))
        }
        FilterError::UnterminatedString { position } => {
            ApiError::invalid_input(message::unterminated_string(position, filter))
        }
        FilterError::InvalidCharacter { character, position } => {
            ApiError::invalid_input(message::invalid_character(character, position, filter))
        }
        FilterError::IncompatibleOperands { left, right, operator } => {
            let text = message::incompatible_operands(left.name(), right.name(), operator);
            ApiError::invalid_input(text)
        }
        FilterError::Misused { problem, position } => {
            ApiError::invalid_input(message::misused(problem, position, filter))
        }
        FilterError::NotImplemented => ErrorCode::NotImplemented.into(),
        FilterError::Invalid | FilterError::TooComplex => {
            ApiError::invalid_input(message::INPUT_NOT_VALID)
        }
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let error: Self = match error {
            BodyError::DuplicateProperty => ErrorCode::DuplicatePropertiesSpecified.into(),
            BodyError::Malformed | BodyError::UnknownType | BodyError::InvalidValue => {
                Self::invalid_input(message::ERROR_WHILE_PROCESSING)
            }
        };
        error.while_parsing()
    }
}

/// A change that is within the limits of the protocol, but rewrites and records more than one commit
/// may hold. Nothing was done, and repeating it will not help.
fn too_large(what: &str, max: usize, got: usize) -> ApiError {
    let text = format!(
        "The change with all that the table records of it has {got} {what}, and at most {max} are \
         possible. Send fewer operations at once."
    );
    ApiError { text: Some(text.into()), ..ApiError::at_execution(ErrorCode::InvalidInput) }
}

impl From<TableError> for ApiError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::TableNotFound => Self::from(ErrorCode::TableNotFound).while_parsing(),
            TableError::TableAlreadyExists => Self::at_execution(ErrorCode::TableAlreadyExists),
            TableError::TableBeingDeleted => Self::at_execution(ErrorCode::TableBeingDeleted),
            // The live service never returns EntityNotFound (T-4.4).
            TableError::EntityNotFound => Self::at_execution(ErrorCode::ResourceNotFound),
            TableError::EntityAlreadyExists => Self::at_execution(ErrorCode::EntityAlreadyExists),
            // The code of an existing key, whatever the verb, with a text that names the index.
            TableError::IndexConflict(conflict) => Self {
                text: Some(
                    format!("{} {conflict}.", ErrorCode::EntityAlreadyExists.message()).into(),
                ),
                ..Self::at_execution(ErrorCode::EntityAlreadyExists)
            },
            TableError::ConditionNotMet => {
                Self::at_execution(ErrorCode::UpdateConditionNotSatisfied)
            }
            TableError::Entity(error) => Self { stage: Stage::Execution, ..error.into() },
            TableError::TooManyOperations => Self::invalid_input(message::TOO_MANY_CHANGES),
            TableError::DuplicateRow => ErrorCode::InvalidDuplicateRow.into(),
            TableError::DifferentPartition | TableError::DifferentTable => {
                ErrorCode::CommandsInBatchActOnDifferentPartitions.into()
            }
            TableError::NoExpiry => {
                let text = "Entities of the table do not expire. PUT ?comp=lazuli-ttl sets when.";
                Self::with_text(ErrorCode::ResourceNotFound, text)
            }
            TableError::NoFeed
            | TableError::TokenOfOtherFeed
            | TableError::ChangesDropped { .. } => changes_error(error),
            // The store may end a snapshot by its own limits.
            TableError::SnapshotEnded => ErrorCode::SnapshotEnded.into(),
            TableError::EmptyBatch => Self::invalid_input(message::INPUT_NOT_VALID),
            TableError::Busy => Self::at_execution(ErrorCode::ServerBusy),
            TableError::Engine(EngineError::Unavailable(reason)) => {
                Self::caused_by(ErrorCode::ServerBusy, reason)
            }
            TableError::TooLarge { what, max, got } => too_large(what, max, got),
            other => Self::caused_by(ErrorCode::InternalError, other),
        }
    }
}
