//! The reply of a handler, before it becomes an HTTP response or a part of a batch.

use crate::error::{ApiError, ApiResult, Failure};
use crate::headers::DataServiceVersion;
use crate::operation::Plan;
use http::HeaderValue;
use lazuli_model::ETag;
use lazuli_wire::error_code::ErrorCode;
use serde::Serialize;
use std::borrow::Cow;
use tokio::sync::OwnedSemaphorePermit;

/// A reply. The common headers (request id, version, date) are added when it is sent.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The reason in the status line, if not the usual one: errors that are not OData repeat
    /// their message there, and old clients show it (as the tests of the .NET and Java clients assert).
    pub(crate) reason: Option<String>,
    pub(crate) content_type: Option<Cow<'static, str>>,
    pub(crate) etag: Option<ETag>,
    /// The URI of the created resource; repeated as DataServiceId if there is no body (T-2.52).
    pub(crate) location: Option<String>,
    pub(crate) preference_applied: Option<&'static str>,
    /// Headers that only some replies have: continuations, CORS.
    pub(crate) more: Vec<(&'static str, String)>,
    /// Metadata names and values; the names have no header prefix.
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) error_code: Option<&'static str>,
    pub(crate) www_authenticate: Option<Box<HeaderValue>>,
    /// Whether it is an OData reply: these have the nosniff header (T-2.59).
    pub(crate) odata: bool,
    /// Whether it has the no-cache header: OData replies do, except for some errors (T-6.46).
    pub(crate) no_cache: bool,
    /// The version that parts of a batch name (T-2.20).
    pub(crate) data_service_version: DataServiceVersion,
    pub(crate) body: Vec<u8>,
    /// Why the request failed, for analytics: a failed batch has the same status as a successful
    /// one.
    pub(crate) failure: Option<Failure>,
    /// The work done.
    pub(crate) work: Work,
    /// The reservation of a large body, until the client has read it.
    pub(crate) share: Option<OwnedSemaphorePermit>,
}

/// The work done for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// How entities were found, if any were requested.
    pub(crate) plan: Option<Plan>,
    /// Entities read, and those that the reply contains.
    pub(crate) examined: u32,
    pub(crate) returned: u32,
    /// Operations in a transaction.
    pub(crate) operations: u32,
}

impl Reply {
    /// An OData reply without a body.
    pub(crate) fn odata(status: u16) -> Self {
        Self { status, odata: true, no_cache: true, ..Self::default() }
    }

    /// A reply with a JSON document that is not OData.
    pub(crate) fn json_of(status: u16, document: &impl Serialize) -> ApiResult<Self> {
        let body = serde_json::to_vec(document);
        let body = body.map_err(|error| ApiError::caused_by(ErrorCode::InternalError, error))?;
        Ok(Self::json(status, body))
    }

    /// An OData reply with a body.
    pub(crate) fn odata_body(
        status: u16,
        content_type: &'static str,
        data_service_version: DataServiceVersion,
        body: Vec<u8>,
    ) -> Self {
        Self {
            status,
            content_type: Some(content_type.into()),
            odata: true,
            no_cache: true,
            data_service_version,
            body,
            ..Self::default()
        }
    }

    /// An XML reply of the ACL and service operations.
    pub(crate) fn xml(status: u16, body: Vec<u8>) -> Self {
        let content_type = (!body.is_empty()).then_some("application/xml".into());
        Self { status, content_type, body, ..Self::default() }
    }

    /// A JSON reply of an extension.
    pub(crate) fn json(status: u16, body: Vec<u8>) -> Self {
        let content_type = Some("application/json;charset=utf-8".into());
        Self { status, content_type, no_cache: true, body, ..Self::default() }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.status >= 400
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply is moved about ten times before it reaches the client. A move takes 29 instructions
    /// up to 256 bytes, and 49 beyond.
    #[test]
    fn a_reply_is_cheap_to_move() {
        assert!(size_of::<Reply>() <= 256, "{}", size_of::<Reply>());
    }
}
