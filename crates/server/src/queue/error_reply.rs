//! How the Queue service answers a request that failed: in XML, with details after the message (8).

use crate::error::ApiError;
use crate::http::reply::Reply;
use crate::http::respond::ResponseContext;
use crate::http::service::Failed;
use lazuli_wire::error_body::{AUTHENTICATION_DETAIL, Detail, Shape};
use lazuli_wire::error_code::ErrorCode;

/// The answer to a request that failed. Old versions name the code only where nothing else does: in
/// the answer to a HEAD, which has no body.
pub(crate) fn of_request(failed: &Failed<'_>) -> Reply {
    let Failed { error, context, .. } = *failed;
    let (code, trailer) = (error.code, context.trailer());
    let details = match &*error.details {
        [] => version_details(failed),
        details if is_explained(error, context) => {
            let told = details.iter().filter(|(name, _)| *name != AUTHENTICATION_DETAIL);
            told.cloned().collect()
        }
        details => details.to_vec(),
    };
    let mut body = Vec::with_capacity(512);
    trailer.write_detailed(&mut body, Shape::PlainXml, error, error.message(), details);
    let version = context.version.as_ref();
    let has_header = version.is_none_or(|version| version.parsed.has_error_code_header());
    Reply {
        reason: Some(error.message().to_owned()),
        error_code: (has_header || context.is_head).then(|| code.name()),
        more: trailer.detail(error),
        failure: Some(error.failure()),
        ..Reply::xml(code.status(), body)
    }
}

/// Whether an explanation of ours takes the place of the service's own (`--explain-auth`).
fn is_explained(error: &ApiError, context: &ResponseContext) -> bool {
    error.explanation.is_some() && context.trailer().explain
}

/// A version that is none is shown (the table of section 8).
fn version_details(failed: &Failed<'_>) -> Vec<Detail> {
    let is_version =
        failed.error.code == ErrorCode::InvalidHeaderValue && failed.context.version.is_none();
    let Some(value) = failed.headers.version.filter(|_| is_version) else { return Vec::new() };
    let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
    vec![("HeaderName", "x-ms-version".to_owned()), ("HeaderValue", value)]
}
