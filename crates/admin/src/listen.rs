//! Accepts connections, with its own thread and limits.

use crate::guard::Hosts;
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::routes::Routes;
use crate::token::Tokens;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use lazuli_server::Tls;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// Maximum connections; any more wait in the backlog.
const CONNECTIONS_MAX: usize = 64;
/// Maximum bytes of a request line and its headers.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// How long a connection may be idle, or take for the TLS handshake or its headers.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// How long sending one response may take.
const CONNECTION_MAX: Duration = Duration::from_secs(60);
/// The pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// What the listener serves.
#[derive(Debug)]
pub struct AdminOptions {
    /// Names under which it may be addressed, besides `localhost` and its own address.
    pub names: Vec<String>,
    /// Serves HTTPS with this certificate, once it is loaded; `None` serves plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// The tokens for metrics; `None` needs no token.
    pub tokens: Option<Arc<Tokens>>,
    pub readiness: Arc<Readiness>,
    pub metrics: Arc<Metrics>,
}

/// The running listener. Dropping it ends its thread.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Serves on the bound `listener` until dropped. `watch` runs on the same thread, so the load
    /// of the services does not slow it down.
    pub fn start(
        listener: TcpListener,
        options: AdminOptions,
        watch: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let routes = Routes {
            hosts: Hosts::new(&options.names),
            readiness: options.readiness,
            metrics: options.metrics,
            tokens: options.tokens,
        };
        let server = Arc::new(Server { routes, tls: options.tls });
        let serve = async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            tokio::spawn(watch);
            tokio::select! {
                () = server.accept(listener) => {}
                _ = stopped => {}
            }
        };
        let thread =
            std::thread::Builder::new().name("lazuli-admin".to_owned()).spawn(move || {
                runtime.block_on(serve);
                runtime.shutdown_background();
            })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // No request makes it panic; if it did, the process must still be able to exit.
            let _ = thread.join();
        }
    }
}

struct Server {
    routes: Routes,
    tls: Option<Arc<Tls>>,
}

impl Server {
    async fn accept(self: Arc<Self>, listener: tokio::net::TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let server = self.clone();
                    tokio::spawn(async move {
                        // A failed connection concerns only its client.
                        let _ = tokio::time::timeout(CONNECTION_MAX, server.serve(stream)).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept an admin connection; will retry");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let local = stream.local_addr()?.ip();
        match &self.tls {
            None => self.http(stream, local).await,
            Some(tls) => {
                let handshake = tls.acceptor().accept(stream);
                self.http(tokio::time::timeout(IDLE_MAX, handshake).await??, local).await
            }
        }
    }

    async fn http<S>(&self, stream: S, local: IpAddr) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let service = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(self.routes.answer(&request, local).await)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_MAX)
            .max_buf_size(HEADER_BYTES_MAX)
            .max_header_size(HEADER_BYTES_MAX)
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        connection.await.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests;
