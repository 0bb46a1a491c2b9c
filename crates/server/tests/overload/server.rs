//! A server in this process, on a free port, with bounds of the test's choice.

use lazuli_engine::Engine;
use lazuli_model::SystemClock;
use lazuli_server::{
    Accounts, Front, FrontOptions, ListenOptions, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY,
};
use lazuli_table::TableService;
use lazuli_testkit::http::{Connection, Request, Response};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _runtime: Runtime,
}

impl Server {
    /// A server with one table, `Orders`.
    pub(crate) fn start(
        engine: Arc<dyn Engine>,
        front: FrontOptions,
        listen: ListenOptions,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let clock = Arc::new(SystemClock);
        let service = TableService::new(engine, clock.clone());
        let accounts = Accounts::parse(&format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}")).unwrap();
        let accounts = Arc::new(Accounts::new(accounts).unwrap());
        let front = Arc::new(Front::of_tables(service, accounts, clock, front));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(lazuli_server::serve(listener, front, listen, std::future::pending()));
        let server = Self { address, _runtime: runtime };
        let create = Request::new("POST", "/Tables").json(r#"{"TableName":"Orders"}"#);
        // It closes, lest it count among the connections of the test.
        let create = create.headers(&[("Connection", "close")]);
        assert_eq!(server.connect().send(&create).unwrap().status, 201);
        server
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap()
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
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("\"code\":\"ServerBusy\""), "{}", answer.text());
    assert_eq!(answer.header("retry-after"), Some("1"));
}
