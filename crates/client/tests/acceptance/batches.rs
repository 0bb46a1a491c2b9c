//! Transactions and many writes: CS-11, CS-17.

use crate::peer::Peer;
use bytes::Bytes;
use lazuli_client::{
    Account, Batch, BatchFault, Body, BoxFuture, BulkReport, Entity, ErrorKind, HttpTransport,
    Table, Transport, TransportError, iter,
};
use lazuli_test::TestServer;
use std::future::IntoFuture;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

crate::scenarios! { cs_11_a_transaction_is_checked_before_it_is_sent }

/// Writes to one row, of which the last must win.
const WRITES_TO_A_ROW: usize = 2;
const PARTITIONS: usize = 500;
const WRITES: usize = 100_000;
const BUFFER: usize = 4 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_17_a_load_is_written_once_and_in_order() {
    // The rate as written in the specification; a load by one process does not reach it.
    assert!(load(2000, PARTITIONS, WRITES).await.failed.is_empty());
    // Twenty transactions into one partition that accepts five per second.
    assert!(load(500, 1, 2000).await.throttled > 0);
}

/// Loads into a server with a limit of operations per second for a partition.
async fn load(rate_max: u32, partitions: usize, writes: usize) -> BulkReport {
    let rate_max = NonZeroU32::new(rate_max).unwrap();
    let server = TestServer::builder().partition_rate_max(rate_max).start().await.unwrap();
    let carried_out = Arc::new(AtomicUsize::new(0));
    let inner = HttpTransport::new(Duration::from_secs(10)).unwrap();
    let counting = Counting { inner, carried_out: carried_out.clone() };
    let account = server.account_builder().unwrap().transport(counting).build().unwrap();
    let table = account.tables().create("Loads").await.unwrap();
    let rows = writes / WRITES_TO_A_ROW;
    let all_writes = (0..writes).map(move |write| {
        let row = write % rows;
        Entity::new(format!("p{:03}", row % partitions), format!("{row:06}"))
            .with("Write", write as i32)
    });
    let bulk = table.bulk().concurrency(16).buffer_max(BUFFER);
    let report = bulk.upsert(iter(all_writes)).await.unwrap();
    assert!(report.failed.is_empty() && !report.stopped);
    assert_eq!((report.read, report.written), (writes as u64, writes as u64));
    let mut found = 0;
    let mut all = table.scan().stream();
    while let Some(row) = all.try_next().await.unwrap() {
        let number: usize = row.row_key().parse().unwrap();
        assert_eq!(row.get::<i32>("Write"), Ok((writes - rows + number) as i32));
        found += 1;
    }
    assert_eq!(found, rows);
    assert_eq!(carried_out.load(Ordering::Relaxed), writes, "none twice");
    report
}

/// A transport that counts the operations of successful transactions.
struct Counting {
    inner: HttpTransport,
    carried_out: Arc<AtomicUsize>,
}

impl Transport for Counting {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        let is_batch = request.uri().path().ends_with("/$batch");
        let body = request.body().clone();
        Box::pin(async move {
            let answer = self.inner.send(request).await?;
            if is_batch && answer.status() == http::StatusCode::ACCEPTED {
                // Upserts into an existing table: none of them fails.
                let parts = String::from_utf8_lossy(&body).matches("application/http").count();
                self.carried_out.fetch_add(parts, Ordering::Relaxed);
            }
            Ok(answer)
        })
    }
}

/// A transport that never answers.
struct Silent;

impl Transport for Silent {
    fn send(
        &self,
        _request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn cs_17_a_load_takes_no_more_than_its_buffer_holds() {
    let account = Account::builder("http://127.0.0.1:1/acct").transport(Silent).build().unwrap();
    let table = account.tables().table("Loads").unwrap();
    let payload = 1000;
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = taken.clone();
    let writes = (0..WRITES).map(move |write| {
        counted.fetch_add(1, Ordering::Relaxed);
        Entity::new(format!("p{}", write % PARTITIONS), format!("{write:06}"))
            .with("Payload", "x".repeat(payload))
    });
    let load = table.bulk().concurrency(16).buffer_max(BUFFER).upsert(iter(writes)).into_future();
    let mut load = std::pin::pin!(load);
    // No answer arrives, so it stops when the buffer is full.
    for _ in 0..1000 {
        assert!(futures_util::poll!(&mut load).is_pending());
        tokio::task::yield_now().await;
    }
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken * payload <= BUFFER, "{taken} entities");
    assert!(2 * taken * payload > BUFFER, "it uses its buffer: {taken}");
}

fn employee(number: usize) -> Entity {
    Entity::new("Sales", format!("{number:05}")).with("Number", number as i32)
}

fn batch_of(table: &Table, entities: impl IntoIterator<Item = Entity>) -> Batch<Entity> {
    entities.into_iter().fold(table.batch("Sales"), |batch, entity| batch.insert(&entity))
}

/// An entity of `bytes` in binary properties.
fn large(number: usize, bytes: usize) -> Entity {
    let mut entity = employee(number);
    let mut left = bytes;
    for part in 0.. {
        let size = left.min(65_536);
        if size == 0 {
            break;
        }
        entity.set(format!("P{part}"), vec![7_u8; size]);
        left -= size;
    }
    entity
}

async fn cs_11_a_transaction_is_checked_before_it_is_sent(peer: Peer) {
    let table = peer.table("Employees").await;
    let faulty = peer.faulty();
    let table = faulty.table(&table);
    let committed = batch_of(&table, (0..100).map(employee)).commit().await.unwrap();
    assert_eq!(committed.len(), 100);
    assert_eq!(faulty.proxy.take().iter().map(|sent| sent.operations()).collect::<Vec<_>>(), [100]);

    let wide = (0..253).fold(employee(1), |entity, number| entity.with(format!("P{number}"), 1));
    let refused = [
        ("101 operations", batch_of(&table, (0..101).map(employee)), 100),
        ("two partitions", batch_of(&table, [employee(1), Entity::new("Other", "1")]), 1),
        ("a row twice", batch_of(&table, [employee(1), employee(2), employee(1)]), 2),
        ("over 4 MiB", batch_of(&table, (0..5).map(|number| large(number, 800_000))), 3),
        ("an entity over 1 MiB", batch_of(&table, [employee(0), large(1, 1024 * 1024 + 1)]), 1),
        ("253 properties", batch_of(&table, [employee(0), wide]), 1),
    ];
    for (what, batch, index) in refused {
        let error = batch.commit().await.unwrap_err();
        let ErrorKind::InvalidBatch(refused) = error.kind() else { panic!("{what}: {error}") };
        assert_eq!((error.batch_index(), error.attempts()), (Some(index), 0), "{what}: {error}");
        if let BatchFault::TooLarge { bytes } = refused.reason {
            assert!(bytes > 4 * 1024 * 1024, "{what}: {bytes}");
        }
    }
    assert!(faulty.proxy.exchanges().is_empty(), "nothing was sent");
}
