//! A server in this process, with its data in a directory of its own.

use lazuli_engine_local::{Durability, LocalEngine, LocalOptions};
use lazuli_testkit::http::Connection;
use lazuli_testkit::live::LiveServer;
use std::net::SocketAddr;
use std::sync::Arc;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Dropped in this order: first all that runs, then the data.
    live: LiveServer,
    _data: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let options = LocalOptions { durability: Durability::Memory, ..LocalOptions::default() };
        let engine = LocalEngine::open(data.path(), options).unwrap();
        let live = LiveServer::start(Arc::new(engine), "live-server").unwrap();
        Self { address: live.address(), live, _data: data }
    }

    pub(crate) fn connect(&self) -> Connection {
        self.live.connect().unwrap()
    }
}
