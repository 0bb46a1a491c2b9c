//! Error responses of the Queue service: XML, with details after the message (8).

use crate::error::ApiError;
use crate::http::reply::Reply;
use crate::http::respond::ResponseContext;
use crate::http::service::Failed;
use crate::operation::Kind;
use crate::queue::messages::text_bytes_max;
use lazuli_model::limits::REQUEST_BODY_BYTES_MAX;
use lazuli_wire::error_body::{AUTHENTICATION_DETAIL, Detail, Shape};
use lazuli_wire::error_code::ErrorCode;

/// The response to a failed request. Old versions do not name the code in a header, not even for a
/// HEAD, whose response has neither body nor Content-Type.
pub(crate) fn of_request(failed: &Failed<'_>) -> Reply {
    let Failed { error, context, .. } = *failed;
    let (code, trailer) = (error.code, context.trailer());
    let details = match &*error.details {
        [] => early_details(failed),
        details if is_explained(error, context) => {
            let told = details.iter().filter(|(name, _)| *name != AUTHENTICATION_DETAIL);
            told.cloned().collect()
        }
        details => details.to_vec(),
    };
    let mut body = Vec::new();
    if !context.is_head {
        body.reserve(512);
        trailer.write_detailed(&mut body, Shape::PlainXml, error, error.message(), details);
    }
    let version = context.version.as_ref();
    let has_header = version.is_none_or(|version| version.parsed.has_error_code_header());
    Reply {
        reason: Some(error.message().to_owned()),
        error_code: has_header.then(|| code.name()),
        more: trailer.detail(error),
        failure: Some(error.failure()),
        ..Reply::xml(code.status(), body)
    }
}

/// Whether our explanation replaces the service's own detail (`--explain-auth`).
fn is_explained(error: &ApiError, context: &ResponseContext) -> bool {
    error.explanation.is_some() && context.trailer().explain
}

/// The details of what the front itself refuses: an invalid version, and a body too large to read
/// (the table of section 8).
fn early_details(failed: &Failed<'_>) -> Vec<Detail> {
    let Failed { error, headers, context, .. } = *failed;
    match (error.code, &context.version, headers.version) {
        (ErrorCode::InvalidHeaderValue, None, Some(value)) => {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            vec![("HeaderName", "x-ms-version".to_owned()), ("HeaderValue", value)]
        }
        (ErrorCode::RequestBodyTooLarge, Some(version), _) => {
            let is_message = context.operation.is_some_and(|facts| facts.kind == Kind::Write);
            let bytes_max = match is_message {
                true => text_bytes_max(version.parsed),
                false => REQUEST_BODY_BYTES_MAX,
            };
            vec![("MaxLimit", bytes_max.to_string())]
        }
        _ => Vec::new(),
    }
}
