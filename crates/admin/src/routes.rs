//! The responses of the listener.

use crate::exposition::{self, Form};
use crate::guard::Hosts;
use crate::metrics::Metrics;
use crate::readiness::{Readiness, push_escaped};
use crate::token::Tokens;
use bytes::Bytes;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// How long the sources of metrics may take.
const METRICS_TIME_MAX: Duration = Duration::from_secs(5);

/// What responses are built from.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) hosts: Hosts,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) metrics: Arc<Metrics>,
    /// The tokens for metrics; `None` needs no token.
    pub(crate) tokens: Option<Arc<Tokens>>,
}

impl Routes {
    /// Handles a request to the address `local`.
    pub(crate) async fn answer<B>(
        &self,
        request: &Request<B>,
        local: IpAddr,
    ) -> Response<Full<Bytes>> {
        if let Some(refusal) = self.hosts.refusal(request.headers(), local) {
            return error(refusal.status(), "Refused", refusal.message());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let message = "only GET and HEAD are served here";
            let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
            "/healthz" => reply(StatusCode::OK, TEXT, "ok\n".to_owned()),
            "/readyz" => self.ready(),
            "/metrics" => self.metrics(request.headers()).await,
            "/" => reply(StatusCode::OK, TEXT, INDEX.to_owned()),
            _ => error(StatusCode::NOT_FOUND, "NotFound", "this path does not exist"),
        }
    }

    fn ready(&self) -> Response<Full<Bytes>> {
        let status = match self.readiness.is_ready() {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        reply(status, JSON, self.readiness.to_json())
    }

    async fn metrics(&self, headers: &HeaderMap) -> Response<Full<Bytes>> {
        if self.tokens.as_ref().is_some_and(|tokens| !tokens.permit(headers)) {
            let message = "send the admin token or the metrics token: Authorization: Bearer TOKEN";
            let mut response = error(StatusCode::UNAUTHORIZED, "Unauthorized", message);
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return response;
        }
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let form = Form::accepted(accept);
        let metrics = self.metrics.clone();
        // On its own thread: a source may wait for a lock held across slow disk I/O.
        let written = spawn_blocking(move || exposition::write(metrics.families(), form));
        match tokio::time::timeout(METRICS_TIME_MAX, written).await {
            Ok(Ok(Ok(text))) => reply(StatusCode::OK, form.content_type(), text),
            Ok(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "a source failed"),
            Err(_) => error(StatusCode::SERVICE_UNAVAILABLE, "TimedOut", "a source is stuck"),
        }
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const INDEX: &str = "/healthz  the process runs\n\
    /readyz   requests can succeed, or why not\n\
    /metrics  Prometheus metrics\n";

fn reply(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

fn error(status: StatusCode, code: &str, message: &str) -> Response<Full<Bytes>> {
    let mut body = format!("{{\"error\":{{\"code\":\"{code}\",\"message\":\"");
    push_escaped(&mut body, message);
    reply(status, JSON, body + "\"}}\n")
}
