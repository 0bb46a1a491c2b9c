//! Transactions: CS-11.

use crate::peer::Peer;
use lazuli_client::{Batch, BatchFault, Entity, ErrorKind, Table};

crate::scenarios! { cs_11_a_transaction_is_checked_before_it_is_sent }

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
