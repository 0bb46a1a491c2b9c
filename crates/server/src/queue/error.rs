//! Maps errors of the Queue service to error codes.

use crate::error::ApiError;
use lazuli_engine::EngineError;
use lazuli_model::{MessageTooLarge, MetadataError, QueueNameError};
use lazuli_queue::QueueError;
use lazuli_service::StoreError;
use lazuli_wire::error_code::{ErrorCode, message};

impl From<QueueNameError> for ApiError {
    fn from(error: QueueNameError) -> Self {
        match error {
            QueueNameError::Characters => ErrorCode::InvalidResourceName.into(),
            QueueNameError::Length => ErrorCode::OutOfRangeInput.into(),
        }
    }
}

impl From<MetadataError> for ApiError {
    fn from(error: MetadataError) -> Self {
        match error {
            MetadataError::EmptyName { value } => {
                Self::from(ErrorCode::EmptyMetadataKey).with_details([("MetadataValue", value)])
            }
            MetadataError::Name | MetadataError::Duplicate => ErrorCode::InvalidMetadata.into(),
            MetadataError::TooLarge => ErrorCode::MetadataTooLarge.into(),
        }
    }
}

impl From<MessageTooLarge> for ApiError {
    fn from(MessageTooLarge { bytes_max }: MessageTooLarge) -> Self {
        let limit = ("MaxLimit", bytes_max.to_string());
        Self::from(ErrorCode::RequestBodyTooLarge).with_details([limit])
    }
}

impl From<QueueError> for ApiError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::QueueNotFound => Self::at_execution(ErrorCode::QueueNotFound),
            QueueError::QueueAlreadyExists => Self::at_execution(ErrorCode::QueueAlreadyExists),
            QueueError::MessageNotFound => Self::at_execution(ErrorCode::MessageNotFound),
            // Only Update Message returns this, and it includes the parameter.
            QueueError::VisibilityPastExpiry => {
                Self::at_execution(ErrorCode::InvalidQueryParameterValue)
            }
            QueueError::Store(StoreError::Busy) => Self::at_execution(ErrorCode::ServerBusy),
            QueueError::Store(StoreError::Engine(EngineError::Unavailable(reason))) => {
                Self::caused_by(ErrorCode::ServerBusy, reason)
            }
            other @ QueueError::Store(_) => Self::caused_by(ErrorCode::InternalError, other),
        }
    }
}

/// A parameter whose value is out of range.
pub(crate) fn parameter_out_of_range(name: &str, value: &str, min: i64, max: i64) -> ApiError {
    ApiError::from(ErrorCode::OutOfRangeQueryParameterValue).with_details([
        ("QueryParameterName", name.to_owned()),
        ("QueryParameterValue", value.to_owned()),
        ("MinimumAllowed", min.to_string()),
        ("MaximumAllowed", max.to_string()),
    ])
}

/// A missing required parameter.
pub(crate) fn missing_parameter(name: &str) -> ApiError {
    let code = ErrorCode::MissingRequiredQueryParameter;
    ApiError::with_text(code, message::QUERY_PARAMETER_MISSING)
        .with_details([("QueryParameterName", name.to_owned())])
}

/// A method that the resource does not support.
pub(crate) fn unsupported_verb() -> ApiError {
    ApiError::with_text(ErrorCode::UnsupportedHttpVerb, message::VERB_NOT_SUPPORTED)
}
