//! Turns a [`Reply`] into an HTTP response, and a failure into a reply.

use crate::auth::accounts::Account;
use crate::auth::explain;
use crate::http::error::{ApiError, Stage};
use crate::http::reply::Reply;
use crate::http::request::{ErrorForm, Preference};
use crate::http::request_headers::RequestHeaders;
use crate::http::request_id::RequestId;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::ext::ReasonPhrase;
use lazuli_model::limits::CLIENT_REQUEST_ID_BYTES_MAX;
use lazuli_model::{ETag, Timestamp};
use lazuli_wire::error_body::{self, Shape};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::media::{self, Accepted, Format, MetadataLevel};
use lazuli_wire::uri::{Location, Query};
use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

/// Tools recognise the service by the first word (T-2.58).
const SERVER: HeaderValue =
    HeaderValue::from_static(concat!("Windows-Azure-Table/1.0 Lazuli/", env!("CARGO_PKG_VERSION")));
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const ZERO: HeaderValue = HeaderValue::from_static("0");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
const VERSION: HeaderName = HeaderName::from_static("x-ms-version");
const ERROR_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const WOULD_FAIL: HeaderName = HeaderName::from_static("x-lazuli-would-fail");
/// Why a credential was refused, when callers are told.
const AUTH_DETAIL: &str = "x-lazuli-auth-detail";
const DATA_SERVICE_ID: HeaderName = HeaderName::from_static("dataserviceid");

/// When a client whom the server had no room for may come again (T-7.9).
const RETRY_AFTER_SECONDS: &str = "1";

/// What is known of a request when its answer is written, however early it failed.
pub(crate) struct Heading {
    pub(crate) id: RequestId,
    pub(crate) now: Timestamp,
    /// The version served, once it is known to be one (T-2.7).
    pub(crate) version: Option<HeaderValue>,
    /// Whether the credentials were found good.
    pub(crate) authenticated: bool,
    /// Whether the account addressed is one of ours, and more is wanted than a preflight.
    pub(crate) is_addressed: bool,
    /// The preference in force: errors repeat it (T-2.55).
    pub(crate) preference: Option<Preference>,
    /// When all of the request was there, if it had a body.
    pub(crate) received: Option<Timestamp>,
    /// What analytics call the operation, once it is known.
    pub(crate) operation: Option<&'static str>,
    /// The account and location that the URL names, once they are known.
    pub(crate) target: Option<(Arc<Account>, Location)>,
    accepted: Accepted,
    client_request_id: Option<HeaderValue>,
    xml_operation: bool,
    head: bool,
    preflight: bool,
    /// Whether callers are told why their credential was refused.
    explain: bool,
    /// What Azure would have answered, had the lenient profile not let the request pass.
    pub(crate) would_fail: Option<ErrorCode>,
}

/// What every error of a request repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trailer {
    pub(crate) id: RequestId,
    pub(crate) now: Timestamp,
    pub(crate) explain: bool,
}

impl Trailer {
    /// Appends the body of an error. Why a credential was refused goes to the log, and into the body
    /// only if the operator said so.
    fn write(self, out: &mut Vec<u8>, shape: Shape, error: &ApiError, text: &str) {
        let message = error_body::message_with_trailer(text, self.id.as_str(), self.now);
        let explanation = error.explanation.as_deref();
        if let Some(explanation) = explanation {
            let (id, code) = (self.id.as_str(), error.code.name());
            tracing::debug!(id, code, explanation, "credential refused");
        }
        let shown = explanation.filter(|_| self.explain);
        error_body::write_explained(out, shape, error.code.name(), &message, shown);
    }

    /// The header that tells the same, for clients that show no bodies.
    fn detail(self, error: &ApiError) -> Vec<(&'static str, String)> {
        let shown = error.explanation.as_deref().filter(|_| self.explain);
        shown.map(|text| (AUTH_DETAIL, explain::header_text(text))).into_iter().collect()
    }
}

impl Heading {
    pub(crate) fn new(
        id: RequestId,
        now: Timestamp,
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
            authenticated: false,
            is_addressed: false,
            preference: None,
            received: None,
            operation: None,
            target: None,
            accepted: media::negotiate(headers.accept, None),
            client_request_id: client_request_id.cloned(),
            xml_operation: false,
            head: *method == Method::HEAD,
            preflight: *method == Method::OPTIONS,
            explain,
            would_fail: None,
        }
    }

    /// Takes in what the query says about the form of the answer (T-2.15, T-2.23).
    pub(crate) fn negotiate(&mut self, headers: &RequestHeaders<'_>, query: &Query<'_>) {
        self.xml_operation = query.contains("comp") || query.contains("restype");
        if let Some(format) = query.get("$format") {
            self.accepted = media::negotiate(headers.accept, Some(format));
        }
    }

    /// The answer to a request that failed.
    ///
    /// `challenge` tells strangers where to get a token.
    pub(crate) fn error_reply(&self, error: ApiError, challenge: &HeaderValue) -> Reply {
        if let Some(cause) = &error.cause {
            let (id, operation) = (self.id.as_str(), self.operation.unwrap_or("Unknown"));
            match error.code {
                // The engine logs when it begins to refuse, and then at intervals how often it has.
                ErrorCode::ServerBusy => tracing::debug!(id, operation, %cause, "refused"),
                _ => tracing::error!(id, operation, %cause, "failed"),
            }
        }
        let unread = error.code == ErrorCode::RequestBodyTooLarge;
        if self.preflight || unread || (!self.authenticated && self.is_addressed) {
            return self.front_reply(&error, challenge);
        }
        let form = match self.version {
            None if error.code == ErrorCode::InvalidHeaderValue => ErrorForm::IndentedXml,
            _ => ErrorForm::of(self.accepted, self.xml_operation),
        };
        let preference = self.preference.filter(|_| error.stage != Stage::Parsing);
        let preference_applied = preference.map(Preference::text);
        let reply = error_reply(&error, form, None, self.trailer());
        // The answer to a HEAD has no body to name the error (T-7.8).
        let error_code = reply.error_code.or(self.head.then(|| error.code.name()));
        Reply { preference_applied, error_code, ..reply }
    }

    fn trailer(&self) -> Trailer {
        Trailer { id: self.id, now: self.now, explain: self.explain }
    }

    /// Failed authentication is told by another part of the service, with its own headers (T-7.3). So
    /// are a refused preflight, which is no OData either, and a body too large to be read: the tests of
    /// the official Java client find its message in the status line.
    fn front_reply(&self, error: &ApiError, challenge: &HeaderValue) -> Reply {
        let shape = match self.accepted {
            Accepted::Json(_) if !self.xml_operation => Shape::Json,
            _ => Shape::PrefixedXml,
        };
        let mut body = Vec::with_capacity(512);
        self.trailer().write(&mut body, shape, error, error.message());
        let challenged = error.code.status() == 401;
        Reply {
            status: error.code.status(),
            reason: Some(error.message().to_owned()),
            content_type: Some(shape.content_type().into()),
            error_code: Some(error.code.name()),
            more: self.trailer().detail(error),
            www_authenticate: challenged.then(|| challenge.clone()),
            failure: Some(error.code),
            body,
            ..Reply::default()
        }
    }

    /// The HTTP response. Its headers are written where those of the request were, which have the
    /// room for it.
    pub(crate) fn respond(self, reply: Reply, mut headers: HeaderMap) -> Response<ResponseBody> {
        headers.clear();
        headers.insert(header::SERVER, SERVER);
        insert(&mut headers, REQUEST_ID, self.id.as_bytes());
        if let Some(version) = self.version {
            headers.insert(VERSION, version);
        }
        if let Some(id) = self.client_request_id {
            headers.insert(CLIENT_REQUEST_ID, id);
        }
        if let Some(code) = self.would_fail {
            let text = format!("{} {}", code.status(), code.name());
            insert(&mut headers, WOULD_FAIL, text.as_bytes());
        }
        write_reply_headers(&mut headers, &reply);
        // A HEAD is answered without the body; its errors are named by the header (T-7.8).
        let body = match reply.share {
            _ if self.head => Bytes::new(),
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
        let reason = reply.reason.map(|text| ReasonPhrase::try_from(text.into_bytes()));
        if let Some(Ok(reason)) = reason {
            response.extensions_mut().insert(reason);
        }
        response
    }
}

/// The bytes of an answer, in one piece. It ends only after that piece, even an empty one: of a body
/// that has ended at once hyper says no length, and the service says `Content-Length: 0` (T-5.37).
pub(crate) struct ResponseBody(Option<Bytes>);

/// A body that gives back its share of the memory for answers when its last byte is gone.
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

/// An error in one of the three forms of the OData and XML operations. In a batch the message
/// begins with the index of the operation that failed (T-6.38).
pub(crate) fn error_reply(
    error: &ApiError,
    form: ErrorForm,
    index: Option<usize>,
    trailer: Trailer,
) -> Reply {
    let text = match index {
        Some(index) => Cow::Owned(error_body::with_index(index, error.message())),
        None => Cow::Borrowed(error.message()),
    };
    let status = error.code.status();
    let mut body = Vec::with_capacity(512);
    let reply = match form {
        ErrorForm::Json(level) => {
            trailer.write(&mut body, Shape::Json, error, &text);
            Reply::odata_body(status, Format::Json(level).content_type(), body)
        }
        ErrorForm::Xml => {
            trailer.write(&mut body, Shape::CompactXml, error, &text);
            Reply::odata_body(status, "application/xml;charset=utf-8", body)
        }
        ErrorForm::PrefixedXml => {
            trailer.write(&mut body, Shape::PrefixedXml, error, &text);
            let (error_code, reason) = (Some(error.code.name()), Some(text.into_owned()));
            Reply { error_code, reason, ..Reply::xml(status, body) }
        }
        ErrorForm::IndentedXml => {
            trailer.write(&mut body, Shape::IndentedXml, error, &text);
            Reply::xml(status, body)
        }
    };
    let no_cache = reply.no_cache && error.stage != Stage::Parsing;
    Reply { no_cache, more: trailer.detail(error), failure: Some(error.code), ..reply }
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
        headers.insert(header::WWW_AUTHENTICATE, challenge.clone());
    }
    for (name, text) in &reply.more {
        insert(headers, HeaderName::from_static(name), text.as_bytes());
    }
}

/// The type of nearly every answer is checked when this is compiled, not each time.
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

/// What cannot stand in a header is left out; none of our texts can hold such a thing.
fn insert(headers: &mut HeaderMap, name: HeaderName, text: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(text) {
        headers.insert(name, value);
    }
}
