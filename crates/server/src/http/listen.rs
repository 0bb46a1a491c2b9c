//! Accepts connections, bounds them, and ends them without cutting a request short.

use crate::http::front::Front;
use crate::http::guarded::Guarded;
use crate::http::header_case::HeaderCase;
use crate::http::meter::{ConnectionMeter, CutReason, Handshake};
use crate::http::peer::Peer;
use crate::http::service::Service;
use crate::http::stall::StallGuard;
use crate::http::tls::{self, Tls};
use crate::http::unread::Unread;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use lazuli_meter::Label;
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::server::TlsStream;

/// The header lines that hyper allows by default.
const HYPER_HEADERS_MAX: usize = 100;

/// The protocol of connections, and their bounds.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// HTTPS with this certificate; without it plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// Maximum connections; any more get `ServerBusy` and are closed.
    pub connections_max: usize,
    /// A shared bound on the connections of several listeners.
    pub connection_bound: Option<ConnectionBound>,
    /// Maximum bytes of a request line and its headers.
    pub header_bytes_max: usize,
    /// Maximum header lines of a request.
    pub headers_max: usize,
    /// How long a connection may be idle, or take to send its headers.
    pub header_read_timeout: Duration,
    /// How long a client may go without reading anything of a response.
    pub write_timeout: Duration,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long in-flight requests may continue after shutdown begins.
    pub shutdown_grace: Duration,
    /// Counts the connections; by default they are counted under the name of the service.
    pub meter: Option<Arc<ConnectionMeter>>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            tls: None,
            connections_max: 16 * 1024,
            connection_bound: None,
            header_bytes_max: 64 * 1024,
            headers_max: HYPER_HEADERS_MAX,
            header_read_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(30),
            meter: None,
        }
    }
}

/// A shared bound on the connections of several listeners.
#[derive(Clone, Debug)]
pub struct ConnectionBound(Arc<Semaphore>);

impl ConnectionBound {
    pub fn new(connections_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(connections_max)))
    }
}

/// Maximum connections being refused at a time; any more wait in the listener's backlog.
const REFUSALS_MAX: usize = 64;
/// How long a connection may take to be refused.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(5);

impl ListenOptions {
    /// How HTTP is spoken on connections.
    pub fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_read_timeout)
            .max_buf_size(self.header_bytes_max)
            // The buffer alone would let a head pass that arrives at once and is up to twice as large.
            .max_header_size(self.header_bytes_max)
            // A client may half-close the connection and still wait for the response.
            .half_close(true)
            .auto_date_header(true);
        // Up to its default limit, hyper keeps headers on the stack.
        if self.headers_max != HYPER_HEADERS_MAX {
            builder.max_headers(self.headers_max);
        }
        builder
    }
}

/// Serves `front` on `listener` until `shutdown` resolves, then finishes the requests in flight.
///
/// Returns the number of connections that were cut because the grace period ended.
#[expect(private_bounds, reason = "services are written in this crate; others only name them")]
pub async fn serve<S: Service>(
    listener: TcpListener,
    front: Arc<Front<S>>,
    options: ListenOptions,
    shutdown: impl Future<Output = ()>,
) -> usize {
    let slots = ConnectionSlots::new(options.connections_max, options.connection_bound.clone());
    let (stop, stopping) = watch::channel(false);
    let own_meter = || Arc::new(ConnectionMeter::new(S::NAME.name()));
    let server = Arc::new(Server {
        front,
        meter: options.meter.clone().unwrap_or_else(own_meter),
        options,
        tls_seen_on_plain: AtomicBool::new(false),
        full_seen: AtomicBool::new(false),
    });
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            () = &mut shutdown => break,
        };
        let (stream, peer, slot) = accepted;
        let peer = Peer::new(peer, server.options.tls.is_some());
        let open = OpenConnection::new(server.meter.clone());
        let stopping = stopping.clone();
        let connection = Connection { server: server.clone(), peer, slot, stopping, open };
        tokio::spawn(connection.run(stream));
    }
    drop(listener);
    // Without an open connection there is no receiver, which is not an error.
    let _ = stop.send(true);
    server.front.service().stop_waiting();
    let options = &server.options;
    let all = u32::try_from(options.connections_max).unwrap_or(u32::MAX);
    match tokio::time::timeout(options.shutdown_grace, slots.served.acquire_many(all)).await {
        Ok(_) => 0,
        Err(_) => {
            let cut = options.connections_max - slots.served.available_permits();
            server.meter.cut.of(CutReason::Shutdown).add(cut as u64);
            cut
        }
    }
}

/// The next connection, and its slot.
async fn accept(listener: &TcpListener, slots: &ConnectionSlots) -> (TcpStream, SocketAddr, Slot) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, slots.next().await),
            Err(error) => recover(&error).await,
        }
    }
}

/// The bounds on connections.
struct ConnectionSlots {
    served: Arc<Semaphore>,
    /// The bound shared with other listeners.
    bound: Option<ConnectionBound>,
    refused: Arc<Semaphore>,
}

/// One connection among those served, or among those being refused.
struct Slot {
    refused: bool,
    /// Released when the connection ends, however it ends. Semaphores are never closed, so there
    /// always is one.
    _permit: Option<OwnedSemaphorePermit>,
    /// The same for the shared bound, if there is one.
    _shared: Option<OwnedSemaphorePermit>,
}

impl ConnectionSlots {
    fn new(connections_max: usize, bound: Option<ConnectionBound>) -> Self {
        Self {
            served: Arc::new(Semaphore::new(connections_max)),
            bound,
            refused: Arc::new(Semaphore::new(REFUSALS_MAX)),
        }
    }

    /// If the refusals are at their limit too, new connections wait in the backlog.
    async fn next(&self) -> Slot {
        tokio::select! {
            biased;
            slot = self.served() => slot,
            permit = self.refused.clone().acquire_owned() => {
                Slot { refused: true, _permit: permit.ok(), _shared: None }
            }
        }
    }

    async fn served(&self) -> Slot {
        let permit = self.served.clone().acquire_owned().await;
        let shared = match &self.bound {
            Some(ConnectionBound(bound)) => bound.clone().acquire_owned().await.ok(),
            None => None,
        };
        Slot { refused: false, _permit: permit.ok(), _shared: shared }
    }
}

/// An accept fails because of the peer, or because of a temporary shortage of descriptors: wait,
/// then continue.
async fn recover(error: &io::Error) {
    let peer_left = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    );
    if !peer_left {
        tracing::warn!(%error, "could not accept a connection; will retry");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What all connections share.
struct Server<S> {
    front: Arc<Front<S>>,
    options: ListenOptions,
    meter: Arc<ConnectionMeter>,
    /// Whether a client using TLS on a plain port has been logged.
    tls_seen_on_plain: AtomicBool,
    /// Whether a refused connection has been logged.
    full_seen: AtomicBool,
}

struct Connection<S> {
    server: Arc<Server<S>>,
    peer: Peer,
    stopping: watch::Receiver<bool>,
    slot: Slot,
    open: OpenConnection,
}

/// A connection that its listener counts as open.
struct OpenConnection(Arc<ConnectionMeter>);

impl OpenConnection {
    fn new(meter: Arc<ConnectionMeter>) -> Self {
        meter.accepted.increment();
        meter.open.add(1);
        Self(meter)
    }

    fn cut(&self, reason: CutReason) {
        self.0.cut.of(reason).increment();
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.add(-1);
    }
}

impl<S: Service> Connection<S> {
    async fn run(self, stream: TcpStream) {
        if !self.slot.refused {
            return self.serve_connection(stream).await;
        }
        self.server.log_refusal(self.peer);
        self.open.cut(CutReason::Limit);
        // Cut if it takes longer, because others wait for its slot.
        let _ = tokio::time::timeout(REFUSAL_TIME_MAX, self.serve_connection(stream)).await;
    }

    async fn serve_connection(mut self, stream: TcpStream) {
        // Responses are written in one piece; waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let opened = tokio::select! {
            opened = self.server.open(stream) => opened,
            // No request was received yet.
            () = stopped(&mut self.stopping) => return,
        };
        let ended = match opened {
            // Boxed, so that a connection without a request costs less.
            Ok(Some(Opened::Plain(stream))) => Box::pin(self.serve(stream)).await,
            Ok(Some(Opened::Tls(stream))) => Box::pin(self.serve(stream)).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = ended {
            if let Some(reason) = cut_reason(&*error) {
                self.open.cut(reason);
            }
            tracing::debug!(peer = %self.peer.address, %error, "connection ended");
        }
    }

    async fn serve<T>(&mut self, stream: T) -> Result<(), BoxError>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let Self { server, peer, stopping, slot, .. } = self;
        let options = &server.options;
        let stream = StallGuard::new(stream, options.write_timeout);
        let stream =
            Guarded::new(stream, Unread(|status| server.front.refuse_unread(status, *peer)));
        let case = S::HAS_METADATA.then(HeaderCase::default);
        let stream = Guarded::new(stream, case.as_ref());
        let service = service_fn(|mut request| async {
            if let Some(case) = &case {
                request.extensions_mut().insert(case.of_request());
            }
            let mut response = match slot.refused {
                false => server.front.handle(request, *peer).await,
                true => server.front.refuse(request, *peer).await,
            };
            if let Some(case) = &case {
                case.respond(response.extensions_mut().remove().unwrap_or_default());
            }
            Ok::<_, Infallible>(response)
        });
        let connection = options.http1().serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped(stopping) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        Ok(ended?)
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

/// Why the server closed a connection; `None` if the client did.
fn cut_reason(error: &(dyn Error + 'static)) -> Option<CutReason> {
    if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_timeout) {
        return Some(CutReason::HeaderTime);
    }
    let mut causes = std::iter::successors(Some(error), |&cause| cause.source());
    let timed_out = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
    causes.any(|cause| cause.downcast_ref().is_some_and(timed_out)).then_some(CutReason::Stalled)
}

/// A connection that is ready for HTTP.
enum Opened {
    Plain(TcpStream),
    /// Boxed, because it is many times larger than a plain socket.
    Tls(Box<TlsStream<TcpStream>>),
}

impl<S> Server<S> {
    /// Prepares a connection for HTTP; `None` if its client uses another protocol.
    async fn open(&self, stream: TcpStream) -> io::Result<Option<Opened>> {
        match &self.options.tls {
            Some(tls) => {
                // Boxed, like its result, so that plain connections stay small.
                let opened = Box::pin(handshake(stream, tls));
                let opened = tokio::time::timeout(self.options.handshake_timeout, opened).await;
                let opened = opened.map_err(io::Error::from).flatten();
                self.meter.handshakes.of(Handshake::of(&opened)).increment();
                opened
            }
            None => {
                let first = tls::opens_with_tls(&stream);
                let first = tokio::time::timeout(self.options.header_read_timeout, first).await??;
                if first == Some(true) {
                    self.log_tls_on_plain(&stream);
                }
                Ok((first == Some(false)).then_some(Opened::Plain(stream)))
            }
        }
    }

    /// Logs only the first refusal at warn, not thousands.
    fn log_refusal(&self, peer: Peer) {
        let (peer, connections) = (peer.address, self.options.connections_max);
        if self.full_seen.swap(true, Ordering::Relaxed) {
            tracing::debug!(%peer, "refused: the connection limit is reached");
        } else {
            tracing::warn!(
                %peer,
                connections,
                "the connection limit is reached; new connections get ServerBusy \
                 (further ones are logged at debug)"
            );
        }
    }

    /// Logs only the first such client at warn, not a whole misconfigured fleet.
    fn log_tls_on_plain(&self, stream: &TcpStream) {
        let peer = stream.peer_addr().ok();
        if self.tls_seen_on_plain.swap(true, Ordering::Relaxed) {
            tracing::debug!(?peer, "closed: the client speaks TLS, this port plain HTTP");
        } else {
            tracing::info!(
                ?peer,
                "a client uses TLS on this plain HTTP port; use http:// in the client, \
                 or start with --tls (further clients are logged at debug)"
            );
        }
    }
}

impl Handshake {
    /// A client that sends nothing, or plain HTTP, gets no connection.
    fn of(opened: &io::Result<Option<Opened>>) -> Self {
        match opened {
            Ok(Some(_)) => Self::Ok,
            Ok(None) => Self::PlainHttp,
            Err(_) => Self::Failed,
        }
    }
}

/// Performs the TLS handshake, and tells plain HTTP clients to use HTTPS.
async fn handshake(stream: TcpStream, tls: &Tls) -> io::Result<Option<Opened>> {
    match tls::opens_with_tls(&stream).await? {
        Some(true) => {
            let stream = tls.acceptor().accept(stream).await?;
            Ok(Some(Opened::Tls(Box::new(stream))))
        }
        Some(false) => {
            let local = stream.local_addr()?;
            tls::refuse_plain_http(stream, local).await.map(|()| None)
        }
        None => Ok(None),
    }
}

/// Resolves when shutdown begins.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The sender outlives the wait; without it, shutdown would be over anyway.
    let _ = stopping.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests;
