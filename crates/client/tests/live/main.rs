//! The client against a real server in this process.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod access;
mod atomically;
mod batches;
mod bulks;
mod faults;
mod messages;
mod queries;
mod queues;
mod reading;
mod spans;
mod transactions;
mod updates;
mod verbs;
mod wire;

use lazuli_client::{Account, AccountBuilder, Table};
use std::net::SocketAddr;

/// A server in memory.
struct TestServer(lazuli_test::TestServer);

impl TestServer {
    fn start() -> Self {
        Self(lazuli_test::TestServer::start_blocking().unwrap())
    }

    /// The endpoint of its tables.
    fn address(&self) -> SocketAddr {
        let endpoint: http::Uri = self.account().table_endpoint().unwrap().parse().unwrap();
        endpoint.authority().unwrap().as_str().parse().unwrap()
    }

    fn builder(&self) -> AccountBuilder {
        self.0.account_builder().unwrap()
    }

    fn account(&self) -> Account {
        self.builder().build().unwrap()
    }

    async fn table(&self, name: &str) -> Table {
        self.account().tables().create(name).await.unwrap()
    }
}
