//! Requests over hyper, with a pool of connections.

use super::{Body, Sent, Transport, TransportError};
use crate::{BoxError, BoxFuture};
use bytes::Bytes;
use futures_util::{StreamExt, TryFutureExt, future};
use http_body_util::{BodyStream, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

#[cfg(feature = "rustls")]
type Connector = hyper_rustls::HttpsConnector<HttpConnector>;
#[cfg(not(feature = "rustls"))]
type Connector = HttpConnector;

/// How long an unused connection is kept. The service closes its side after some minutes.
const IDLE: Duration = Duration::from_secs(60);

/// The HTTP client that accounts use unless they are given another: a pool of HTTP/1.1 connections.
pub struct HttpTransport(Client<Connector, Full<Bytes>>);

impl HttpTransport {
    /// A client without connections. `connect_timeout` is for one address of a host.
    pub fn new(connect_timeout: Duration) -> Result<Self, BoxError> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(connect_timeout));
        tcp.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector(tcp)?);
        Ok(Self(client))
    }
}

#[cfg(feature = "rustls")]
fn connector(mut tcp: HttpConnector) -> Result<Connector, BoxError> {
    tcp.enforce_http(false);
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(provider)?
        .https_or_http()
        .enable_http1();
    Ok(builder.wrap_connector(tcp))
}

#[cfg(not(feature = "rustls"))]
fn connector(tcp: HttpConnector) -> Result<Connector, BoxError> {
    Ok(tcp)
}

impl Transport for HttpTransport {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        let answer = self.0.request(request.map(Full::new));
        Box::pin(answer.map_ok(|answer| answer.map(body)).map_err(|error| TransportError {
            sent: if error.is_connect() { Sent::No } else { Sent::Maybe },
            source: error.into(),
        }))
    }
}

fn body(incoming: hyper::body::Incoming) -> Body {
    let data = |frame: Result<hyper::body::Frame<Bytes>, hyper::Error>| {
        future::ready(match frame {
            // Trailers mean nothing to these services.
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(BoxError::from(error))),
        })
    };
    Body::from_stream(BodyStream::new(incoming).filter_map(data))
}
