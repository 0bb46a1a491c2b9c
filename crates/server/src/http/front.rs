//! One function read top to bottom: id, limits, account, authenticate, route, handle, answer.

use crate::auth::accounts::Accounts;
use crate::auth::authenticate::{AuthOptions, Authenticator, Presented};
use crate::auth::delegation;
use crate::auth::permit::Principal;
use crate::http::analytics::{self, Analytics, Answered};
use crate::http::answer_memory::AnswerMemory;
use crate::http::body::{self, BodyMemory};
use crate::http::cors;
use crate::http::error::{ApiError, ApiResult};
use crate::http::listen::Peer;
use crate::http::profile::{Profile, Tolerance};
use crate::http::reply::Reply;
use crate::http::request::{CallHeaders, RequestContext, operation_time};
use crate::http::request_headers::RequestHeaders;
use crate::http::request_id::RequestIds;
use crate::http::respond::{Heading, ResponseBody};
use crate::http::simulate::{SimulateOptions, Simulator};
use crate::http::target::Target;
use crate::table::batch;
use crate::table::handlers::{self as table, Call};
use crate::table::operation::Operation;
use crate::table::properties::PropertiesCache;
use crate::table::route::{self, Verb};
use crate::table::xml_resources;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use hyper::body::{Body, Incoming};
use lazuli_model::limits::REQUEST_MS_MAX;
use lazuli_model::{AccountName, Clock};
use lazuli_table::TableService;
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::sas::Caller;
use lazuli_wire::uri::{self, Location, Query, ResourcePath};
use lazuli_wire::version::ApiVersion;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Which values of `x-ms-version` are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionCheck {
    /// Any date, by the nearest known behaviour: clients ship new versions before servers do.
    #[default]
    WellFormed,
    /// The published ones only, as the cloud does (T-2.8).
    Strict,
    /// Any text at all.
    Skip,
}

/// How the front behaves.
#[derive(Clone, Debug)]
pub struct FrontOptions {
    pub version_check: VersionCheck,
    /// Whether a signed date must lie within 15 minutes of the clock.
    pub date_check: bool,
    /// Memory that request bodies may take, all together.
    pub body_bytes_max: usize,
    /// Memory that large answers may take, in the making and until their clients have taken them,
    /// all together.
    pub answer_bytes_max: usize,
    /// Queries and transactions that run at once, at most; each is given its part of the memory for
    /// answers before it begins.
    pub queries_max: usize,
    /// How long a request waits for its share of either memory before it is answered `ServerBusy`.
    pub memory_wait_max: Duration,
    /// Names under which the account is the first label of the host, such as `table.localhost`.
    pub host_suffixes: Vec<String>,
    /// Tells the request ids of one run of the server from those of another.
    pub request_id_seed: u64,
    pub auth: AuthOptions,
    pub profile: Profile,
    pub simulate: SimulateOptions,
}

impl Default for FrontOptions {
    fn default() -> Self {
        Self {
            version_check: VersionCheck::default(),
            date_check: true,
            body_bytes_max: 256 * 1024 * 1024,
            answer_bytes_max: 256 * 1024 * 1024,
            queries_max: 32,
            memory_wait_max: Duration::from_secs(10),
            host_suffixes: vec!["table.localhost".to_owned(), "table.core.windows.net".to_owned()],
            request_id_seed: 0,
            auth: AuthOptions::default(),
            profile: Profile::default(),
            simulate: SimulateOptions::default(),
        }
    }
}

/// Everything a request needs.
pub struct Front {
    service: TableService,
    accounts: Arc<Accounts>,
    clock: Arc<dyn Clock>,
    options: FrontOptions,
    ids: RequestIds,
    bodies: BodyMemory,
    answers: AnswerMemory,
    properties: Arc<PropertiesCache>,
    analytics: Arc<Analytics>,
    simulator: Option<Arc<Simulator>>,
    /// What a 401 sends clients to.
    challenge: HeaderValue,
}

impl Front {
    pub fn new(
        service: TableService,
        accounts: Arc<Accounts>,
        clock: Arc<dyn Clock>,
        options: FrontOptions,
    ) -> Self {
        let ids = RequestIds::new(options.request_id_seed);
        let FrontOptions { body_bytes_max, answer_bytes_max, queries_max, .. } = options;
        let bodies = BodyMemory::new(body_bytes_max, options.memory_wait_max);
        let answers = AnswerMemory::new(queries_max, answer_bytes_max, options.memory_wait_max);
        let challenge = options.auth.challenge();
        let simulates = options.simulate != SimulateOptions::default();
        let simulator = simulates.then(|| Arc::new(Simulator::new(options.simulate)));
        let properties = Arc::<PropertiesCache>::default();
        let analytics = Arc::new(Analytics::new(
            service.clone(),
            accounts.clone(),
            properties.clone(),
            clock.clone(),
        ));
        Self {
            service,
            accounts,
            clock,
            options,
            ids,
            bodies,
            answers,
            properties,
            analytics,
            simulator,
            challenge,
        }
    }

    /// What was counted of the requests answered here.
    pub fn analytics(&self) -> Arc<Analytics> {
        self.analytics.clone()
    }

    /// Answers one request. Never fails: what goes wrong is an answer too.
    pub(crate) async fn handle(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Response<ResponseBody> {
        let (parts, mut body) = request.into_parts();
        let headers = RequestHeaders::of(&parts.headers);
        let explain = self.options.auth.explain;
        let mut heading =
            Heading::new(self.ids.next(), self.clock.now(), &parts.method, &headers, explain);
        let deadline = Duration::from_millis(REQUEST_MS_MAX);
        let outcome = {
            let answer = pin!(self.answer(&parts, &headers, &mut body, peer, &mut heading));
            within(deadline, answer).await
        };
        // Who waits for our leave to send the body sees the refusal before it is sent.
        if !body.is_end_stream() && !headers.has_expect {
            body::discard(&mut body).await;
        }
        let mut reply = outcome.unwrap_or_else(|error| heading.error_reply(error, &self.challenge));
        let properties = match &heading.target {
            Some((account, _)) => self.properties.of(&self.service, &account.name).await.ok(),
            None => None,
        };
        if let (Some(properties), true) = (&properties, heading.is_addressed) {
            cors::decorate(&properties.cors, parts.method.as_str(), &parts.headers, &mut reply);
        }
        tracing::debug!(
            id = heading.id.as_str(),
            peer = %peer.address,
            method = %parts.method,
            path = parts.uri.path(),
            status = reply.status,
            "request"
        );
        let counts = properties.is_some_and(|properties| analytics::counts(&properties));
        let answered = if counts { Answered::new(&heading, &reply) } else { None };
        let Some(answered) = answered else {
            // Nobody looks at the headers of the request any more.
            return heading.respond(reply, parts.headers);
        };
        let response = heading.respond(reply, HeaderMap::new());
        self.analytics.count(&answered, &parts, &response);
        response
    }

    /// Answers a request of a connection that there is no place for; it is the last one there.
    pub(crate) async fn refuse(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let (parts, mut body) = request.into_parts();
        let headers = RequestHeaders::of(&parts.headers);
        let (id, now) = (self.ids.next(), self.clock.now());
        let heading = Heading::new(id, now, &parts.method, &headers, false);
        body::discard(&mut body).await;
        let reply = heading.error_reply(ErrorCode::ServerBusy.into(), &self.challenge);
        let mut response = heading.respond(reply, parts.headers);
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    async fn answer(
        &self,
        parts: &Parts,
        headers: &RequestHeaders<'_>,
        body: &mut Incoming,
        peer: Peer,
        heading: &mut Heading,
    ) -> ApiResult<Reply> {
        let query = Query::parse(parts.uri.query().unwrap_or_default())
            .map_err(|_| ErrorCode::RequestUrlFailedToParse)?;
        heading.negotiate(headers, &query);
        let suffixes = &self.options.host_suffixes;
        let Target { account, location, path, path_style, base } =
            Target::find(&parts.uri, headers, peer.scheme(), &self.accounts, suffixes)?;
        heading.target = Some((account.clone(), location));
        let version = self.version(headers, &query)?;
        heading.version = Some(version.text);
        if parts.method == http::Method::OPTIONS {
            heading.operation = Some("TablePreflightRequest");
            let properties = self.properties.of(&self.service, &account.name).await?;
            return cors::preflight(&properties.cors, &parts.headers);
        }
        heading.is_addressed = true;

        let presented = Presented {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: &query,
            raw_query: parts.uri.query().unwrap_or_default(),
            headers,
            version: version.parsed,
            caller: Caller { now: heading.now, address: peer.address.ip(), https: peer.https },
            date_check: self.options.date_check,
        };
        let known = Authenticator {
            service: &self.service,
            accounts: &self.accounts,
            options: &self.options.auth,
        };
        let principal = known.authenticate(&account, &presented).await?;
        heading.authenticated = true;

        let path = uri::percent_decode(path).map_err(|_| ErrorCode::RequestUrlFailedToParse)?;
        let verb = Verb::parse(parts.method.as_str()).tunnelled(headers.tunnels())?;
        let operation = route::resolve(verb, ResourcePath::parse(&path), &query, &account.name)
            .map_err(ApiError::while_parsing)?;
        heading.operation = Some(operation.api(headers.if_match.is_some()));
        if !operation.exists_at(version.parsed) {
            return Err(ErrorCode::InvalidQueryParameterValue.into());
        }
        if location == Location::Secondary && operation.writes() {
            let code = ErrorCode::InsufficientAccountPermissions;
            return Err(ApiError::with_text(code, message::WRITE_TO_SECONDARY));
        }

        if operation.takes_body() && !headers.has_length {
            return Err(ErrorCode::MissingContentLengthHeader.into());
        }
        let body = self.bodies.read(body).await?;
        if operation.takes_body() {
            heading.received = Some(self.clock.now());
        }
        let headers = CallHeaders::of_request(headers).known_at(version.parsed);
        let call = Call { operation: &operation, headers, query: &query, body: &body.bytes };
        heading.preference = call.preference();
        let context = RequestContext {
            id: heading.id,
            now: heading.now,
            account,
            location,
            version: version.parsed,
            base,
            path_style,
            explain: self.options.auth.explain,
            tolerance: Tolerance::new(self.options.profile),
            simulator: self.simulator.clone(),
        };
        context.simulate(|simulator| simulator.admit(&context.account.name, context.now))?;
        let time = operation_time(&query)?;
        let run = pin!(self.dispatch(&context, &call, &principal));
        let outcome = match time {
            Some(time) => within(time, run).await,
            // The timer of the whole request does.
            None => run.await,
        };
        heading.would_fail = context.tolerance.would_fail();
        outcome
    }

    /// Runs the operation. What is seldom or takes long anyway has its state in a box of its own, so
    /// that the state of a point read stays small.
    async fn dispatch(
        &self,
        context: &RequestContext,
        call: &Call<'_>,
        principal: &Principal,
    ) -> ApiResult<Reply> {
        match call.operation {
            Operation::Transaction => {
                Box::pin(batch::handle(&self.service, &self.answers, context, call, principal))
                    .await
            }
            Operation::GetUserDelegationKey if self.options.auth.user_delegation => {
                delegation::give_key(context, call, principal)
            }
            Operation::GetUserDelegationKey => Err(ErrorCode::InvalidQueryParameterValue.into()),
            operation if operation.is_xml() => {
                principal.permit(call)?;
                let reply = Box::pin(xml_resources::handle(&self.service, context, call)).await;
                if *operation == Operation::SetServiceProperties {
                    self.take_up_properties(&context.account.name).await?;
                }
                reply
            }
            operation if operation.is_query() => {
                let run = table::handle(&self.service, context, call, principal);
                Box::pin(self.answers.hold_page(run)).await
            }
            _ => table::handle(&self.service, context, call, principal).await,
        }
    }

    /// Makes changed properties effective (T-9.15).
    async fn take_up_properties(&self, account: &AccountName) -> ApiResult<()> {
        self.properties.forget(account);
        let properties = self.properties.of(&self.service, account).await?;
        Ok(self.analytics.prepare(account, &properties).await?)
    }

    /// The version of a request: its header, else what a shared access signature says (T-2.10).
    fn version(&self, headers: &RequestHeaders<'_>, query: &Query<'_>) -> ApiResult<Version> {
        let text = match headers.version {
            Some(value) => Some(value.to_str().map_err(|_| ErrorCode::InvalidHeaderValue)?),
            None => query.get("api-version").or_else(|| query.get("sv")),
        };
        let Some(text) = text else {
            let parsed = ApiVersion::UNSTATED;
            let text = HeaderValue::try_from(parsed.to_string());
            let text = text.map_err(|_| ErrorCode::InternalError)?;
            return Ok(Version { parsed, text });
        };
        let parsed = ApiVersion::parse(text);
        let served = match self.options.version_check {
            VersionCheck::WellFormed => parsed,
            VersionCheck::Strict => parsed.filter(|version| version.is_known()),
            VersionCheck::Skip => parsed.or(Some(ApiVersion::NEWEST)),
        };
        let parsed = served.ok_or(ErrorCode::InvalidHeaderValue)?;
        let text = match headers.version {
            Some(value) => value.clone(),
            None => HeaderValue::try_from(text).map_err(|_| ErrorCode::InvalidHeaderValue)?,
        };
        Ok(Version { parsed, text })
    }
}

struct Version {
    parsed: ApiVersion,
    /// As sent: the answer repeats it (T-2.7).
    text: HeaderValue,
}

/// The outcome of `run` if it comes in time. Most answers are there at the first look, and those
/// need no timer.
async fn within<T>(
    time: Duration,
    mut run: Pin<&mut impl Future<Output = ApiResult<T>>>,
) -> ApiResult<T> {
    let mut timer = pin!(None);
    poll_fn(|context| {
        if let Poll::Ready(outcome) = run.as_mut().poll(context) {
            return Poll::Ready(outcome);
        }
        if timer.is_none() {
            timer.set(Some(tokio::time::sleep(time)));
        }
        match timer.as_mut().as_pin_mut() {
            Some(timer) => timer.poll(context).map(|()| Err(ErrorCode::OperationTimedOut.into())),
            None => Poll::Pending,
        }
    })
    .await
}
