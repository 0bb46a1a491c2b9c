//! One error type, and what it says for people and for programs (C-14).

use crate::BoxError;
use crate::batch::BatchError;
use crate::encryption::CryptoError;
use crate::value::{DecodeError, EncodeError};
use http::StatusCode;
use lazuli_model::EntityKey;
use lazuli_wire::connection_string::ConnectionStringError;
use std::fmt;

/// What every verb of this library fails with.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    context: Context,
}

/// What an error knows beside its kind.
#[derive(Debug, Default)]
pub(crate) struct Context {
    pub(crate) operation: Option<&'static str>,
    pub(crate) table: Option<String>,
    pub(crate) key: Option<EntityKey>,
    pub(crate) answer: Option<ErrorAnswer>,
    pub(crate) client_request_id: Option<String>,
    pub(crate) attempts: u32,
    pub(crate) batch_index: Option<usize>,
    pub(crate) may_have_been_applied: bool,
    pub(crate) is_idempotent: bool,
    /// What was signed, if the signature was refused.
    pub(crate) signed: Option<String>,
    pub(crate) hint: Option<String>,
    pub(crate) source: Option<BoxError>,
}

/// An answer that says no.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorAnswer {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) request_id: Option<String>,
    pub(crate) details: Vec<(String, String)>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The entity, message or blob does not exist.
    #[error("it does not exist")]
    NotFound,
    /// The table does not exist.
    #[error("the table does not exist")]
    TableNotFound,
    /// It exists already.
    #[error("it exists already")]
    Conflict,
    /// Another entity holds a value that an index says only one may hold (P-1.1).
    #[error("another entity has this value of the unique index {index}: {value_key:?}")]
    UniqueViolation {
        /// The index.
        index: &'static str,
        /// The row key of the value's copy.
        value_key: String,
    },
    /// A link names an entity that does not exist.
    #[error("the link names an entity that does not exist")]
    BrokenLink,
    /// An entity names a blob that does not exist (P-11.4).
    #[error("the entity names a blob that does not exist: {address}")]
    Dangling {
        /// The blob.
        address: String,
    },
    /// A blob is not what the entity that names it says (P-11.4).
    #[error("the blob is not what its entity says, by length or SHA-256: {address}")]
    DigestMismatch {
        /// The blob.
        address: String,
    },
    /// It has changed since it was read.
    #[error("it has changed since it was read")]
    PreconditionFailed,
    /// Others changed the entity each time between the read and the write.
    #[error("others changed it {attempts} times between the read and the write")]
    Contended {
        /// How often it was tried.
        attempts: u32,
    },
    /// The stream has come to another version than the append expects (P-23.1).
    #[error("the stream has version {actual}, not {expected}")]
    StreamConflict {
        /// The version that the append expects.
        expected: i64,
        /// The version that the stream has.
        actual: i64,
    },
    /// The parts of a wide entity are of different writes, or one is missing (P-10.4).
    #[error("the parts of the entity are of different writes")]
    Torn,
    /// A list does not fit into its entity (P-4.2).
    #[error("the list {list} is full")]
    ListFull {
        /// The list.
        list: &'static str,
    },
    /// The table of this period is expired (P-8.4). Nothing was sent.
    #[error("the period of the table {table} is expired")]
    PeriodExpired {
        /// The table.
        table: String,
    },
    /// Somebody else has taken the lease meanwhile (P-23.4).
    #[error("the lease was lost")]
    LeaseLost,
    /// A transaction failed, and nothing of it was done.
    #[error("operation {} of the transaction failed", .index.map_or("?".to_owned(), |i| i.to_string()))]
    Batch {
        /// The operation that failed, in the order they were added; `None` when the whole request failed.
        index: Option<usize>,
    },
    /// Writes that cannot be one transaction. Nothing was sent.
    #[error("{0}")]
    InvalidBatch(BatchError),
    /// The service would refuse it: too large, or too many.
    #[error("{0}")]
    LimitExceeded(lazuli_model::EntityError),
    /// A key that the service does not take.
    #[error("{0}")]
    Key(crate::key::KeyError),
    /// A name that the service does not take.
    #[error("{0:?} is not the name of a {1}")]
    Name(String, &'static str),
    /// Somebody else has the message now, or it is gone.
    #[error("the receipt is void: somebody else has the message, or it is gone")]
    ReceiptLost,
    /// The body of a message cannot be written, or is not what was asked for.
    #[error("the body {0}")]
    Body(String),
    /// It has more bytes than the service takes, or than the caller asked for.
    #[error("it has {bytes} bytes, more than {bytes_max}")]
    TooLarge {
        /// What it has.
        bytes: u64,
        /// What it may have.
        bytes_max: u64,
    },
    /// A value that cannot be written.
    #[error("{0}")]
    Encode(EncodeError),
    /// An entity that is not what the type says.
    #[error("{0}")]
    Decode(DecodeError),
    /// An entity that cannot be encrypted or decrypted.
    #[error("{0}")]
    Crypto(CryptoError),
    /// The filter names no partition, so the query would read the whole table.
    #[error("the query names no partition and would read the whole table")]
    WouldScan,
    /// The service does not sort, and the call needs entities in key order (C-19.6).
    #[error("the service does not sort entities by their keys")]
    NotSorted,
    /// The token belongs to another table, filter or selection.
    #[error("the token belongs to another query")]
    TokenMismatch,
    /// The service refused the credential.
    #[error("the service refused the credential ({reason})")]
    Forbidden {
        /// The service's name of the reason, such as `AuthorizationPermissionMismatch`; empty if it gave
        /// none.
        reason: String,
    },
    /// The credential plainly does not allow it, so nothing was sent (C-16.5).
    #[error("the shared access signature does not allow it: {0}")]
    NotGranted(String),
    /// No credential could be had.
    #[error("the credential cannot be used")]
    Credential,
    /// The service, or the retry budget of the account, asks to slow down.
    #[error("the service is busy")]
    Throttled,
    /// No answer came in time.
    #[error("no answer came in time")]
    Timeout,
    /// The server could not be reached, or the connection broke.
    #[error("the server could not be reached")]
    Transport,
    /// A write was sent and its answer was lost: it may have been carried out, or not.
    #[error("it is not known whether it was carried out")]
    OutcomeUnknown,
    /// The function that was to change an entity refused.
    #[error("the change was refused")]
    Refused,
    /// Any other answer that says no.
    #[error("the service refused the request")]
    Service,
    /// An answer that is not of the protocol.
    #[error("the answer cannot be read: {0}")]
    Protocol(String),
    /// The account is not set up rightly.
    #[error("{0}")]
    Config(String),
}

impl ErrorKind {
    /// The name of the kind, for logs.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::TableNotFound => "TableNotFound",
            Self::Forbidden { .. } => "Forbidden",
            Self::NotGranted(_) => "NotGranted",
            Self::Credential => "Credential",
            Self::Throttled => "Throttled",
            Self::Timeout => "Timeout",
            Self::Transport => "Transport",
            Self::OutcomeUnknown => "OutcomeUnknown",
            Self::Protocol(_) => "Protocol",
            Self::Config(_) => "Config",
            _ => "Other",
        }
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, context: Context::default() }))
    }

    pub(crate) fn config(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config(reason.into()))
    }

    pub(crate) fn protocol(reason: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Protocol(reason.to_string()))
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Context)) -> Self {
        change(&mut self.0.context);
        self
    }

    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Says where it happened, unless that is known.
    pub(crate) fn at(
        self,
        operation: &'static str,
        table: Option<&str>,
        key: Option<&EntityKey>,
    ) -> Self {
        self.with(|context| {
            context.operation.get_or_insert(operation);
            context.table = context.table.take().or_else(|| table.map(str::to_owned));
            context.key = context.key.take().or_else(|| key.cloned());
        })
    }

    pub(crate) fn answer(&self) -> Option<&ErrorAnswer> {
        self.0.context.answer.as_ref()
    }

    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The service's name of the fault, such as `EntityAlreadyExists`.
    pub fn code(&self) -> Option<&str> {
        self.answer().map(|answer| &*answer.code).filter(|code| !code.is_empty())
    }

    /// The status of the answer, if one came.
    pub fn status(&self) -> Option<StatusCode> {
        self.answer().map(|answer| answer.status)
    }

    /// The service's id of the request: what its operators ask for.
    pub fn request_id(&self) -> Option<&str> {
        self.answer().and_then(|answer| answer.request_id.as_deref())
    }

    /// Our id of the operation, the same on all its attempts.
    pub fn client_request_id(&self) -> Option<&str> {
        self.0.context.client_request_id.as_deref()
    }

    /// What the service said beside its message, by name, such as why it refused a credential.
    pub fn details(&self) -> &[(String, String)] {
        self.answer().map_or(&[], |answer| &answer.details)
    }

    /// What to do about it, if the library knows: the end of the error's text.
    pub fn hint(&self) -> Option<&str> {
        self.0.context.hint.as_deref()
    }

    /// The text that was signed, if the service refused the signature; in debug builds only. It holds no
    /// secret. Compare it with the text that the service reports in [`Error::details`].
    pub fn signed_string(&self) -> Option<&str> {
        self.0.context.signed.as_deref()
    }

    /// How often the request was sent.
    pub fn attempts(&self) -> u32 {
        self.0.context.attempts
    }

    /// The verb, such as `insert`.
    pub fn operation(&self) -> Option<&str> {
        self.0.context.operation
    }

    /// The key of the entity it was about, if it was about one.
    pub fn key(&self) -> Option<&EntityKey> {
        self.0.context.key.as_ref()
    }

    /// The operation of a transaction that failed, in the order they were added.
    pub fn batch_index(&self) -> Option<usize> {
        match self.kind() {
            ErrorKind::Batch { index } => *index,
            ErrorKind::UniqueViolation { .. } => self.0.context.batch_index,
            ErrorKind::InvalidBatch(error) => Some(error.index),
            _ => None,
        }
    }

    /// Whether an earlier attempt of this call may have been carried out, and what is there now does not
    /// tell (C-13.6a).
    pub fn may_have_been_applied(&self) -> bool {
        self.0.context.may_have_been_applied || *self.kind() == ErrorKind::OutcomeUnknown
    }

    /// Whether it exists already.
    pub fn is_conflict(&self) -> bool {
        let is_of_index = matches!(self.kind(), ErrorKind::UniqueViolation { .. });
        !is_of_index
            && (self.status_is(StatusCode::CONFLICT) || *self.kind() == ErrorKind::Conflict)
    }

    /// Whether it does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind(), ErrorKind::NotFound | ErrorKind::TableNotFound)
            || self.status_is(StatusCode::NOT_FOUND)
    }

    /// Whether it has changed since it was read.
    pub fn is_precondition_failed(&self) -> bool {
        self.status_is(StatusCode::PRECONDITION_FAILED)
            || *self.kind() == ErrorKind::PreconditionFailed
    }

    /// Whether the same call may succeed later. Not true where it may have been carried out and doing it
    /// twice would differ from doing it once.
    pub fn is_retryable(&self) -> bool {
        let transient = matches!(
            self.kind(),
            ErrorKind::Throttled
                | ErrorKind::Timeout
                | ErrorKind::Transport
                | ErrorKind::Contended { .. }
        );
        let is_unknown = *self.kind() == ErrorKind::OutcomeUnknown;
        (transient && !self.may_have_been_applied()) || (is_unknown && self.0.context.is_idempotent)
    }

    fn status_is(&self, status: StatusCode) -> bool {
        self.status() == Some(status)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = &self.0.context;
        if let Some(operation) = context.operation {
            f.write_str(operation)?;
            if let Some(table) = &context.table {
                write!(f, " {table}")?;
            }
            if let Some(key) = &context.key {
                write!(f, " ({}, {})", key.partition, key.row)?;
            }
            f.write_str(": ")?;
        }
        match &context.answer {
            Some(answer) => {
                match self.kind() {
                    ErrorKind::Batch { index: Some(index) } => write!(f, "operation {index}: ")?,
                    ErrorKind::UniqueViolation { .. } => write!(f, "{}: ", self.kind())?,
                    _ => {}
                }
                write!(f, "{} {}", answer.status.as_u16(), answer.code)?;
                if !answer.message.is_empty() {
                    write!(f, ": {}", answer.message)?;
                }
                if let Some(id) = &answer.request_id {
                    write!(f, " [request {id}]")?;
                }
            }
            None => write!(f, "{}", self.kind())?,
        }
        if context.may_have_been_applied {
            f.write_str(" (an earlier attempt may have been carried out)")?;
        }
        if let Some(hint) = &context.hint {
            write!(f, " hint: {hint}")?;
        }
        if f.alternate() {
            let mut cause = std::error::Error::source(self);
            while let Some(error) = cause {
                write!(f, ": {error}")?;
                cause = error.source();
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("context", &self.0.context)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.context.source.as_ref().map(|source| &**source as _)
    }
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Self {
        Self::new(ErrorKind::Encode(error))
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::new(ErrorKind::Decode(error))
    }
}

impl From<crate::key::KeyError> for Error {
    fn from(error: crate::key::KeyError) -> Self {
        Self::new(ErrorKind::Key(error))
    }
}

impl From<lazuli_model::KeyError> for Error {
    fn from(error: lazuli_model::KeyError) -> Self {
        Self::new(ErrorKind::Key(error.into()))
    }
}

impl From<lazuli_model::EntityError> for Error {
    fn from(error: lazuli_model::EntityError) -> Self {
        Self::new(ErrorKind::LimitExceeded(error))
    }
}

impl From<ConnectionStringError> for Error {
    fn from(error: ConnectionStringError) -> Self {
        Self::config(error.to_string())
    }
}

#[cfg(test)]
mod tests;
