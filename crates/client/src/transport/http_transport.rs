//! Requests over hyper, with a pool of connections.

use super::proxy::{Proxy, ProxyConnector};
use super::{Body, Sent, Transport, TransportError};
use crate::{BoxError, BoxFuture};
use bytes::Bytes;
use futures_util::TryFutureExt;
use http::header::PROXY_AUTHORIZATION;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::time::Duration;

#[cfg(feature = "rustls")]
type Connector = hyper_rustls::HttpsConnector<ProxyConnector>;
#[cfg(not(feature = "rustls"))]
type Connector = ProxyConnector;

/// A connection over TCP.
pub(super) type Tcp = TokioIo<tokio::net::TcpStream>;

/// How long an unused connection is kept. The service closes its side after some minutes.
const IDLE: Duration = Duration::from_secs(60);
/// The largest head of an answer (C-3.10).
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The default HTTP client of accounts: a pool of HTTP/1.1 connections.
pub struct HttpTransport {
    client: Client<Connector, Full<Bytes>>,
    proxy: Proxy,
}

impl HttpTransport {
    /// A client without connections. `connect_timeout` applies to each address of a host.
    pub fn new(connect_timeout: Duration) -> Result<Self, BoxError> {
        Self::through(Proxy::none(), connect_timeout)
    }

    /// The same, through a proxy.
    pub fn through(proxy: Proxy, connect_timeout: Duration) -> Result<Self, BoxError> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(connect_timeout));
        tcp.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(connector(tcp, proxy.clone())?);
        Ok(Self { client, proxy })
    }
}

#[cfg(feature = "rustls")]
fn connector(mut tcp: HttpConnector, proxy: Proxy) -> Result<Connector, BoxError> {
    tcp.enforce_http(false);
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls(provider)?)
        .https_or_http()
        .enable_http1();
    Ok(builder.wrap_connector(ProxyConnector { tcp, proxy }))
}

/// Trusts the system's roots, or Mozilla's with the feature `webpki-roots`.
#[cfg(feature = "rustls")]
fn tls(
    provider: std::sync::Arc<rustls::crypto::CryptoProvider>,
) -> Result<rustls::ClientConfig, BoxError> {
    use hyper_rustls::ConfigBuilderExt;
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?;
    #[cfg(feature = "webpki-roots")]
    let builder = builder.with_webpki_roots();
    #[cfg(not(feature = "webpki-roots"))]
    let builder = builder.with_native_roots()?;
    Ok(builder.with_no_client_auth())
}

#[cfg(not(feature = "rustls"))]
fn connector(tcp: HttpConnector, proxy: Proxy) -> Result<Connector, BoxError> {
    Ok(ProxyConnector { tcp, proxy })
}

impl Transport for HttpTransport {
    fn send(
        &self,
        mut request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        if let Some(authorization) = self.proxy.authorization(request.uri()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization);
        }
        let answer = self.client.request(request.map(Full::new));
        Box::pin(answer.map_ok(|answer| answer.map(Body::incoming)).map_err(|error| {
            TransportError {
                sent: if error.is_connect() { Sent::No } else { Sent::Maybe },
                source: error.into(),
            }
        }))
    }
}
