//! A separate server for every test, in process and on a free port, and helpers to talk to it.
//!
//! Nothing here shares code with the server except the signing of requests: what is sent and what is
//! asserted are bytes.

mod batch;
mod engine;
mod issuer;
mod json;
mod request;
mod response;

pub(crate) use batch::{BatchAnswer, Op, multipart};
pub(crate) use issuer::TrustedIssuer;
pub(crate) use json::Json;
pub(crate) use request::{Request, Scheme};
pub(crate) use response::Response;

use lazuli_engine::{Engine, Writers};
use lazuli_model::{AccountName, Clock, Metadata, QueueName, Timestamp};
use lazuli_queue::QueueService;
use lazuli_server::{
    Accounts, Advice, Analytics, AutoIndex, Extent, Front, FrontOptions, ListenOptions, Shared,
    TableApi, TableOptions, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY,
};
use lazuli_table::{Reclaimed, TableError, TableService};
use lazuli_wire::shared_key::SigningKey;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// The account of path-style requests.
pub(crate) const ACCOUNT: &str = WELL_KNOWN_ACCOUNT;
/// A second account, with two keys.
pub(crate) const OTHER: &str = "acct1";
pub(crate) const OTHER_KEYS: [&str; 2] =
    ["b25lIGtleSBvZiBhY2N0MQ==", "YW5vdGhlciBrZXkgb2YgYWNjdDE="];
/// The time when every test begins.
pub(crate) const START: &str = "2024-07-31T18:30:00Z";

/// A clock that stands still unless it is advanced.
pub(crate) struct ManualClock {
    ticks: AtomicU64,
    /// How far each reading advances it.
    per_reading: AtomicU64,
}

impl ManualClock {
    pub(crate) fn at_start() -> Self {
        let ticks = AtomicU64::new(Timestamp::parse(START).unwrap().ticks());
        Self { ticks, per_reading: AtomicU64::new(0) }
    }

    /// From now on, each reading advances the clock; 0 ends that.
    pub(crate) fn turn_at_each_reading(&self, seconds: u64) {
        self.per_reading.store(seconds * 10_000_000, Ordering::SeqCst);
    }

    pub(crate) fn set(&self, now: Timestamp) {
        self.ticks.store(now.ticks(), Ordering::SeqCst);
    }

    pub(crate) fn advance_ticks(&self, ticks: u64) {
        self.ticks.fetch_add(ticks, Ordering::SeqCst);
    }

    pub(crate) fn advance_seconds(&self, seconds: u64) {
        self.ticks.fetch_add(seconds * 10_000_000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let turned = self.per_reading.load(Ordering::SeqCst);
        Timestamp::from_ticks(self.ticks.fetch_add(turned, Ordering::SeqCst)).unwrap()
    }
}

/// A running server. It makes progress only while a request waits for its answer.
pub(crate) struct Lazuli {
    runtime: Runtime,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<ManualClock>,
    analytics: Arc<Analytics>,
    advice: Arc<Advice>,
    tables: TableService,
    queues: QueueService,
    connection: RefCell<Option<TcpStream>>,
}

impl Lazuli {
    /// An empty server.
    pub(crate) fn empty() -> Self {
        Self::with_options(FrontOptions::default())
    }

    pub(crate) fn with_options(options: FrontOptions) -> Self {
        Self::with_table_options(options, TableOptions::default())
    }

    pub(crate) fn with_table_options(options: FrontOptions, tables: TableOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let engine = engine::fresh(&runtime);
        Self::on(runtime, engine, options, tables)
    }

    /// An empty server on an engine chosen by the test.
    pub(crate) fn on_engine(engine: Arc<dyn Engine>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self::on(runtime, engine, FrontOptions::default(), TableOptions::default())
    }

    fn on(
        runtime: Runtime,
        engine: Arc<dyn Engine>,
        options: FrontOptions,
        tables: TableOptions,
    ) -> Self {
        let clock = Arc::new(ManualClock::at_start());
        let service = TableService::new(engine.clone(), clock.clone());
        let numbers = AtomicU64::new(1);
        let random = Arc::new(move || numbers.fetch_add(1, Ordering::Relaxed));
        let queues = QueueService::new(engine, clock.clone(), random);
        Self::start(runtime, clock, (service, queues), options, tables)
    }

    fn start(
        runtime: Runtime,
        clock: Arc<ManualClock>,
        (service, queues): (TableService, QueueService),
        options: FrontOptions,
        tables: TableOptions,
    ) -> Self {
        let [first, second] = OTHER_KEYS;
        let accounts = format!("{ACCOUNT}:{WELL_KNOWN_KEY};{OTHER}:{first}:{second}");
        let accounts = Accounts::new(Accounts::parse(&accounts).unwrap()).unwrap();
        let shared = Arc::new(Shared::new(Arc::new(accounts), clock.clone(), options));
        let api = TableApi::new(&shared, service.clone(), tables).with_queues(queues.clone());
        let front = Arc::new(Front::new(shared.clone(), api));
        let (analytics, advice) = (front.service().analytics(), front.service().advice());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let limits = ListenOptions::default();
        runtime.spawn(lazuli_server::serve(listener, front, limits, std::future::pending()));
        let tables = service;
        Self {
            runtime,
            address,
            clock,
            analytics,
            advice,
            tables,
            queues,
            connection: RefCell::default(),
        }
    }

    /// The same store, in a new server that knows what the old one kept.
    pub(crate) fn restarted(self) -> Self {
        self.runtime.block_on(self.advice.keep()).unwrap();
        let (options, tables) = (FrontOptions::default(), TableOptions::default());
        let services = (self.tables, self.queues);
        let again = Self::start(self.runtime, self.clock, services, options, tables);
        again.runtime.block_on(again.advice.load()).unwrap();
        again
    }

    /// Makes the server declare and drop automatic indexes, at most this many per table.
    pub(crate) fn auto_index(&self, per_table_max: usize) {
        let (advice, tables) = (self.advice.clone(), self.tables.clone());
        let auto = AutoIndex::new(advice, tables, self.clock.clone(), per_table_max);
        self.runtime.block_on(auto.round()).unwrap();
    }

    /// Creates a queue of the account.
    pub(crate) fn create_queue(&self, name: &str) {
        let account = AccountName::parse(ACCOUNT).unwrap();
        let name = QueueName::parse(name).unwrap();
        let metadata = Metadata::default();
        let created = self.queues.create_queue(&account, &name, &metadata);
        self.runtime.block_on(created).unwrap();
    }

    /// The texts of the messages in a queue.
    pub(crate) fn messages(&self, queue: &str) -> Vec<String> {
        let account = AccountName::parse(ACCOUNT).unwrap();
        let queue = QueueName::parse(queue).unwrap();
        let peeked =
            self.runtime.block_on(self.queues.peek_messages(&account, &queue, 32)).unwrap();
        peeked.iter().map(|message| message.text.as_str().to_owned()).collect()
    }

    /// Whether no other server uses the store.
    pub(crate) fn is_alone(&self) -> bool {
        self.queues.nature().writers == Writers::Sole
    }

    /// Builds all declared indexes.
    pub(crate) fn build(&self) -> Result<(), TableError> {
        let all = async {
            while self.tables.build_some().await? == Reclaimed::Partly {}
            Ok(())
        };
        self.runtime.block_on(all)
    }

    /// Deletes all expired entities.
    pub(crate) fn sweep(&self) {
        let all = async { while self.tables.sweep_some().await.unwrap() == Reclaimed::Partly {} };
        self.runtime.block_on(all);
    }

    /// Writes what was counted for analytics.
    pub(crate) fn flush_analytics(&self, extent: Extent) {
        self.runtime.block_on(self.analytics.flush(extent));
    }

    /// A server with one table, `Orders`.
    pub(crate) fn with_orders() -> Self {
        let lazuli = Self::empty();
        lazuli.create_table("Orders");
        lazuli
    }

    /// A server whose table `Orders` holds these entities, each given by its row key and the rest of
    /// its JSON; the partition is `p`.
    pub(crate) fn with_rows(rows: &[(&str, &str)]) -> Self {
        let lazuli = Self::with_orders();
        for (row, properties) in rows {
            let separator = if properties.is_empty() { "" } else { "," };
            let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"{separator}{properties}}}"#);
            lazuli.insert("Orders", &body).expect(201);
        }
        lazuli
    }

    pub(crate) fn send(&self, request: &Request) -> Response {
        let bytes = request.bytes(&self.address.to_string(), self.clock.now());
        self.exchange(&bytes, &request.method)
    }

    /// Sends bytes on their own connection.
    pub(crate) fn send_raw(&self, bytes: &[u8]) -> Response {
        self.connection.take();
        let response = self.exchange(bytes, "GET");
        self.connection.take();
        response
    }

    fn exchange(&self, bytes: &[u8], method: &str) -> Response {
        let kept = self.connection.take();
        self.runtime.block_on(async {
            let mut stream = match kept {
                Some(stream) => stream,
                None => TcpStream::connect(self.address).await.unwrap(),
            };
            // A server that refuses a request may close before it has read all of it.
            let _ = stream.write_all(bytes).await;
            let response = Response::read(&mut stream, method).await;
            if response.header("connection") != Some("close") {
                self.connection.replace(Some(stream));
            }
            response
        })
    }

    /// Sends two requests at once, each on its own connection.
    pub(crate) fn send_both(&self, first: &Request, second: &Request) -> (Response, Response) {
        let bytes = |request: &Request| request.bytes(&self.address.to_string(), self.clock.now());
        let exchange = |request: &Request| {
            let (bytes, method) = (bytes(request), request.method.clone());
            async move {
                let mut stream = TcpStream::connect(self.address).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
                Response::read(&mut stream, &method).await
            }
        };
        self.runtime.block_on(async { tokio::join!(exchange(first), exchange(second)) })
    }

    // Shorthands for what most tests do.

    pub(crate) fn get(&self, target: &str) -> Response {
        self.send(&Request::new("GET", target))
    }

    pub(crate) fn create_table(&self, name: &str) -> Response {
        let body = format!(r#"{{"TableName":"{name}"}}"#);
        self.send(&Request::new("POST", "/Tables").json(&body))
    }

    pub(crate) fn insert(&self, table: &str, body: &str) -> Response {
        self.send(&Request::new("POST", &format!("/{table}")).json(body))
    }

    /// PUT, MERGE or DELETE of the entity `p`, `row` of `Orders`, with or without a condition.
    pub(crate) fn write(
        &self,
        method: &str,
        row: &str,
        if_match: Option<&str>,
        body: &str,
    ) -> Response {
        let mut request = Request::new(method, &order(row));
        if method != "DELETE" {
            request = request.json(body);
        }
        if let Some(condition) = if_match {
            request = request.with("If-Match", condition);
        }
        self.send(&request)
    }

    /// The custom properties of the entity `p`, `row` of `Orders`, as minimal metadata shows them.
    #[track_caller]
    pub(crate) fn stored(&self, row: &str) -> String {
        let response = self.get(&order(row)).expect(200);
        let text = response.text();
        let (_, after) = text.split_once(r#""Timestamp":""#).expect("a Timestamp");
        let (_, properties) = after.split_once('"').expect("the end of the Timestamp");
        properties.trim_start_matches(',').trim_end_matches('}').to_owned()
    }

    /// The row keys that a query of `Orders` returns, in order, joined by spaces.
    #[track_caller]
    pub(crate) fn rows(&self, filter: &str) -> String {
        self.get(&format!("/Orders()?$filter={}", encode(filter))).expect(200).row_keys()
    }

    pub(crate) fn batch(&self, operations: &[Op]) -> BatchAnswer {
        self.send_batch(&Request::new("POST", "/$batch"), operations)
    }

    /// Sends the operations as one change set; `request` gives address, version and credential.
    pub(crate) fn send_batch(&self, request: &Request, operations: &[Op]) -> BatchAnswer {
        let base = format!("http://{}/{ACCOUNT}", self.address);
        let body = batch::change_set(&base, operations);
        let request = request.clone().body("multipart/mixed; boundary=batch_a1", &body);
        BatchAnswer::parse(self.send(&request))
    }

    /// Sends a batch of one query.
    pub(crate) fn batch_query(&self, target: &str) -> BatchAnswer {
        BatchAnswer::parse(self.send_query(&Request::new("POST", "/$batch"), target))
    }

    /// The same; `request` gives address, version and credential.
    pub(crate) fn send_query(&self, request: &Request, target: &str) -> Response {
        let base = format!("http://{}/{ACCOUNT}", self.address);
        let body = batch::lone_query(&base, target);
        self.send(&request.clone().body("multipart/mixed; boundary=batch_a1", &body))
    }
}

/// The target of the entity `p`, `row` of the table `Orders`.
pub(crate) fn order(row: &str) -> String {
    format!("/Orders(PartitionKey='p',RowKey='{}')", encode(&row.replace('\'', "''")))
}

/// Percent-encodes everything except letters, digits and `-._~`.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

pub(crate) fn well_known_key() -> SigningKey {
    SigningKey::from_base64(WELL_KNOWN_KEY).unwrap()
}
