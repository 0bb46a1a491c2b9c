//! A server in this process, with its data in its own directory.

use lazuli_engine_local::{LocalEngine, LocalOptions};
use lazuli_testkit::http::Connection;
use lazuli_testkit::live::{LiveOptions, LiveServer};
use std::net::SocketAddr;
use std::sync::Arc;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) queues: SocketAddr,
    /// Dropped in this order: first everything that runs, then the data.
    live: LiveServer,
    _data: tempfile::TempDir,
}

impl Server {
    /// As by default: acknowledged commits are durable, so the services cache tables and messages.
    pub(crate) fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let engine = LocalEngine::open(data.path(), LocalOptions::default()).unwrap();
        let options = LiveOptions::new().unwrap();
        let live = LiveServer::start_both(Arc::new(engine), "live-server", options).unwrap();
        Self { address: live.address(), queues: live.queues().unwrap(), live, _data: data }
    }

    pub(crate) fn connect(&self) -> Connection {
        self.live.connect().unwrap()
    }
}
