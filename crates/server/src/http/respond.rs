//! Turns a [`Reply`] into an HTTP response.

use crate::auth::accounts::Account;
use crate::headers::RequestHeaders;
use crate::http::header_case::{METADATA, Spellings};
use crate::http::meter::Flight;
use crate::http::reply::Reply;
use crate::http::trailer::Trailer;
use crate::http::version::Version;
use crate::operation::Facts;
use crate::request_id::RequestId;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::ext::ReasonPhrase;
use lazuli_model::limits::CLIENT_REQUEST_ID_BYTES_MAX;
use lazuli_model::{ETag, Timestamp};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::media::{Format, MetadataLevel};
use lazuli_wire::uri::Location;
use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const ZERO: HeaderValue = HeaderValue::from_static("0");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
const VERSION: HeaderName = HeaderName::from_static("x-ms-version");
const ERROR_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const WOULD_FAIL: HeaderName = HeaderName::from_static("x-lazuli-would-fail");
const DATA_SERVICE_ID: HeaderName = HeaderName::from_static("dataserviceid");

/// When a client that got `ServerBusy` may retry (T-7.9).
const RETRY_AFTER_SECONDS: &str = "1";

/// What is known about a request when its response is written, however early it failed.
pub(crate) struct ResponseContext {
    pub(crate) id: RequestId,
    pub(crate) now: Timestamp,
    /// The version served, once it is known to be valid (T-2.7).
    pub(crate) version: Option<Version>,
    /// Counts the request until its response.
    pub(crate) flight: Flight,
    /// Which of the account's keys signed the request, if one did.
    pub(crate) signing_key: Option<usize>,
    /// Whether the credentials are valid.
    pub(crate) is_authenticated: bool,
    /// Whether the account is one of ours, and the request is not a preflight.
    pub(crate) is_addressed: bool,
    /// Whether the request asks for extensions, allowed or not.
    pub(crate) asks_extensions: bool,
    /// Whether the request is a HEAD, whose response has no body.
    pub(crate) is_head: bool,
    /// Bytes of the request's body that were read.
    pub(crate) bytes_in: u64,
    /// When the whole request had arrived, if it had a body.
    pub(crate) received: Option<Timestamp>,
    /// How long commits took, from call to result.
    pub(crate) committing: Duration,
    /// The operation, once it is known.
    pub(crate) operation: Option<&'static Facts>,
    /// The account and location that the URL names, once they are known.
    pub(crate) target: Option<(Arc<Account>, Location)>,
    /// How much of the URL's path follows the account, once it is known.
    pub(crate) resource_bytes: usize,
    /// What Azure would have returned, if the lenient profile accepted the request.
    pub(crate) would_fail: Option<ErrorCode>,
    client_request_id: Option<HeaderValue>,
    /// Whether responses say why a credential was refused.
    explain: bool,
}

impl ResponseContext {
    pub(crate) fn new(
        id: RequestId,
        now: Timestamp,
        flight: Flight,
        method: &Method,
        headers: &RequestHeaders<'_>,
        explain: bool,
    ) -> Self {
        let client_request_id = headers
            .client_request_id
            .filter(|value| value.len() <= CLIENT_REQUEST_ID_BYTES_MAX && value.to_str().is_ok());
        Self {
            id,
            now,
            version: None,
            flight,
            signing_key: None,
            is_authenticated: false,
            is_addressed: false,
            asks_extensions: false,
            is_head: *method == Method::HEAD,
            bytes_in: 0,
            received: None,
            committing: Duration::ZERO,
            operation: None,
            target: None,
            resource_bytes: 0,
            would_fail: None,
            client_request_id: client_request_id.cloned(),
            explain,
        }
    }

    /// The client's own request id, if the response repeats it.
    pub(crate) fn client_request_id(&self) -> Option<&str> {
        self.client_request_id.as_ref().and_then(|id| id.to_str().ok())
    }

    pub(crate) fn trailer(&self) -> Trailer {
        Trailer { id: self.id, now: self.now, explain: self.explain }
    }

    /// The HTTP response. It reuses the header map of the request, which has the capacity.
    pub(crate) fn respond(
        self,
        reply: Reply,
        server: HeaderValue,
        mut headers: HeaderMap,
    ) -> Response<ResponseBody> {
        headers.clear();
        headers.insert(header::SERVER, server);
        insert(&mut headers, REQUEST_ID, self.id.as_bytes());
        if let Some(version) = self.version {
            headers.insert(VERSION, version.text);
        }
        if let Some(id) = self.client_request_id {
            headers.insert(CLIENT_REQUEST_ID, id);
        }
        if let Some(code) = self.would_fail {
            let text = format!("{} {}", code.status(), code.name());
            insert(&mut headers, WOULD_FAIL, text.as_bytes());
        }
        write_reply_headers(&mut headers, &reply);
        // A HEAD response has no body; a header names its error (T-7.8).
        let body = match reply.share {
            _ if self.is_head => Bytes::new(),
            None => reply.body.into(),
            Some(share) => Bytes::from_owner(HeldBody { body: reply.body, _share: share }),
        };
        if reply.status == StatusCode::NO_CONTENT {
            headers.insert(header::CONTENT_LENGTH, ZERO);
        }
        let mut response = Response::new(ResponseBody(Some(body)));
        let internal = StatusCode::INTERNAL_SERVER_ERROR;
        *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(internal);
        *response.headers_mut() = headers;
        let mut spellings = Spellings::default();
        reply.metadata.iter().for_each(|(name, _)| spellings.add(name));
        if !spellings.is_empty() {
            response.extensions_mut().insert(spellings);
        }
        let reason = reply.reason.map(|text| ReasonPhrase::try_from(text.into_bytes()));
        if let Some(Ok(reason)) = reason {
            response.extensions_mut().insert(reason);
        }
        response
    }
}

/// The bytes of a response, in one piece. It ends only after that piece, even an empty one: hyper
/// sends no length for a body that ends immediately, but the service sends `Content-Length: 0`
/// (T-5.37).
pub struct ResponseBody(Option<Bytes>);

/// A body that releases its memory reservation when its last byte is sent.
struct HeldBody {
    body: Vec<u8>,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}

fn write_reply_headers(headers: &mut HeaderMap, reply: &Reply) {
    if reply.odata {
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    }
    if reply.no_cache {
        headers.insert(header::CACHE_CONTROL, NO_CACHE);
    }
    match &reply.content_type {
        None => {}
        Some(Cow::Borrowed(text)) => {
            headers.insert(header::CONTENT_TYPE, content_type(text));
        }
        Some(Cow::Owned(text)) => insert(headers, header::CONTENT_TYPE, text.as_bytes()),
    }
    if let Some(etag) = reply.etag {
        insert(headers, header::ETAG, etag.text(&mut [0; ETag::TEXT_BYTES_MAX]));
    }
    if let Some(location) = &reply.location {
        insert(headers, header::LOCATION, location.as_bytes());
        if reply.status == 204 {
            insert(headers, DATA_SERVICE_ID, location.as_bytes());
        }
    }
    if let Some(preference) = reply.preference_applied {
        headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static(preference));
    }
    if let Some(code) = reply.error_code {
        headers.insert(ERROR_CODE, HeaderValue::from_static(code));
    }
    if reply.status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
    }
    if let Some(challenge) = &reply.www_authenticate {
        headers.insert(header::WWW_AUTHENTICATE, challenge.as_ref().clone());
    }
    for (name, text) in &reply.more {
        insert(headers, HeaderName::from_static(name), text.as_bytes());
    }
    for (name, text) in &reply.metadata {
        if let Ok(name) = HeaderName::try_from([METADATA, name].concat()) {
            insert(headers, name, text.as_bytes());
        }
    }
}

/// The content type of nearly every response is checked at compile time.
fn content_type(text: &'static str) -> HeaderValue {
    const MINIMAL: &str = Format::Json(MetadataLevel::Minimal).content_type();
    const MINIMAL_VALUE: HeaderValue = HeaderValue::from_static(MINIMAL);
    const NO_METADATA: &str = Format::Json(MetadataLevel::None).content_type();
    const NO_METADATA_VALUE: HeaderValue = HeaderValue::from_static(NO_METADATA);
    match text {
        MINIMAL => MINIMAL_VALUE,
        NO_METADATA => NO_METADATA_VALUE,
        other => HeaderValue::from_static(other),
    }
}

/// Invalid header values are left out; none of our texts are.
fn insert(headers: &mut HeaderMap, name: HeaderName, text: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(text) {
        headers.insert(name, value);
    }
}
