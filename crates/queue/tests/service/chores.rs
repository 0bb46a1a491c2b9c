//! The space of expired messages, and of deleted or cleared queues, is reclaimed.

use crate::fixture::{Fixture, memory, times};
use lazuli_engine::{Direction, Engine, KeyRange, Scan, Visit, Writers};
use lazuli_model::{Clock, Metadata, QueueName};
use lazuli_queue::Reclaimed;
use std::sync::Arc;

/// The number of keys of a kind in the store.
async fn keys(engine: &Arc<dyn Engine>, kind: u8) -> usize {
    let view = engine.view().await.unwrap();
    let mut keys = 0;
    let scan = Scan {
        range: KeyRange::prefix(&[b'L', kind]),
        direction: Direction::Forward,
        rows_max: usize::MAX,
        bytes_max: usize::MAX,
        rows_expected: 1,
    };
    let mut count = |_: &[u8], _: &[u8], _| {
        keys += 1;
        Visit::Continue
    };
    view.scan(scan, &mut count).await.unwrap();
    keys
}

async fn expire_all(fixture: &Fixture) -> usize {
    let mut steps = 0;
    while fixture.service.expire_some().await.unwrap() == Reclaimed::Partly {
        steps += 1;
    }
    steps
}

#[tokio::test]
async fn expired_messages_are_deleted_with_their_texts() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        let engine = fixture.engine.inner.clone();
        let other = QueueName::parse("other").unwrap();
        let none = Metadata::default();
        fixture.service.create_queue(&fixture.account, &other, &none).await.unwrap();
        for message in 0..1500 {
            fixture.put_with(&"x".repeat(message), times(0, 10)).await;
        }
        fixture.put_with(&"y".repeat(600), times(0, -1)).await;
        assert_eq!((keys(&engine, b'm').await, keys(&engine, b't').await), (1501, 988));
        assert_eq!(fixture.count().await, 1501);
        assert!(expire_all(&fixture).await >= 3);
        assert_eq!(keys(&engine, b'm').await, 1501);
        fixture.clock.advance_seconds(11);
        expire_all(&fixture).await;
        assert_eq!((keys(&engine, b'm').await, keys(&engine, b't').await), (1, 1));
        assert_eq!((fixture.count().await, fixture.get_texts().await.len()), (1, 1));
    }
}

/// A count that others may change is kept for a second. It does not include expired messages, so
/// their deletion must not lower it: it fell below the number of messages.
#[tokio::test]
async fn the_deletion_of_expired_messages_does_not_lower_a_count_without_them() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        fixture.put_with("expires", times(0, 10)).await;
        fixture.put_with("stays", times(0, -1)).await;
        fixture.clock.advance_seconds(11);
        assert_eq!(fixture.count().await, 1);
        expire_all(&fixture).await;
        assert_eq!(fixture.count().await, 1);
    }
}

#[tokio::test]
async fn the_space_of_cleared_and_deleted_queues_is_given_back_when_no_view_can_show_it() {
    let fixture = Fixture::new().await;
    let engine = fixture.engine.inner.clone();
    let Fixture { service, account, queue, clock, .. } = &fixture;
    for _ in 0..10 {
        fixture.put(&"x".repeat(600)).await;
    }
    fixture.clear().await.unwrap();
    fixture.put(&"kept".repeat(200)).await;
    assert_eq!(service.reclaim_some(clock.now()).await.unwrap(), Reclaimed::Fully);
    assert_eq!((keys(&engine, b'm').await, keys(&engine, b't').await), (11, 11));
    clock.advance_seconds(61);
    while service.reclaim_some(clock.now()).await.unwrap() == Reclaimed::Partly {}
    assert_eq!((keys(&engine, b'm').await, keys(&engine, b't').await), (1, 1));
    assert_eq!(keys(&engine, b'd').await, 0);
    assert_eq!((fixture.count().await, fixture.get_texts().await.len()), (1, 1));
    service.delete_queue(account, queue).await.unwrap();
    clock.advance_seconds(61);
    while service.reclaim_some(clock.now()).await.unwrap() == Reclaimed::Partly {}
    let left = [b'a', b'd', b'm', b'q', b't'];
    for kind in left {
        assert_eq!(keys(&engine, kind).await, 0, "{}", kind as char);
    }
}
