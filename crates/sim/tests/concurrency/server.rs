//! A server in this process, on a free port, with its data in a directory of its own.

use lazuli_engine_local::{Durability, LocalEngine, LocalOptions};
use lazuli_model::SystemClock;
use lazuli_server::{
    Accounts, Front, FrontOptions, ListenOptions, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY,
};
use lazuli_table::TableService;
use lazuli_testkit::http::Connection;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Dropped in this order: first the runtime with all that runs on it, then the data.
    _runtime: Runtime,
    _data: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let options = LocalOptions { durability: Durability::Memory, ..LocalOptions::default() };
        let engine = LocalEngine::open(data.path(), options).unwrap();
        let clock = Arc::new(SystemClock);
        let service = TableService::new(Arc::new(engine), clock.clone());
        let accounts = Accounts::parse(&format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}")).unwrap();
        let accounts = Arc::new(Accounts::new(accounts).unwrap());
        let front = Arc::new(Front::new(service, accounts, clock, FrontOptions::default()));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let limits = ListenOptions::default();
        runtime.spawn(lazuli_server::serve(listener, front, limits, std::future::pending()));
        Self { address, _runtime: runtime, _data: data }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap()
    }
}
