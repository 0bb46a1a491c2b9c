//! A transport that loses requests or answers on demand (C-19.2).

use bytes::Bytes;
use lazuli_client::{Body, BoxFuture, HttpTransport, Sent, Transport, TransportError};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens to the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The server never sees it.
    LosesRequest,
    /// The server answers, and the answer is lost.
    LosesAnswer,
}

#[derive(Clone)]
pub(crate) struct FaultyTransport {
    inner: Arc<HttpTransport>,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    sent: Arc<Mutex<Vec<Seen>>>,
}

/// A request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) body_bytes: usize,
}

impl FaultyTransport {
    pub(crate) fn new() -> Self {
        Self {
            inner: Arc::new(HttpTransport::new(Duration::from_secs(10)).unwrap()),
            faults: Arc::default(),
            sent: Arc::default(),
        }
    }

    /// Sets the faults of the next requests; later ones pass.
    pub(crate) fn next(&self, faults: &[Fault]) {
        *self.faults.lock().unwrap() = faults.iter().copied().collect();
        self.sent.lock().unwrap().clear();
    }

    /// The requests since then.
    pub(crate) fn sent(&self) -> Vec<Seen> {
        self.sent.lock().unwrap().clone()
    }

    /// Their methods.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.sent().into_iter().map(|seen| seen.method).collect()
    }
}

impl Transport for FaultyTransport {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        let fault = self.faults.lock().unwrap().pop_front().unwrap_or(Fault::None);
        self.sent.lock().unwrap().push(Seen {
            method: request.method().to_string(),
            uri: request.uri().to_string(),
            body_bytes: request.body().len(),
        });
        let lost = || TransportError { sent: Sent::Maybe, source: "lost".into() };
        Box::pin(async move {
            if fault == Fault::LosesRequest {
                return Err(lost());
            }
            let answer = self.inner.send(request).await?;
            if fault == Fault::LosesAnswer { Err(lost()) } else { Ok(answer) }
        })
    }
}
