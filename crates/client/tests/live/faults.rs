//! A way out that loses requests or answers on demand (C-19.2).

use bytes::Bytes;
use lazuli_client::{Body, BoxFuture, HttpTransport, Sent, Transport, TransportError};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens to the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The server never sees it, and nobody knows.
    LosesRequest,
    /// The server answers, and the answer is lost.
    LosesAnswer,
}

#[derive(Clone)]
pub(crate) struct FaultyTransport {
    inner: Arc<HttpTransport>,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    sent: Arc<Mutex<Vec<(String, usize)>>>,
}

impl FaultyTransport {
    pub(crate) fn new() -> Self {
        Self {
            inner: Arc::new(HttpTransport::new(Duration::from_secs(10)).unwrap()),
            faults: Arc::default(),
            sent: Arc::default(),
        }
    }

    /// What happens to the requests that follow; those after them go through.
    pub(crate) fn next(&self, faults: &[Fault]) {
        *self.faults.lock().unwrap() = faults.iter().copied().collect();
        self.sent.lock().unwrap().clear();
    }

    /// The methods of the requests since then.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.sent.lock().unwrap().iter().map(|(method, _)| method.clone()).collect()
    }

    /// The sizes of their bodies.
    pub(crate) fn body_bytes(&self) -> Vec<usize> {
        self.sent.lock().unwrap().iter().map(|(_, bytes)| *bytes).collect()
    }
}

impl Transport for FaultyTransport {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        let fault = self.faults.lock().unwrap().pop_front().unwrap_or(Fault::None);
        self.sent.lock().unwrap().push((request.method().to_string(), request.body().len()));
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
