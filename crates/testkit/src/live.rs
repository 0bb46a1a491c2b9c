//! A server in this process, on a free port, with a given engine.

use crate::http::Connection;
use lazuli_engine::Engine;
use lazuli_model::SystemClock;
use lazuli_queue::QueueService;
use lazuli_server::{
    Accounts, Front, FrontOptions, ListenOptions, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY,
};
use lazuli_table::TableService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// A running server. Dropping it stops everything.
#[derive(Debug)]
pub struct LiveServer {
    address: SocketAddr,
    to_queues: bool,
    _runtime: Runtime,
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
        let clock = Arc::new(SystemClock);
        let tables = TableService::new(engine, clock.clone());
        let front = Arc::new(Front::of_tables(tables, accounts()?, clock, front));
        let (listener, address) = listen_on_loopback(&runtime)?;
        runtime.spawn(lazuli_server::serve(listener, front, listen, std::future::pending()));
        Ok(Self { address, to_queues: false, _runtime: runtime })
    }

    /// As [`LiveServer::start`], but a server of queues.
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
        let clock = Arc::new(SystemClock);
        let tables = TableService::new(engine.clone(), clock.clone());
        let numbers = AtomicU64::new(1);
        let random = Arc::new(move || numbers.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed));
        let queues = QueueService::new(engine, clock.clone(), random);
        let front = Arc::new(Front::of_queues(queues, tables, accounts()?, clock, front));
        let (listener, address) = listen_on_loopback(&runtime)?;
        runtime.spawn(lazuli_server::serve(listener, front, listen, std::future::pending()));
        Ok(Self { address, to_queues: true, _runtime: runtime })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection that signs with the account's key.
    pub fn connect(&self) -> io::Result<Connection> {
        let connection = Connection::open(self.address)?;
        Ok(if self.to_queues { connection.of_queues() } else { connection })
    }
}

fn runtime(threads: &str) -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_name(threads).enable_all().build()
}

/// The well-known account alone.
fn accounts() -> io::Result<Arc<Accounts>> {
    let accounts = Accounts::parse(&format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}"));
    accounts.and_then(Accounts::new).map(Arc::new).map_err(io::Error::other)
}

fn listen_on_loopback(runtime: &Runtime) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
