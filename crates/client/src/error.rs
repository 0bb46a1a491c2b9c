//! One error type, for people and for programs (C-14).

use crate::BoxError;
use crate::batch::BatchError;
use crate::encryption::CryptoError;
use crate::value::{DecodeError, EncodeError};
use http::StatusCode;
use lazuli_model::EntityKey;
use lazuli_wire::connection_string::ConnectionStringError;
use std::fmt;

/// The error of every operation of this library.
///
/// ```no_run
/// # use lazuli_client::{Entity, ErrorKind, Table};
/// # async fn run(people: Table, entity: Entity) {
/// match people.insert(&entity).await {
///     Ok(written) => println!("version {}", written.etag),
///     Err(error) if error.may_have_been_applied() => println!("look what is there: {error}"),
///     Err(error) if error.is_conflict() => println!("there is one already"),
///     Err(error) if error.is_not_found() => println!("the table does not exist"),
///     Err(error) if error.is_retryable() => println!("later, after {} attempts", error.attempts()),
///     Err(error) if matches!(error.kind(), ErrorKind::Forbidden { .. }) => {
///         println!("{:?} was refused: {:?}", error.operation(), error.details());
///         println!("signed: {:?}", error.signed_string());
///     }
///     // For the operators of the service, and for one's own logs.
///     Err(error) => println!("{error} {:?} {:?}", error.request_id(), error.client_request_id()),
/// }
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    context: Context,
}

/// What is known about an error besides its kind.
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
    /// The text that was signed, if the signature was refused.
    pub(crate) signed: Option<String>,
    pub(crate) hint: Option<String>,
    pub(crate) source: Option<BoxError>,
}

/// An error answer.
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
    /// Another entity has a value that an index requires to be unique (P-1.1).
    #[error("another entity has this value of the unique index {index}: {value_key:?}")]
    UniqueViolation {
        /// The index.
        index: &'static str,
        /// The row key of the index copy with this value.
        value_key: String,
    },
    /// A link refers to an entity that does not exist.
    #[error("the link names an entity that does not exist")]
    BrokenLink,
    /// An entity refers to a blob that does not exist (P-11.4).
    #[error("the entity names a blob that does not exist: {address}")]
    Dangling {
        /// The blob.
        address: String,
    },
    /// A blob differs from the length or digest in its entity (P-11.4).
    #[error("the blob is not what its entity says, by length or SHA-256: {address}")]
    DigestMismatch {
        /// The blob.
        address: String,
    },
    /// It has changed since it was read.
    #[error("it has changed since it was read")]
    PreconditionFailed,
    /// Other clients changed the entity between the read and the write, on every attempt.
    #[error("others changed it {attempts} times between the read and the write")]
    Contended {
        /// The number of attempts.
        attempts: u32,
    },
    /// The stream has another version than the append expects (P-23.1).
    #[error("the stream has version {actual}, not {expected}")]
    StreamConflict {
        /// The expected version.
        expected: i64,
        /// The actual version.
        actual: i64,
    },
    /// The parts of a wide entity come from different writes, or one is missing (P-10.4).
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
    /// Another client has taken the lease in the meantime (P-23.4).
    #[error("the lease was lost")]
    LeaseLost,
    /// A transaction failed; nothing was written.
    #[error("operation {} of the transaction failed", .index.map_or("?".to_owned(), |i| i.to_string()))]
    Batch {
        /// The failed operation, counted in the order of adding; `None` if the whole request failed.
        index: Option<usize>,
    },
    /// The writes cannot be one transaction. Nothing was sent.
    #[error("{0}")]
    InvalidBatch(BatchError),
    /// The service would refuse the entity: too large, or too many properties.
    #[error("{0}")]
    LimitExceeded(lazuli_model::EntityError),
    /// A key that the service does not accept.
    #[error("{0}")]
    Key(crate::key::KeyError),
    /// A name that the service does not accept.
    #[error("{0:?} is not the name of a {1}")]
    Name(String, &'static str),
    /// Another client has received the message since, or it is gone.
    #[error("the receipt is void: somebody else has the message, or it is gone")]
    ReceiptLost,
    /// The body of a message cannot be encoded, or has the wrong form.
    #[error("the body {0}")]
    Body(String),
    /// It is larger than the service accepts, or than the caller allows.
    #[error("it has {bytes} bytes, more than {bytes_max}")]
    TooLarge {
        /// The actual size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A value that cannot be encoded.
    #[error("{0}")]
    Encode(EncodeError),
    /// An entity that cannot be decoded as the type.
    #[error("{0}")]
    Decode(DecodeError),
    /// An entity that cannot be encrypted or decrypted.
    #[error("{0}")]
    Crypto(CryptoError),
    /// The filter names no partition, so the query would read the whole table.
    #[error("the query names no partition and would read the whole table")]
    WouldScan,
    /// The service does not sort, but the call needs entities in key order (C-19.6).
    #[error("the service does not sort entities by their keys")]
    NotSorted,
    /// The token belongs to another table, filter or selection.
    #[error("the token belongs to another query")]
    TokenMismatch,
    /// The service refused the credential.
    #[error("the service refused the credential ({reason})")]
    Forbidden {
        /// The service's code for the reason, such as `AuthorizationPermissionMismatch`; empty if it gave
        /// none.
        reason: String,
    },
    /// The credential clearly does not allow it, so nothing was sent (C-16.5).
    #[error("the shared access signature does not allow it: {0}")]
    NotGranted(String),
    /// No credential could be obtained.
    #[error("the credential cannot be used")]
    Credential,
    /// The service throttles, or the retry budget of the account is used up.
    #[error("the service is busy")]
    Throttled,
    /// No answer arrived in time.
    #[error("no answer came in time")]
    Timeout,
    /// The server could not be reached, or the connection broke.
    #[error("the server could not be reached")]
    Transport,
    /// A write was sent and its answer was lost: it may or may not have been carried out.
    #[error("it is not known whether it was carried out")]
    OutcomeUnknown,
    /// The function that was to change an entity returned an error.
    #[error("the change was refused")]
    Refused,
    /// Any other error answer.
    #[error("the service refused the request")]
    Service,
    /// An answer that violates the protocol.
    #[error("the answer cannot be read: {0}")]
    Protocol(String),
    /// The account or the call is configured wrongly.
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

    /// Adds where it happened, unless that is known.
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

    /// The kind of error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The service's error code, such as `EntityAlreadyExists`.
    pub fn code(&self) -> Option<&str> {
        self.answer().map(|answer| &*answer.code).filter(|code| !code.is_empty())
    }

    /// The HTTP status of the answer, if there was one.
    pub fn status(&self) -> Option<StatusCode> {
        self.answer().map(|answer| answer.status)
    }

    /// The service's id of the request, which its operators ask for.
    pub fn request_id(&self) -> Option<&str> {
        self.answer().and_then(|answer| answer.request_id.as_deref())
    }

    /// The client's id of the operation, the same for all its attempts.
    pub fn client_request_id(&self) -> Option<&str> {
        self.0.context.client_request_id.as_deref()
    }

    /// Details that the service sent besides its message, by name, such as why it refused a credential.
    pub fn details(&self) -> &[(String, String)] {
        self.answer().map_or(&[], |answer| &answer.details)
    }

    /// What to do about it, if known: the end of the error's text.
    pub fn hint(&self) -> Option<&str> {
        self.0.context.hint.as_deref()
    }

    /// The text that was signed, if the service refused the signature; in debug builds only. It contains no
    /// secret. Compare it with the text that the service reports in [`Error::details`].
    pub fn signed_string(&self) -> Option<&str> {
        self.0.context.signed.as_deref()
    }

    /// The number of attempts.
    pub fn attempts(&self) -> u32 {
        self.0.context.attempts
    }

    /// The operation, such as `insert`.
    pub fn operation(&self) -> Option<&str> {
        self.0.context.operation
    }

    /// The key of the entity concerned, if there is one.
    pub fn key(&self) -> Option<&EntityKey> {
        self.0.context.key.as_ref()
    }

    /// The failed operation of a transaction, counted in the order of adding.
    pub fn batch_index(&self) -> Option<usize> {
        match self.kind() {
            ErrorKind::Batch { index } => *index,
            ErrorKind::UniqueViolation { .. } => self.0.context.batch_index,
            ErrorKind::InvalidBatch(error) => Some(error.index),
            _ => None,
        }
    }

    /// Whether an earlier attempt of this call may have been carried out, and what is stored now does not settle it
    /// (C-13.6a).
    pub fn may_have_been_applied(&self) -> bool {
        self.0.context.may_have_been_applied || *self.kind() == ErrorKind::OutcomeUnknown
    }

    /// Whether the entity, table or other resource exists already.
    pub fn is_conflict(&self) -> bool {
        let is_of_index = matches!(self.kind(), ErrorKind::UniqueViolation { .. });
        !is_of_index
            && (self.status_is(StatusCode::CONFLICT) || *self.kind() == ErrorKind::Conflict)
    }

    /// Whether the entity, table or other resource does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind(), ErrorKind::NotFound | ErrorKind::TableNotFound)
            || self.status_is(StatusCode::NOT_FOUND)
    }

    /// Whether a storage service says that what was asked for does not exist. A web server at a wrong address answers 404
    /// as well, but without a code (C-7.1).
    pub(crate) fn is_absence(&self) -> bool {
        *self.kind() == ErrorKind::NotFound && self.code().is_some()
    }

    /// Whether the entity has changed since it was read.
    pub fn is_precondition_failed(&self) -> bool {
        self.status_is(StatusCode::PRECONDITION_FAILED)
            || *self.kind() == ErrorKind::PreconditionFailed
    }

    /// Whether the same call may succeed later. False if it may have been carried out and a second execution would
    /// have another effect.
    pub fn is_retryable(&self) -> bool {
        let transient = matches!(
            self.kind(),
            ErrorKind::Throttled
                | ErrorKind::Timeout
                | ErrorKind::Transport
                | ErrorKind::Contended { .. }
        ) || self.is_of_server();
        let is_unknown = *self.kind() == ErrorKind::OutcomeUnknown;
        (transient && !self.may_have_been_applied()) || (is_unknown && self.0.context.is_idempotent)
    }

    /// Whether the server failed in a way that may pass (C-13.2). A write is of unknown outcome then.
    fn is_of_server(&self) -> bool {
        match self.status().map_or(0, |status| status.as_u16()) {
            500 => matches!(self.code(), None | Some("InternalError" | "OperationTimedOut")),
            status => matches!(status, 502 | 504),
        }
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

/// What a `main` that fails prints: the line for people, with its causes. `{:#?}` shows all that is known.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return write!(f, "{self:#}");
        }
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
