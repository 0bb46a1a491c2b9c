//! What a failure to read changes means to the client.

use super::token;
use crate::error::ApiError;
use lazuli_table::TableError;
use lazuli_wire::error_code::ErrorCode;

pub(crate) fn changes_error(error: TableError) -> ApiError {
    match error {
        TableError::NoFeed => {
            let text = "The table has no change feed. PUT ?comp=lazuli-feed turns it on.";
            ApiError::with_text(ErrorCode::ResourceNotFound, text)
        }
        TableError::TokenOfOtherFeed => forged(),
        TableError::ChangesDropped { oldest } => {
            let text = format!(
                "{} To go on with the oldest change that is kept, use after={}.",
                ErrorCode::ChangesDropped.message(),
                token::write(&oldest)
            );
            ApiError::with_text(ErrorCode::ChangesDropped, text)
        }
        other => ApiError::caused_by(ErrorCode::InternalError, other),
    }
}

/// A token that the server did not write, or wrote for another table.
pub(super) fn forged() -> ApiError {
    ApiError::with_text(
        ErrorCode::InvalidQueryParameterValue,
        "The value of 'after' is not one that an earlier response for this table gave as 'next'.",
    )
}
