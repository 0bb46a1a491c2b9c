//! Transactions and many writes: CS-11, CS-17.

use crate::peer::Peer;
use lazuli_client::{Batch, BatchFault, Entity, ErrorKind, Table, iter};
use lazuli_test::TestServer;
use std::num::NonZeroU32;

crate::scenarios! { cs_11_a_transaction_is_checked_before_it_is_sent }

/// Writes to one row, the last of which must win.
const WRITES_TO_A_ROW: usize = 2;
const PARTITIONS: usize = 500;
const WRITES: usize = 100_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_17_a_load_is_written_once_and_in_order() {
    // The bound is per partition and second. It is set so low that the load meets it.
    let rate_max = NonZeroU32::new(250).unwrap();
    let server = TestServer::builder().partition_rate_max(rate_max).start().await.unwrap();
    let table = server.account().tables().create("Loads").await.unwrap();
    let rows = WRITES / WRITES_TO_A_ROW;
    let writes = (0..WRITES).map(move |write| {
        let row = write % rows;
        Entity::new(format!("p{:03}", row % PARTITIONS), format!("{row:06}"))
            .with("Write", write as i32)
    });
    let bulk = table.bulk().concurrency(16).buffer_max(4 * 1024 * 1024);
    let report = bulk.upsert(iter(writes)).await.unwrap();
    assert!(report.failed.is_empty() && !report.stopped);
    assert_eq!((report.read, report.written), (WRITES as u64, WRITES as u64));
    let mut found = 0;
    let mut all = table.scan().stream();
    while let Some(row) = all.try_next().await.unwrap() {
        let number: usize = row.row_key().parse().unwrap();
        assert_eq!(row.get::<i32>("Write"), Ok((WRITES - rows + number) as i32));
        found += 1;
    }
    assert_eq!(found, rows);
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
