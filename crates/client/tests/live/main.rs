//! The client against a real server in this process.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod access;
mod batches;
mod bulks;
mod faults;
mod queries;
mod queues;
mod reading;
mod spans;
mod transactions;
mod updates;
mod verbs;
mod wire;

use lazuli_client::{Account, AccountBuilder, Credential, Table};
use lazuli_engine::MemoryEngine;
use lazuli_server::{WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
use lazuli_testkit::live::LiveServer;
use std::net::SocketAddr;
use std::sync::Arc;

struct TestServer {
    /// Taken when dropped.
    server: Option<LiveServer>,
    address: SocketAddr,
}

impl TestServer {
    fn start() -> Self {
        let engine = Arc::new(MemoryEngine::default());
        // It has a runtime of its own, which neither starts nor ends within another.
        let start = || LiveServer::start(engine, "client-test").unwrap();
        let server = std::thread::spawn(start).join().unwrap();
        Self { address: server.address(), server: Some(server) }
    }

    /// A server of queues alone.
    fn start_queues() -> Self {
        let engine = Arc::new(MemoryEngine::default());
        let start = || LiveServer::start_queues(engine, "client-test").unwrap();
        let server = std::thread::spawn(start).join().unwrap();
        Self { address: server.address(), server: Some(server) }
    }

    fn builder(&self) -> AccountBuilder {
        let credential = Credential::shared_key(WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY).unwrap();
        let endpoint = format!("http://{}/{WELL_KNOWN_ACCOUNT}", self.address);
        Account::builder(&endpoint).queue_endpoint(&endpoint).credential(credential)
    }

    fn account(&self) -> Account {
        self.builder().build().unwrap()
    }

    async fn table(&self, name: &str) -> Table {
        self.account().tables().create(name).await.unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let server = self.server.take();
        let _ = std::thread::spawn(move || drop(server)).join();
    }
}
