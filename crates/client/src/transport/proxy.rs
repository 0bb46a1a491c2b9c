//! Connections through a proxy.

use super::http_transport::Tcp;
use crate::BoxError;
use crate::error::Error;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// Which requests go through a proxy.
#[derive(Clone, Default)]
pub struct Proxy(Option<Arc<Matcher>>);

impl Proxy {
    /// No proxy.
    pub fn none() -> Self {
        Self(None)
    }

    /// All requests go through `address`, such as `http://user:password@proxy:3128`.
    pub fn all(address: &str) -> Result<Self, Error> {
        let uri: Option<Uri> = address.parse().ok();
        if uri.as_ref().and_then(Uri::scheme_str) != Some("http") {
            return Err(Error::config("the address of a proxy begins with http://"));
        }
        Ok(Self(Some(Arc::new(Matcher::builder().all(address).build()))))
    }

    /// The current settings of the environment variables `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    pub fn from_env() -> Self {
        Self(Some(Arc::new(Matcher::from_env())))
    }

    /// The authorization header for a request without TLS that goes through a proxy.
    pub(super) fn authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        let is_plain = uri.scheme_str() == Some("http");
        let intercept = self.0.as_ref().filter(|_| is_plain)?.intercept(uri)?;
        intercept.basic_auth().cloned()
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Proxy(..)" } else { "Proxy(none)" })
    }
}

/// Connects to hosts, directly or through their proxy.
#[derive(Clone)]
pub(super) struct ProxyConnector {
    pub(super) tcp: HttpConnector,
    pub(super) proxy: Proxy,
}

impl Service<Uri> for ProxyConnector {
    type Response = ProxyStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<ProxyStream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(BoxError::from)
    }

    fn call(&mut self, host: Uri) -> Self::Future {
        let intercept = self.proxy.0.as_ref().and_then(|matcher| matcher.intercept(&host));
        let mut tcp = self.tcp.clone();
        let Some(intercept) = intercept else {
            let connecting = tcp.call(host);
            return Box::pin(async move { Ok(ProxyStream::direct(connecting.await?)) });
        };
        if host.scheme_str() == Some("https") {
            // TLS is end to end with the host, through a tunnel.
            let mut tunnel = Tunnel::new(intercept.uri().clone(), tcp);
            if let Some(authorization) = intercept.basic_auth() {
                tunnel = tunnel.with_auth(authorization.clone());
            }
            let connecting = tunnel.call(host);
            return Box::pin(async move { Ok(ProxyStream::direct(connecting.await?)) });
        }
        let connecting = tcp.call(intercept.uri().clone());
        Box::pin(async move { Ok(ProxyStream { tcp: connecting.await?, is_proxy: true }) })
    }
}

/// A connection, and whether its peer is a proxy that needs absolute addresses.
pub(super) struct ProxyStream {
    tcp: Tcp,
    is_proxy: bool,
}

impl ProxyStream {
    fn direct(tcp: Tcp) -> Self {
        Self { tcp, is_proxy: false }
    }
}

impl Connection for ProxyStream {
    fn connected(&self) -> Connected {
        self.tcp.connected().proxy(self.is_proxy)
    }
}

impl Read for ProxyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl Write for ProxyStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(context, buffers)
    }
}
