//! From causes to answers: the only place that decides which code a failure is answered with.

use lazuli_engine::{BoxError, EngineError};
use lazuli_model::{EntityError, KeyError, NameError};
use lazuli_table::TableError;
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::odata::filter::FilterError;
use lazuli_wire::odata::json::BodyError;
use std::borrow::Cow;

/// A failure as the client will read it. The cause, if it is ours, is for the log.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    /// Stands in for the code's own message.
    pub(crate) text: Option<Cow<'static, str>>,
    pub(crate) stage: Stage,
    pub(crate) cause: Option<BoxError>,
    /// Why a credential was refused: for the log, and for the caller if the operator says so.
    pub(crate) explanation: Option<Box<str>>,
}

/// Where a failure was found. The live service shows it in details of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// While the URL was resolved to a resource, the existence of its table included, or the body
    /// read. Recorded answers of this kind have neither Cache-Control nor Preference-Applied.
    Parsing,
    /// In what else the request says, before anything stored was asked.
    Request,
    /// In what is stored. Alone in a change set, such a failure names no index (T-6.39).
    Execution,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn with_text(code: ErrorCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: Some(text.into()), ..Self::from(code) }
    }

    pub(crate) fn invalid_input(text: impl Into<Cow<'static, str>>) -> Self {
        Self::with_text(ErrorCode::InvalidInput, text)
    }

    pub(crate) fn message(&self) -> &str {
        self.text.as_deref().unwrap_or(self.code.message())
    }

    pub(crate) fn while_parsing(self) -> Self {
        Self { stage: Stage::Parsing, ..self }
    }

    pub(crate) fn explained(self, explanation: impl Into<Box<str>>) -> Self {
        Self { explanation: Some(explanation.into()), ..self }
    }

    pub(crate) fn at_execution(code: ErrorCode) -> Self {
        Self { stage: Stage::Execution, ..Self::from(code) }
    }

    fn caused_by(code: ErrorCode, cause: impl Into<BoxError>) -> Self {
        Self { cause: Some(cause.into()), ..Self::at_execution(code) }
    }
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self { code, text: None, stage: Stage::Request, cause: None, explanation: None }
    }
}

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
        KeyError::TooLarge => ErrorCode::KeyValueTooLarge.into(),
        KeyError::ForbiddenCharacter => {
            let text = message::out_of_range(property, value);
            ApiError::with_text(ErrorCode::OutOfRangeInput, text)
        }
    }
}

/// A key of a URL that cannot be stored (T-1.27).
pub(crate) fn url_key_error(error: KeyError) -> ApiError {
    match error {
        KeyError::TooLarge => ErrorCode::KeyValueTooLarge.into(),
        KeyError::ForbiddenCharacter => ApiError::invalid_input(message::ERROR_IN_QUERY_SYNTAX),
    }
}

/// A `$filter` that cannot be understood; the message repeats it (T-4.24).
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

impl From<TableError> for ApiError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::TableNotFound => Self::from(ErrorCode::TableNotFound).while_parsing(),
            TableError::TableAlreadyExists => Self::at_execution(ErrorCode::TableAlreadyExists),
            TableError::TableBeingDeleted => Self::at_execution(ErrorCode::TableBeingDeleted),
            // The live service never says EntityNotFound (T-4.4).
            TableError::EntityNotFound => Self::at_execution(ErrorCode::ResourceNotFound),
            TableError::EntityAlreadyExists => Self::at_execution(ErrorCode::EntityAlreadyExists),
            TableError::ConditionNotMet => {
                Self::at_execution(ErrorCode::UpdateConditionNotSatisfied)
            }
            TableError::Entity(error) => Self { stage: Stage::Execution, ..error.into() },
            TableError::TooManyOperations => Self::invalid_input(message::TOO_MANY_CHANGES),
            TableError::DuplicateRow => ErrorCode::InvalidDuplicateRow.into(),
            TableError::DifferentPartition | TableError::DifferentTable => {
                ErrorCode::CommandsInBatchActOnDifferentPartitions.into()
            }
            TableError::EmptyBatch => Self::invalid_input(message::INPUT_NOT_VALID),
            TableError::Busy => Self::at_execution(ErrorCode::ServerBusy),
            TableError::Engine(EngineError::Unavailable(reason)) => {
                Self::caused_by(ErrorCode::ServerBusy, reason)
            }
            other => Self::caused_by(ErrorCode::InternalError, other),
        }
    }
}
