//! A server in this process, on a free port, with bounds of the test's choice.

use lazuli_engine::Engine;
use lazuli_server::{FrontOptions, ListenOptions};
use lazuli_testkit::http::{Connection, Request, Response};
use lazuli_testkit::live::LiveServer;
use std::sync::Arc;
use std::time::Duration;

/// How long a request may wait for memory; short, because these tests wait for the refusal.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(5);

pub(crate) struct Server(LiveServer);

impl Server {
    /// A server with one table, `Orders`.
    pub(crate) fn start(
        engine: Arc<dyn Engine>,
        front: FrontOptions,
        listen: ListenOptions,
    ) -> Self {
        let live = LiveServer::start_with(engine, "overload-server", front, listen).unwrap();
        Self(live).with(Request::new("POST", "/Tables").json(r#"{"TableName":"Orders"}"#))
    }

    /// A server of queues with one of them, `orders`.
    pub(crate) fn start_queues(
        engine: Arc<dyn Engine>,
        front: FrontOptions,
        listen: ListenOptions,
    ) -> Self {
        let live = LiveServer::start_queues_with(engine, "overload-server", front, listen).unwrap();
        Self(live).with(Request::new("PUT", "/orders"))
    }

    /// The server, with what the request creates. Its connection closes, so that it does not count
    /// among those of the test.
    fn with(self, create: Request<'_>) -> Self {
        let create = create.headers(&[("Connection", "close")]);
        assert_eq!(self.connect().send(&create).unwrap().status, 201);
        self
    }

    pub(crate) fn connect(&self) -> Connection {
        self.0.connect().unwrap()
    }

    /// Sends a request on a connection of its own.
    pub(crate) fn send(&self, request: &Request<'_>) -> Response {
        self.connect().send(request).unwrap()
    }

    pub(crate) fn insert(&self, row: &str) -> Response {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        self.send(&Request::new("POST", "/Orders").json(&body))
    }

    /// Whether an entity is there. Point reads have no bound of their own: they are always served.
    #[track_caller]
    pub(crate) fn has(&self, row: &str) -> bool {
        let path = format!("/Orders(PartitionKey='p',RowKey='{row}')");
        let answer = self.send(&Request::new("GET", &path));
        assert!([200, 404].contains(&answer.status), "{}", answer.text());
        answer.status == 200
    }
}

/// A refusal as clients can act on it.
#[track_caller]
pub(crate) fn assert_busy(answer: &Response) {
    assert!(answer.text().contains("\"code\":\"ServerBusy\""), "{}", answer.text());
    busy_code(answer);
}

/// What such refusals of all services have in common.
#[track_caller]
pub(crate) fn busy_code(answer: &Response) {
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("retry-after"), Some("1"));
}
