//! A server in this process, on a free port, with bounds chosen by the test.

use lazuli_engine::Engine;
use lazuli_server::{FrontOptions, ListenOptions};
use lazuli_testkit::http::{Connection, Request, Response};
use lazuli_testkit::live::LiveServer;
use std::sync::Arc;
use std::time::Duration;

/// How long a request may wait for memory; short, because these tests wait for the refusal.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(5);

/// Memory for bodies of 64 KiB together.
pub(crate) fn small_body_memory() -> FrontOptions {
    FrontOptions { body_bytes_max: 64 * 1024, memory_wait_max: WAIT_MAX, ..FrontOptions::default() }
}

/// Room for two queries or transactions at a time.
pub(crate) fn two_queries() -> FrontOptions {
    FrontOptions { queries_max: 2, memory_wait_max: WAIT_MAX, ..FrontOptions::default() }
}

/// Room for one page at a time; a client that does not read it is cut after a moment.
pub(crate) fn one_unread_page() -> (FrontOptions, ListenOptions) {
    let front = FrontOptions {
        queries_max: 1,
        answer_bytes_max: 8 * 1024 * 1024,
        memory_wait_max: WAIT_MAX,
        ..FrontOptions::default()
    };
    let listen =
        ListenOptions { write_timeout: Duration::from_millis(100), ..ListenOptions::default() };
    (front, listen)
}

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

    /// A server with one queue, `orders`.
    pub(crate) fn start_queues(
        engine: Arc<dyn Engine>,
        front: FrontOptions,
        listen: ListenOptions,
    ) -> Self {
        let live = LiveServer::start_queues_with(engine, "overload-server", front, listen).unwrap();
        Self(live).with(Request::new("PUT", "/orders"))
    }

    /// The server, with what `create` creates. Its connection closes, so that it does not count
    /// among those of the test.
    fn with(self, create: Request<'_>) -> Self {
        let create = create.headers(&[("Connection", "close")]);
        assert_eq!(self.connect().send(&create).unwrap().status, 201);
        self
    }

    pub(crate) fn connect(&self) -> Connection {
        self.0.connect().unwrap()
    }

    /// Sends a request on its own connection.
    pub(crate) fn send(&self, request: &Request<'_>) -> Response {
        self.connect().send(request).unwrap()
    }

    /// Sends `query` again and again on one connection and reads no answer, until the server closes it;
    /// then waits until its memory is free for others.
    #[track_caller]
    pub(crate) fn ask_greedily(&self, query: &Request<'_>, assert_busy: impl Fn(&Response)) {
        let mut greedy = self.connect();
        // The server answers until the system takes no more of what the client does not read, waits,
        // and closes; then nothing more can be asked.
        while greedy.start(query, 0).is_ok() {}
        // The memory is free as soon as the answer is dropped.
        loop {
            match self.send(query) {
                answer if answer.status == 200 => break,
                answer => assert_busy(&answer),
            }
        }
    }

    pub(crate) fn insert(&self, row: &str) -> Response {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        self.send(&Request::new("POST", "/Orders").json(&body))
    }

    /// Whether an entity exists. Point reads have no bound of their own: they are always served.
    #[track_caller]
    pub(crate) fn has(&self, row: &str) -> bool {
        let path = format!("/Orders(PartitionKey='p',RowKey='{row}')");
        let answer = self.send(&Request::new("GET", &path));
        assert!([200, 404].contains(&answer.status), "{}", answer.text());
        answer.status == 200
    }
}

/// A refusal in a form that clients can act on.
#[track_caller]
pub(crate) fn assert_busy(answer: &Response) {
    assert!(answer.text().contains("\"code\":\"ServerBusy\""), "{}", answer.text());
    busy_code(answer);
}

/// What such refusals have in common for all services.
#[track_caller]
pub(crate) fn busy_code(answer: &Response) {
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("retry-after"), Some("1"));
}
