//! Accepts connections, bounds them, and ends them without cutting a request short.

use crate::front::Front;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Bounds on connections.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Connections served at once; further ones wait in the listener's backlog.
    pub connections_max: usize,
    /// Bytes of a request line and its headers.
    pub header_bytes_max: usize,
    /// Header lines of a request.
    pub headers_max: usize,
    /// How long a connection may stand idle, or take to send its headers.
    pub header_read_timeout: Duration,
    /// How long requests in flight may go on after shutdown began.
    pub shutdown_grace: Duration,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            connections_max: 16 * 1024,
            header_bytes_max: 64 * 1024,
            headers_max: 100,
            header_read_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

/// Serves `front` on `listener` until `shutdown` resolves, then finishes the requests in flight.
///
/// Returns the number of connections that were cut because the grace period ended.
pub async fn serve(
    listener: TcpListener,
    front: Arc<Front>,
    options: ListenOptions,
    shutdown: impl Future<Output = ()>,
) -> usize {
    let places = Arc::new(Semaphore::new(options.connections_max));
    let (stop, stopping) = watch::channel(false);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut shutdown => break,
        };
        let (stream, peer, place) = accepted;
        let peer = Peer::new(peer, false);
        let connection = Connection { stream, peer, place, stopping: stopping.clone() };
        tokio::spawn(connection.run(front.clone(), options.clone()));
    }
    drop(listener);
    // Nobody listens when no connection is open; that is no error.
    let _ = stop.send(true);
    let all = u32::try_from(options.connections_max).unwrap_or(u32::MAX);
    match tokio::time::timeout(options.shutdown_grace, places.acquire_many(all)).await {
        Ok(_) => 0,
        Err(_) => options.connections_max - places.available_permits(),
    }
}

/// Waits for a place first, so that a full server leaves newcomers in the backlog.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed, so a place always comes.
    let place = places.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            Err(error) => recover(&error).await,
        }
    }
}

/// A failed accept is the peer's doing, or a shortage of descriptors that passes: wait, and go on.
async fn recover(error: &io::Error) {
    let peer_left = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    );
    if !peer_left {
        tracing::warn!(%error, "could not accept a connection; trying again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Who is at the other end of a connection, and how it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) https: bool,
}

impl Peer {
    /// An IPv4 client of a socket that takes both families is known by its IPv4 address.
    fn new(address: SocketAddr, https: bool) -> Self {
        Self { address: SocketAddr::new(address.ip().to_canonical(), address.port()), https }
    }

    pub(crate) const fn scheme(self) -> &'static str {
        if self.https { "https" } else { "http" }
    }
}

struct Connection {
    stream: TcpStream,
    peer: Peer,
    place: Option<OwnedSemaphorePermit>,
    stopping: watch::Receiver<bool>,
}

impl Connection {
    async fn run(self, front: Arc<Front>, options: ListenOptions) {
        let Self { stream, peer, place, mut stopping } = self;
        // Answers are written whole; waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let service = service_fn(move |request| {
            let front = front.clone();
            async move { Ok::<_, Infallible>(front.handle(request, peer).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(options.header_read_timeout)
            .max_headers(options.headers_max)
            .max_buf_size(options.header_bytes_max)
            .auto_date_header(true)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped(&mut stopping) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(peer = %peer.address, %error, "connection ended");
        }
        drop(place);
    }
}

/// Resolves when shutdown begins.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The sender outlives the wait; were it gone, shutdown would be over too.
    let _ = stopping.wait_for(|stop| *stop).await;
}
