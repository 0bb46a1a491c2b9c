//! Maps errors to responses, for what all services share. The errors of one service map to codes in
//! the `error.rs` of its folder, and nowhere else.

use crate::refusal::Refusal;
use crate::request_id::RequestId;
use lazuli_engine::BoxError;
use lazuli_wire::error_body::{AUTHENTICATION_DETAIL, Detail};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::SasError;
use lazuli_wire::xml::{XmlError, XmlFault};
use std::borrow::Cow;

/// A failure as the client sees it. The cause of a server error is for the log.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    /// Replaces the code's own message.
    pub(crate) text: Option<Cow<'static, str>>,
    pub(crate) stage: Stage,
    pub(crate) cause: Option<BoxError>,
    /// Set if a credential was refused.
    pub(crate) refusal: Option<Refusal>,
    /// Why a credential was refused: for the log, and with `--explain-auth` for the caller.
    pub(crate) explanation: Option<Box<str>>,
    /// Details after the message, in services that have them.
    pub(crate) details: Vec<Detail>,
}

/// What is counted of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: ErrorCode,
    pub(crate) refusal: Option<Refusal>,
}

/// The stage at which a failure was found. Response details of the live service depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Before OData processing: the path names nothing at all (T-1.17a). Reported like failed
    /// authentication, with the message in the status line (T-7.4b).
    Addressing,
    /// While resolving the URL, including the existence of its table, or reading the body. Recorded
    /// responses of this kind have neither Cache-Control nor Preference-Applied.
    Parsing,
    /// In another part of the request, before the store was accessed.
    Request,
    /// In the stored data. In a change set of one operation, such a failure names no index
    /// (T-6.39).
    Execution,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn with_text(code: ErrorCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: Some(text.into()), ..Self::from(code) }
    }

    /// A credential that is refused.
    pub(crate) fn refused(code: ErrorCode, refusal: impl Into<Refusal>) -> Self {
        Self { refusal: Some(refusal.into()), ..Self::from(code) }
    }

    pub(crate) fn failure(&self) -> Failure {
        Failure { code: self.code, refusal: self.refusal }
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

    pub(crate) fn while_addressing(self) -> Self {
        Self { stage: Stage::Addressing, ..self }
    }

    pub(crate) fn explained(self, explanation: impl Into<Box<str>>) -> Self {
        Self { explanation: Some(explanation.into()), ..self }
    }

    pub(crate) fn with_details(self, details: impl IntoIterator<Item = Detail>) -> Self {
        Self { details: details.into_iter().collect(), ..self }
    }

    /// The same with the service's detail about a refused credential, if there is one.
    pub(crate) fn with_detail(self, detail: Option<String>) -> Self {
        self.with_details(detail.map(|text| (AUTHENTICATION_DETAIL, text)))
    }

    /// Logs a server error with the request id that the client got.
    pub(crate) fn log(&self, id: RequestId, operation: &str) {
        let (id, Some(cause)) = (id.as_str(), &self.cause) else { return };
        match self.code {
            // The engine logs when it starts to refuse writes, and then a count at intervals.
            ErrorCode::ServerBusy => tracing::debug!(id, operation, %cause, "refused"),
            _ => tracing::error!(id, operation, %cause, "failed"),
        }
    }

    pub(crate) fn at_execution(code: ErrorCode) -> Self {
        Self { stage: Stage::Execution, ..Self::from(code) }
    }

    pub(crate) fn caused_by(code: ErrorCode, cause: impl Into<BoxError>) -> Self {
        Self { cause: Some(cause.into()), ..Self::at_execution(code) }
    }
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self {
            code,
            text: None,
            stage: Stage::Request,
            cause: None,
            refusal: None,
            explanation: None,
            details: Vec::new(),
        }
    }
}

impl From<SasError> for ApiError {
    fn from(error: SasError) -> Self {
        let refused = Self { stage: Stage::Execution, ..Self::refused(error.code(), error) };
        refused.explained(format!("{}.", sentence(error)))
    }
}

impl From<XmlFault> for ApiError {
    fn from(fault: XmlFault) -> Self {
        Self::from(fault.error.code()).with_details(fault.details())
    }
}

impl From<XmlError> for ApiError {
    fn from(error: XmlError) -> Self {
        XmlFault::from(error).into()
    }
}

/// A parameter whose value means nothing, in the words of services whose errors have details (Q-6.26,
/// TQ-13).
pub(crate) fn invalid_parameter(name: &str, value: &str, reason: &str) -> ApiError {
    ApiError::from(ErrorCode::InvalidQueryParameterValue).with_details([
        ("QueryParameterName", name.to_owned()),
        ("QueryParameterValue", value.to_owned()),
        ("Reason", reason.to_owned()),
    ])
}

/// An error as a sentence, without its full stop.
pub(crate) fn sentence(error: SasError) -> String {
    let text = error.to_string();
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}
