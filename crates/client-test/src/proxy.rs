//! A proxy that loses requests and answers on demand, between a client and the real services (C-19.2).

use crate::clock::{TestClock, lock};
use crate::script::{Exchange, Fault, Match, Script, When};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{CONNECTION, CONTENT_LENGTH, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, request, uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lazuli_client::{Account, AccountBuilder};
use lazuli_wire::connection_string::{
    ConnectionString, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, StorageService,
};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

type Body = UnsyncBoxBody<Bytes, Lost>;

/// Why a connection ends without a complete answer.
#[derive(Clone, Copy, Debug)]
struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the proxy ends the connection")
    }
}

impl std::error::Error for Lost {}

/// A proxy in front of the services of one account: one port for each service, one script for all.
///
/// It speaks HTTP over real sockets, so that a client experiences real faults: connections that end before, within or
/// instead of an answer. It records every exchange, so that tests can count the cost of an operation. When dropped, it
/// closes its ports and all connections.
pub struct FaultProxy {
    shared: Arc<Shared>,
    connection_string: String,
    account: Account,
    ports: Vec<JoinHandle<()>>,
}

struct Shared {
    script: Mutex<Script>,
    exchanges: Mutex<Vec<Exchange>>,
    clock: Option<TestClock>,
    /// Whether the client has crashed: nothing passes any more.
    is_crashed: watch::Sender<bool>,
    upstream: Client<HttpConnector, Full<Bytes>>,
}

impl FaultProxy {
    /// A proxy in front of the services in a connection string of the well-known account, with addresses such as
    /// `http://127.0.0.1:10002/devstoreaccount1`. Runs on the caller's runtime.
    pub fn before(connection_string: &str) -> io::Result<Self> {
        Self::start(&Handle::current(), connection_string, None, 0)
    }

    /// The same, with a clock for delays and for its accounts; `seed` determines its random choices.
    pub fn before_with(connection_string: &str, clock: TestClock, seed: u64) -> io::Result<Self> {
        Self::start(&Handle::current(), connection_string, Some(clock), seed)
    }

    /// A proxy with delays on `clock` and random choices from `seed`; it runs on `runtime`.
    pub(crate) fn start(
        runtime: &Handle,
        connection_string: &str,
        clock: Option<TestClock>,
        seed: u64,
    ) -> io::Result<Self> {
        let target = ConnectionString::parse(connection_string).map_err(io::Error::other)?;
        let shared = Arc::new(Shared {
            script: Mutex::new(Script::new(seed)),
            exchanges: Mutex::default(),
            clock,
            is_crashed: watch::Sender::new(false),
            upstream: Client::builder(TokioExecutor::new()).build_http(),
        });
        let mut ports = Vec::new();
        let mut own = format!("AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY};");
        // Sockets and the client's tasks belong to the entered runtime.
        let _entered = runtime.enter();
        for (service, name) in [
            (StorageService::Table, "TableEndpoint"),
            (StorageService::Queue, "QueueEndpoint"),
            (StorageService::Blob, "BlobEndpoint"),
        ] {
            let Some(endpoint) = target.endpoint(service) else { continue };
            let address: Uri = endpoint.primary.parse().map_err(io::Error::other)?;
            let (Some("http"), Some(authority)) = (address.scheme_str(), address.authority())
            else {
                // Endpoints that were derived from the account's name, not configured.
                continue;
            };
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            let path = address.path().trim_end_matches('/');
            own += &format!("{name}=http://{}{path};", listener.local_addr()?);
            let port = Port { shared: shared.clone(), service, target: authority.clone() };
            ports.push(tokio::spawn(port.listen(listener)));
        }
        let account = builder(&own, shared.clock.as_ref())?.build().map_err(io::Error::other)?;
        Ok(Self { shared, connection_string: own, account, ports })
    }

    /// The account behind the proxy.
    pub fn account(&self) -> Account {
        self.account.clone()
    }

    /// The same, for accounts with other options.
    pub fn builder(&self) -> io::Result<AccountBuilder> {
        builder(&self.connection_string, self.shared.clock.as_ref())
    }

    /// The endpoints of the proxy, for any client.
    pub fn connection_string(&self) -> &str {
        &self.connection_string
    }

    /// Adds a rule. Of the rules that match an exchange, the first one added applies.
    pub fn add(&self, which: Match, when: When, what: Fault) {
        lock(&self.shared.script).add(which, when, what);
    }

    /// Sets the faults of the next requests, whatever they are, and discards the recorded exchanges.
    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        lock(&self.shared.script).set_next(faults);
        self.take();
    }

    /// Removes all rules.
    pub fn clear(&self) {
        lock(&self.shared.script).clear();
    }

    /// The exchanges since the last call of [`FaultProxy::take`] or [`FaultProxy::next`], in the order of arrival.
    pub fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.shared.exchanges).clone()
    }

    /// The same, and discards them.
    pub fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut lock(&self.shared.exchanges))
    }

    /// The methods of the recorded exchanges.
    pub fn methods(&self) -> Vec<String> {
        lock(&self.shared.exchanges).iter().map(|exchange| exchange.method.to_string()).collect()
    }

    /// Completes after a [`Fault::CrashBefore`] or [`Fault::CrashAfter`]: time to drop the client.
    pub async fn crashed(&self) {
        // The sender lives as long as `self`.
        let _ = self.shared.is_crashed.subscribe().wait_for(|is_crashed| *is_crashed).await;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.ports.iter().for_each(JoinHandle::abort);
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy").field("account", &self.account).finish_non_exhaustive()
    }
}

/// The account of a connection string, on the test's clock if there is one.
pub(crate) fn builder(text: &str, clock: Option<&TestClock>) -> io::Result<AccountBuilder> {
    let builder = AccountBuilder::from_connection_string(text).map_err(io::Error::other)?;
    Ok(match clock {
        Some(clock) => builder.env(clock.env()),
        None => builder,
    })
}

/// The proxy of one service.
#[derive(Clone)]
struct Port {
    shared: Arc<Shared>,
    service: StorageService,
    target: uri::Authority,
}

impl Port {
    async fn listen(self, listener: TcpListener) {
        // Dropping this task also ends its connections.
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            // An answer in two parts must not wait for an acknowledgement of the first.
            let _ = stream.set_nodelay(true);
            while connections.try_join_next().is_some() {}
            let port = self.clone();
            connections.spawn(async move {
                let service = service_fn(|request| port.exchange(request));
                let connection = hyper::server::conn::http1::Builder::new();
                // An error is the normal end of a disturbed connection.
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn exchange(&self, request: Request<Incoming>) -> Result<Response<Body>, Lost> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
        let shared = &*self.shared;
        let (number, fault) = self.admit(&head, &body).await;
        match fault {
            Fault::DropRequest => return Err(Lost),
            Fault::CrashBefore => return shared.crash().await,
            Fault::Busy { retry_after } => return Ok(busy(retry_after)),
            _ => {}
        }
        let is_head = head.method == Method::HEAD;
        let answer = self.forward(head, body).await?;
        if let Some(exchange) = lock(&shared.exchanges).get_mut(number) {
            exchange.status = Some(answer.status().as_u16());
        }
        shared.pass_only_the_living().await;
        match fault {
            Fault::DropReply => return Err(Lost),
            Fault::CutReply if answer.body().is_empty() => return Err(Lost),
            Fault::CrashAfter => return shared.crash().await,
            Fault::Delay(delay) => match &shared.clock {
                Some(clock) => clock.pass(delay).await,
                None => tokio::time::sleep(delay).await,
            },
            _ => {}
        }
        Ok(passed_on(answer, is_head, fault == Fault::CutReply))
    }

    /// Records the request and decides its fault.
    async fn admit(&self, head: &request::Parts, body: &Bytes) -> (usize, Fault) {
        self.shared.pass_only_the_living().await;
        let mut exchange = Exchange {
            service: self.service,
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head.headers.clone(),
            body: body.clone(),
            fault: Fault::Pass,
            status: None,
        };
        // Decide and record in one step, so that both have the same order.
        let mut script = lock(&self.shared.script);
        exchange.fault = script.fault(&exchange);
        let fault = exchange.fault;
        let mut exchanges = lock(&self.shared.exchanges);
        exchanges.push(exchange);
        (exchanges.len() - 1, fault)
    }

    /// Sends the request unchanged, and reads the whole answer.
    async fn forward(&self, head: request::Parts, body: Bytes) -> Result<Response<Bytes>, Lost> {
        let mut target = uri::Parts::default();
        target.scheme = Some(uri::Scheme::HTTP);
        target.authority = Some(self.target.clone());
        target.path_and_query = head.uri.path_and_query().cloned();
        let mut request = Request::from_parts(head, Full::new(body));
        *request.uri_mut() = Uri::from_parts(target).map_err(|_| Lost)?;
        request.headers_mut().remove(CONNECTION);
        let answer = self.shared.upstream.request(request).await.map_err(|_| Lost)?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}

impl Shared {
    /// Waits forever if the client has crashed.
    async fn pass_only_the_living(&self) {
        if *self.is_crashed.borrow() {
            std::future::pending().await
        }
    }

    /// Marks the client as crashed. Its connections stay open, so that it learns nothing.
    async fn crash(&self) -> Result<Response<Body>, Lost> {
        self.is_crashed.send_replace(true);
        std::future::pending().await
    }
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn busy(retry_after: Option<u32>) -> Response<Body> {
    let mut answer = Response::new(whole(Bytes::new()));
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = answer.headers_mut();
    headers.insert("x-ms-error-code", HeaderValue::from_static("ServerBusy"));
    if let Some(seconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// The answer, with a complete body or one cut in the middle.
fn passed_on(answer: Response<Bytes>, is_head: bool, is_cut: bool) -> Response<Body> {
    let (mut head, body) = answer.into_parts();
    head.headers.remove(CONNECTION);
    head.headers.remove(TRANSFER_ENCODING);
    let has_length = !is_head && !body.is_empty();
    if has_length {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    let body = if is_cut {
        let first = body.slice(..body.len() / 2);
        let pieces = stream::iter([Ok(Frame::data(first))]);
        // The bytes written so far are sent before the connection ends.
        let end = stream::once(async {
            tokio::task::yield_now().await;
            Err(Lost)
        });
        StreamBody::new(pieces.chain(end)).boxed_unsync()
    } else {
        whole(body)
    };
    Response::from_parts(head, body)
}
