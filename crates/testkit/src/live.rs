//! A server in this process, on a free port, with a given engine.

use crate::http::Connection;
use lazuli_engine::Engine;
use lazuli_model::{Clock, SystemClock};
use lazuli_queue::QueueService;
use lazuli_server::{
    Accounts, Front, FrontOptions, ListenOptions, QueueApi, QueueOptions, Shared, TableApi,
    TableOptions, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY, serve,
};
use lazuli_table::TableService;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};

/// A running server. Dropping it stops everything.
#[derive(Debug)]
pub struct LiveServer {
    address: SocketAddr,
    queues: Option<SocketAddr>,
    to_queues: bool,
    runtime: Runtime,
}

/// The inputs of a server of tables and queues.
#[derive(Clone)]
pub struct LiveOptions {
    pub clock: Arc<dyn Clock>,
    /// Can be replaced while the server runs, with new keys for the account.
    pub accounts: Arc<Accounts>,
    pub tables: TableOptions,
}

impl LiveOptions {
    /// The machine's clock, the well-known account, no simulated failures.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            clock: Arc::new(SystemClock),
            accounts: accounts()?,
            tables: TableOptions::default(),
        })
    }
}

impl LiveServer {
    /// Starts a server with the well-known account; its threads are named `threads`. If `engine`
    /// declares one writer, nothing else may write to it.
    pub fn start(engine: Arc<dyn Engine>, threads: &str) -> io::Result<Self> {
        Self::start_with(engine, threads, FrontOptions::default(), ListenOptions::default())
    }

    /// The same with given bounds.
    pub fn start_with(
        engine: Arc<dyn Engine>,
        threads: &str,
        front: FrontOptions,
        listen: ListenOptions,
    ) -> io::Result<Self> {
        let runtime = runtime(threads)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (tables, _) = services(engine, &clock);
        let front = Arc::new(Front::of_tables(tables, accounts()?, clock, front));
        let address = spawn(&runtime, |listener| serve(listener, front, listen, pending()))?;
        Ok(Self { address, queues: None, to_queues: false, runtime })
    }

    /// Tables and queues on one engine, each on its own port.
    pub fn start_both(
        engine: Arc<dyn Engine>,
        threads: &str,
        options: LiveOptions,
    ) -> io::Result<Self> {
        let runtime = runtime(threads)?;
        let LiveOptions { clock, accounts, tables: table_options } = options;
        let (tables, queues) = services(engine, &clock);
        let shared = Arc::new(Shared::new(accounts, clock, FrontOptions::default()));
        let queue_api =
            QueueApi::new(&shared, queues.clone(), tables.clone(), QueueOptions::default());
        let table_api = TableApi::new(&shared, tables, table_options).with_queues(queues);
        let table_front = Arc::new(Front::new(shared.clone(), table_api));
        let queue_front = Arc::new(Front::new(shared, queue_api));
        let listen = ListenOptions::default;
        let address =
            spawn(&runtime, |listener| serve(listener, table_front, listen(), pending()))?;
        let queues = spawn(&runtime, |listener| serve(listener, queue_front, listen(), pending()))?;
        Ok(Self { address, queues: Some(queues), to_queues: false, runtime })
    }

    /// Like [`LiveServer::start`], but a server of queues.
    pub fn start_queues(engine: Arc<dyn Engine>, threads: &str) -> io::Result<Self> {
        Self::start_queues_with(engine, threads, FrontOptions::default(), ListenOptions::default())
    }

    /// The same with given bounds.
    pub fn start_queues_with(
        engine: Arc<dyn Engine>,
        threads: &str,
        front: FrontOptions,
        listen: ListenOptions,
    ) -> io::Result<Self> {
        let runtime = runtime(threads)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (tables, queues) = services(engine, &clock);
        let front = Arc::new(Front::of_queues(queues, tables, accounts()?, clock, front));
        let address = spawn(&runtime, |listener| serve(listener, front, listen, pending()))?;
        Ok(Self { address, queues: Some(address), to_queues: true, runtime })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the Queue service, if it runs.
    pub fn queues(&self) -> Option<SocketAddr> {
        self.queues
    }

    /// Where the server runs: tasks spawned there end with it.
    pub fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }

    /// A new connection that signs with the account's key.
    pub fn connect(&self) -> io::Result<Connection> {
        let connection = Connection::open(self.address)?;
        Ok(if self.to_queues { connection.of_queues() } else { connection })
    }
}

/// Numbers that do not repeat, for the ids of messages, in any server of the process.
fn random() -> Arc<dyn Fn() -> u64 + Send + Sync> {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    Arc::new(|| NUMBERS.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
}

fn runtime(threads: &str) -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_name(threads).enable_all().build()
}

/// Only the well-known account.
fn accounts() -> io::Result<Arc<Accounts>> {
    let accounts = Accounts::parse(&format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}"));
    accounts.and_then(Accounts::new).map(Arc::new).map_err(io::Error::other)
}

/// The services of `engine`.
fn services(engine: Arc<dyn Engine>, clock: &Arc<dyn Clock>) -> (TableService, QueueService) {
    let tables = TableService::new(engine.clone(), clock.clone());
    (tables, QueueService::new(engine, clock.clone(), random()))
}

/// Runs what `serve` returns for a free port.
fn spawn<F>(runtime: &Runtime, serve: impl FnOnce(TcpListener) -> F) -> io::Result<SocketAddr>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    runtime.spawn(serve(listener));
    Ok(address)
}
