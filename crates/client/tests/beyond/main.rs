//! The patterns beyond the guide (P-23), with their cost and what a crash leaves; optimistic concurrency (P-18)
//! and access by shared access signature (P-22).

#![expect(clippy::unwrap_used, reason = "tests may")]

mod access;
mod advice;
mod concurrency;
mod counters;
mod habits;
mod leases;
mod once;
mod sequences;
mod streams;

use lazuli_client::{Entity, Table};
use lazuli_test::crash::TestClient;
use lazuli_test::{FaultyServer, TestServer};

/// Seeds that a run without `LAZULI_SEEDS` tries; the full test has 1,000.
const SEEDS: u64 = 20;

/// The table of a crash test.
fn table(client: &TestClient) -> Table<Entity> {
    client.tables().table("Beyond").unwrap()
}

async fn setup(client: &TestClient) {
    client.tables().create("Beyond").await.unwrap();
}

/// A server whose requests are counted, and a table.
async fn counted() -> (FaultyServer, Table<Entity>) {
    let server = TestServer::with_faults().await.unwrap();
    let table = server.account().tables().create("Beyond").await.unwrap();
    server.faults().take();
    (server, table)
}

/// The methods of the requests since the last call.
fn methods(server: &FaultyServer) -> Vec<String> {
    server.faults().take().into_iter().map(|exchange| exchange.method.to_string()).collect()
}
