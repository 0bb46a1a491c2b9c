//! Processes a request from top to bottom: id, limits, account, authenticate, route, permit,
//! handle, respond.

use crate::auth::authenticate::Authenticator;
use crate::auth::credentials::Presented;
use crate::error::{ApiError, ApiResult};
use crate::headers::RequestHeaders;
use crate::http::analytics::{self, Answered};
use crate::http::body;
use crate::http::cors;
use crate::http::extensions;
use crate::http::meter::{Flight, RequestMeter, Slot};
use crate::http::peer::Peer;
use crate::http::profile::Tolerance;
use crate::http::record::Record;
use crate::http::reply::Reply;
use crate::http::request::{RequestContext, operation_time};
use crate::http::respond::{ResponseBody, ResponseContext};
use crate::http::service::{Failed, Routed, Service, Unrouted};
use crate::http::shared::Shared;
use crate::http::target::Target;
use crate::http::unread;
use crate::http::version::Version;
use crate::operation::{Access, Answer, Body as BodyKind, Facts, Kind, Operation, Verb};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use lazuli_meter::collect_commits;
use lazuli_model::limits::REQUEST_MS_MAX;
use lazuli_model::{AccountName, ServiceProperties, Timestamp};
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::sas::Caller;
use lazuli_wire::uri::{self, Location, Query};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// One service, ready to serve requests.
pub struct Front<S> {
    shared: Arc<Shared>,
    service: S,
    meter: Arc<RequestMeter>,
}

#[expect(private_bounds, reason = "services are written in this crate; others only name them")]
impl<S: Service> Front<S> {
    pub fn new(shared: Arc<Shared>, service: S) -> Self {
        let rows = S::Operation::all().iter().map(|operation| operation.facts());
        let meter = Arc::new(RequestMeter::new(S::NAME, S::PREFLIGHT, rows));
        Self { shared, service, meter }
    }

    /// The request metrics.
    pub fn meter(&self) -> Arc<RequestMeter> {
        self.meter.clone()
    }

    pub fn service(&self) -> &S {
        &self.service
    }

    /// Serves one request. Never fails: errors are responses too.
    // Not an `async fn`, so that `Send` is proven once, here, for every service.
    pub fn handle<B>(
        &self,
        request: Request<B>,
        peer: Peer,
    ) -> impl Future<Output = Response<ResponseBody>> + Send
    where
        B: Body<Data = Bytes> + Send + Unpin,
        B::Error: Send,
    {
        self.exchange(request, peer)
    }

    async fn exchange<B>(&self, request: Request<B>, peer: Peer) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send + Unpin,
        B::Error: Send,
    {
        let (parts, mut body) = request.into_parts();
        let headers = RequestHeaders::of(&parts.headers);
        let mut context = self.response_context(&parts, &headers);
        let open = OpenRequest { front: self, request: &parts, peer, context: &mut context };
        let deadline = || Duration::from_millis(REQUEST_MS_MAX) + S::patience(parts.uri.query());
        let mut committing = Duration::ZERO;
        let outcome = {
            let span = tracing::debug_span!("request", request = open.context.id.as_str());
            let mut answer = pin!(self.answer(&parts, &headers, &mut body, peer, open.context));
            // `Instrument` would move the reply once more.
            let spanned = poll_fn(|task| {
                let poll = || span.in_scope(|| answer.as_mut().poll(task));
                collect_commits(&mut committing, poll)
            });
            within(deadline, pin!(spanned)).await
        };
        open.context.committing = committing;
        // A client that sent `Expect: 100-continue` sees the refusal and does not send the body.
        if !body.is_end_stream() && !headers.has_expect {
            body::discard(&mut body).await;
        }
        let mut reply = outcome
            .unwrap_or_else(|error| self.error_reply(&error, &parts, &headers, open.context));
        let properties = match &open.context.target {
            Some((account, _)) => self.properties_for(&reply, &account.name).await,
            None => None,
        };
        if let (Some(properties), true) = (&properties, open.context.is_addressed) {
            cors::decorate(&properties.cors, parts.method.as_str(), &parts.headers, &mut reply);
        }
        let ended = open.answered(&reply);
        let counts = properties.is_some_and(|properties| analytics::counts(&properties));
        let answered = if counts { Answered::new(&context, &reply) } else { None };
        let Some(answered) = answered else {
            // The request headers are no longer needed.
            return context.respond(reply, S::SERVER, parts.headers);
        };
        let response = context.respond(reply, S::SERVER, HeaderMap::new());
        self.service.counts().count(&answered, &parts, &response, ended);
        response
    }

    /// The settings for decorating a response. If the store has just failed, the last known ones are used;
    /// otherwise the client would wait for the store twice (K-8.7).
    async fn properties_for(
        &self,
        reply: &Reply,
        account: &AccountName,
    ) -> Option<Arc<ServiceProperties>> {
        let last = (reply.status >= 500).then(|| self.service.last_properties(account)).flatten();
        match last {
            Some(last) => Some(last),
            None => self.service.properties(account).await.ok(),
        }
    }

    /// Reports an answered request to metrics and the access log.
    fn observe(&self, record: &Record<'_>) {
        self.meter.count(&record.measured());
        self.log(record);
    }

    fn log(&self, record: &Record<'_>) {
        let log = &self.shared.options.access_log;
        if log.wants(record) {
            let path = record.request.map_or("", |request| request.uri.path());
            let start = path.len().saturating_sub(record.context.resource_bytes);
            log.write(record, S::NAME, path.get(start..).and_then(S::resource_name));
        }
    }

    /// Responds to the only request on a connection beyond the limit.
    pub(crate) async fn refuse<B>(&self, request: Request<B>, peer: Peer) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (parts, mut body) = request.into_parts();
        let headers = RequestHeaders::of(&parts.headers);
        let mut context = self.response_context(&parts, &headers);
        let open = OpenRequest { front: self, request: &parts, peer, context: &mut context };
        body::discard(&mut body).await;
        let busy = ErrorCode::ServerBusy.into();
        let reply = self.error_reply(&busy, &parts, &headers, open.context);
        self.shared.connections_refused.increment();
        open.answered(&reply);
        let mut response = context.respond(reply, S::SERVER, parts.headers);
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    /// The response to a request with an unreadable head. hyper chose the status.
    pub(crate) fn refuse_unread(&self, status: StatusCode, peer: Peer) -> Vec<u8> {
        let (parts, ()) = Request::new(()).into_parts();
        let headers = RequestHeaders::of(&parts.headers);
        let mut context = self.response_context(&parts, &headers);
        let now = context.now;
        let error = unread::error_code(status).into();
        let mut reply = self.error_reply(&error, &parts, &headers, &context);
        let record = Record::new(&context, &parts, peer, &reply, now);
        self.observe(&Record { request: None, status: Some(status.as_u16()), ..record });
        context.flight.answered();
        let body = std::mem::take(&mut reply.body);
        let response = context.respond(reply, S::SERVER, HeaderMap::new());
        unread::write_answer(status, response.headers(), now, &body)
    }

    fn response_context(&self, parts: &Parts, headers: &RequestHeaders<'_>) -> ResponseContext {
        let shared = &self.shared;
        let (id, now, explain) =
            (shared.ids.next(), shared.clock.now(), shared.options.auth.explain);
        let flight = Flight::begin(&self.meter);
        ResponseContext::new(id, now, flight, &parts.method, headers, explain)
    }

    /// The response to a failed request. Server errors are logged here.
    fn error_reply(
        &self,
        error: &ApiError,
        request: &Parts,
        headers: &RequestHeaders<'_>,
        context: &ResponseContext,
    ) -> Reply {
        error.log(context.id, context.operation.map_or("Unknown", |facts| facts.name));
        let mut reply = self.service.error_reply(&Failed { error, request, headers, context });
        // A 401 tells clients where to get a token.
        if reply.status == 401 {
            reply.www_authenticate = Some(Box::new(self.shared.challenge.clone()));
        }
        reply
    }

    async fn answer<B>(
        &self,
        parts: &Parts,
        headers: &RequestHeaders<'_>,
        body: &mut B,
        peer: Peer,
        response: &mut ResponseContext,
    ) -> ApiResult<Reply>
    where
        B: Body<Data = Bytes> + Send + Unpin,
        B::Error: Send,
    {
        let (shared, options) = (&*self.shared, &self.shared.options);
        let extensions = extensions::are_asked_for(headers.extensions, options.extensions);
        response.asks_extensions = !matches!(extensions, Ok(false));
        let query = Query::parse(parts.uri.query().unwrap_or_default())
            .map_err(|_| ErrorCode::RequestUrlFailedToParse)?;
        let suffixes = self.service.host_suffixes();
        let Target { account, location, path, path_style, base } =
            Target::find(&parts.uri, headers, peer.scheme(), &shared.accounts, suffixes)?;
        response.target = Some((account.clone(), location));
        response.resource_bytes = path.len();
        let version = Version::of(headers, &query, options.version_check)?;
        let version = response.version.insert(version).parsed;
        if parts.method == http::Method::OPTIONS {
            response.operation = Some(S::PREFLIGHT);
            response.flight.slot = Slot::PREFLIGHT;
            let properties = self.service.properties(&account.name).await?;
            return cors::preflight(&properties.cors, &parts.headers);
        }
        response.is_addressed = true;

        let presented = Presented {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            resource: path,
            query: &query,
            raw_query: parts.uri.query().unwrap_or_default(),
            headers,
            version,
            caller: Caller { now: response.now, address: peer.address.ip(), https: peer.https },
            date_check: options.date_check,
        };
        let known = Authenticator {
            service: &self.service,
            accounts: &shared.accounts,
            options: &options.auth,
        };
        let principal = known.authenticate(&account, &presented).await?;
        response.is_authenticated = true;
        response.signing_key = principal.signing_key();

        let path = uri::percent_decode(path).map_err(|_| ErrorCode::RequestUrlFailedToParse)?;
        let verb = Verb::parse(parts.method.as_str()).tunnelled(headers.tunnels())?;
        let extensions = extensions?;
        let unrouted = Unrouted {
            verb,
            path: &path,
            query: &query,
            headers,
            account: &account.name,
            extensions,
        };
        let (operation, resource) = self.service.route(&unrouted)?;
        let facts = operation.facts();
        response.operation = Some(facts);
        response.flight.slot = Slot::of(operation.index());
        if version < facts.since {
            return Err(ErrorCode::InvalidQueryParameterValue.into());
        }
        if location == Location::Secondary && facts.access == Access::Writes {
            let code = ErrorCode::InsufficientAccountPermissions;
            return Err(ApiError::with_text(code, message::WRITE_TO_SECONDARY));
        }
        if facts.access == Access::Writes && options.disk.is_full() && !gives_space(verb, facts) {
            return Err(ErrorCode::ServerBusy.into());
        }

        let takes_body = facts.body != BodyKind::None;
        if takes_body && !headers.has_length {
            return Err(ErrorCode::MissingContentLengthHeader.into());
        }
        let body = shared.bodies.read(body).await?;
        response.bytes_in = body.bytes.len() as u64;
        if takes_body {
            response.received = Some(shared.clock.now());
        }
        let context = RequestContext {
            id: response.id,
            now: response.now,
            account,
            location,
            version,
            base,
            path_style,
            explain: options.auth.explain,
            tolerance: Tolerance::new(options.profile),
            extensions,
            client: peer.address.ip(),
        };
        let request = Routed {
            operation,
            resource: &resource,
            query: &query,
            headers,
            spellings: if S::HAS_METADATA { parts.extensions.get() } else { None },
            body: &body.bytes,
        };
        let time = operation_time(&query)?;
        if facts.answer != Answer::Parts {
            principal.permit(facts, &resource)?;
        }
        let run = pin!(self.service.handle(shared, &context, &request, &principal));
        let outcome = match time {
            Some(time) => within(|| time, run).await,
            // The timer of the whole request applies.
            None => run.await,
        };
        response.would_fail = context.tolerance.would_fail();
        outcome
    }
}

/// A request before its response. If dropped without one, it was cut: it is logged here, and its flight
/// counts it.
struct OpenRequest<'a, S: Service> {
    front: &'a Front<S>,
    request: &'a Parts,
    peer: Peer,
    context: &'a mut ResponseContext,
}

impl<S: Service> OpenRequest<'_, S> {
    /// Reports the response, which is ready now.
    fn answered(self, reply: &Reply) -> Timestamp {
        let ended = self.front.shared.clock.now();
        self.front.observe(&Record::new(self.context, self.request, self.peer, reply, ended));
        self.context.flight.answered();
        ended
    }
}

impl<S: Service> Drop for OpenRequest<'_, S> {
    fn drop(&mut self) {
        if !self.context.flight.is_answered() {
            let ended = self.front.shared.clock.now();
            self.front.log(&Record::cut(self.context, self.request, self.peer, ended));
        }
    }
}

/// Whether a write frees disk space, as deleting a table, a queue or a container does.
fn gives_space(verb: Verb, facts: &Facts) -> bool {
    verb == Verb::Delete && facts.kind == Kind::Settings
}

/// The outcome of `run` if it finishes in time. Most futures are ready at the first poll and need
/// no timer.
async fn within<T>(
    time: impl Fn() -> Duration,
    mut run: Pin<&mut impl Future<Output = ApiResult<T>>>,
) -> ApiResult<T> {
    let mut timer = pin!(None);
    poll_fn(|context| {
        if let Poll::Ready(outcome) = run.as_mut().poll(context) {
            return Poll::Ready(outcome);
        }
        if timer.is_none() {
            timer.set(Some(tokio::time::sleep(time())));
        }
        match timer.as_mut().as_pin_mut() {
            Some(timer) => timer.poll(context).map(|()| Err(ErrorCode::OperationTimedOut.into())),
            None => Poll::Pending,
        }
    })
    .await
}
