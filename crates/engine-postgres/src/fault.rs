//! What a database error means for the caller.

use lazuli_engine::{BoxError, CommitError, EngineError};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::WrongType;

/// Why a statement has no usable answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nothing was done: another commit was in the way (K-7.11).
    Conflict,
    /// Nothing was done: the statement or its locks took too long.
    Slow,
    /// The connection is gone, and the statement was not sent.
    Unsent(BoxError),
    /// The connection is gone, or the server is going away: what was sent may have been done.
    Lost(BoxError),
    /// Nothing was done, and trying again would not help.
    Failed(BoxError),
}

impl Fault {
    pub(crate) fn lost(reason: impl Into<BoxError>) -> Self {
        Self::Lost(reason.into())
    }

    /// For a fault that happened before the statement was sent.
    pub(crate) fn before_sending(self) -> Self {
        match self {
            Self::Lost(reason) => Self::Unsent(reason),
            other => other,
        }
    }

    /// Whether another connection may succeed where this one failed.
    pub(crate) fn is_of_the_connection(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Unsent(_))
    }

    /// The error for a read, or for a statement that may be sent twice.
    pub(crate) fn into_engine_error(self) -> EngineError {
        match self {
            Self::Conflict => EngineError::Unavailable("the database is contended".into()),
            Self::Slow => EngineError::Unavailable("the database is too slow".into()),
            Self::Lost(reason) | Self::Unsent(reason) => EngineError::Unavailable(chain(&*reason)),
            Self::Failed(reason) => EngineError::Io(reason),
        }
    }

    /// The error for a commit that was not done.
    pub(crate) fn into_commit_error(self) -> CommitError {
        match self {
            Self::Conflict => CommitError::Conflict,
            Self::Slow => CommitError::Busy,
            other => other.into_engine_error().into(),
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            // A parameter of a wrong type was never sent; anything else may have been.
            let is_ours =
                std::error::Error::source(&error).is_some_and(|cause| cause.is::<WrongType>());
            return if is_ours { Self::Failed(error.into()) } else { Self::lost(error) };
        };
        match code {
            &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => {
                Self::Conflict
            }
            &SqlState::LOCK_NOT_AVAILABLE | &SqlState::QUERY_CANCELED => Self::Slow,
            // A demoted server, or a plan that the session must drop: another session may succeed.
            &SqlState::READ_ONLY_SQL_TRANSACTION
            | &SqlState::INVALID_SQL_STATEMENT_NAME
            | &SqlState::TOO_MANY_CONNECTIONS => Self::lost(error),
            code if is_about_the_connection(code.code()) => Self::lost(error),
            _ => Self::Failed(error.into()),
        }
    }
}

/// Class 08: connection exceptions. 57P: the server shuts down, has crashed, or is starting. 25P03:
/// idle for too long.
fn is_about_the_connection(code: &str) -> bool {
    code.starts_with("08") || code.starts_with("57P") || code == "25P03"
}

/// Copies the error of a shared statement for each caller.
pub(crate) fn same(error: &EngineError) -> EngineError {
    match error {
        EngineError::Unavailable(reason) => EngineError::Unavailable(reason.clone()),
        other => EngineError::Io(other.to_string().into()),
    }
}

/// An error and its causes, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
