//! What deleted messages cost those that come after: nothing.

use crate::engines::Seen;
use crate::fixture::{Fixture, memory};
use lazuli_engine::Writers;
use lazuli_model::PutTimes;

const PAIRS: u64 = 100_000;
/// What one get may look at.
const SHOWN_MAX: u64 = 256;

async fn fixture() -> Fixture {
    Fixture::on(memory(Writers::Sole)).await
}

/// Messages deleted by the receipt of their put, without a get: a consumer that comes later does not
/// pass them.
#[tokio::test]
async fn a_get_after_100_000_puts_and_deletes_looks_at_few_keys() {
    let fixture = fixture().await;
    let Fixture { service, account, queue, engine, clock, .. } = &fixture;
    for _ in 0..PAIRS {
        let put = fixture.put("gone").await;
        service.delete_message(account, queue, put.id, put.receipt).await.unwrap();
        clock.advance_ticks(1000);
    }
    fixture.put("here").await;
    engine.seen.reset();
    assert_eq!(fixture.get_texts().await, ["here"]);
    assert!(fixture.get_texts().await.is_empty());
    assert!(Seen::of(&engine.seen.shown) <= SHOWN_MAX);
    assert!(Seen::of(&engine.seen.passed) <= SHOWN_MAX, "{}", Seen::of(&engine.seen.passed));
}

/// The usual life: put, got, deleted. Both places where a message was are passed at most once, by
/// all gets together, while other messages stay in the queue.
#[tokio::test]
async fn every_deleted_message_is_passed_at_most_once() {
    let fixture = fixture().await;
    let Fixture { engine, clock, .. } = &fixture;
    const MESSAGES: u64 = 20_000;
    const STAY: usize = 10;
    for _ in 0..STAY {
        fixture.put_with("stays", PutTimes::default()).await;
    }
    engine.seen.reset();
    let mut deleted = 0;
    for _ in 0..MESSAGES {
        fixture.put("passes").await;
        for got in fixture.get(1, 30).await {
            if got.message.text.as_str() == "passes" {
                fixture.delete(&got).await.unwrap();
                deleted += 1;
            }
        }
        clock.advance_ticks(100_000);
    }
    assert!(deleted > MESSAGES * 9 / 10, "{deleted}");
    let seen = &engine.seen;
    let (passed, deletes) = (Seen::of(&seen.passed), Seen::of(&seen.deletes));
    assert!(passed <= deletes, "{passed} keys were passed, {deletes} deleted");
    // Those that stay are shown as they return.
    assert!(Seen::of(&seen.shown) <= 3 * MESSAGES, "{}", Seen::of(&seen.shown));
    seen.reset();
    clock.advance_seconds(60);
    fixture.get(1, 30).await;
    seen.reset();
    fixture.get(1, 30).await;
    assert!(Seen::of(&seen.passed) <= SHOWN_MAX && Seen::of(&seen.shown) <= SHOWN_MAX);
}

/// A queue that is polled while it is empty is not scanned at all.
#[tokio::test]
async fn polling_an_empty_queue_scans_nothing() {
    let fixture = fixture().await;
    let Fixture { engine, clock, .. } = &fixture;
    let put = fixture.put("once").await;
    let Fixture { service, account, queue, .. } = &fixture;
    service.delete_message(account, queue, put.id, put.receipt).await.unwrap();
    engine.seen.reset();
    for _ in 0..1000 {
        assert!(fixture.get_texts().await.is_empty());
        clock.advance_seconds(1);
    }
    assert_eq!(Seen::of(&engine.seen.scans), 0);
    fixture.put("now").await;
    assert_eq!(fixture.get_texts().await, ["now"]);
}

/// A peek of a long queue looks at the messages that it shows.
#[tokio::test]
async fn a_peek_looks_at_no_more_messages_than_it_shows() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        let Fixture { service, account, queue, engine, .. } = &fixture;
        for _ in 0..100 {
            fixture.put("waits").await;
        }
        engine.seen.reset();
        let peeked = service.peek_messages(account, queue, 3).await.unwrap();
        assert_eq!((peeked.len(), Seen::of(&engine.seen.shown)), (3, 3), "{writers:?}");
    }
}

/// Where others write too, a scan begins a minute before the first message.
#[tokio::test]
async fn a_hint_keeps_scans_short_where_others_write() {
    let fixture = Fixture::on(memory(Writers::Many)).await;
    let Fixture { engine, clock, .. } = &fixture;
    for _ in 0..5_000 {
        fixture.put("passes").await;
        clock.advance_ticks(1_000_000);
        for got in fixture.get(1, 1).await {
            fixture.delete(&got).await.unwrap();
        }
    }
    fixture.put("here").await;
    engine.seen.reset();
    assert_eq!(fixture.get_texts().await, ["here"]);
    // Two places of each message of a minute, at 10 a second.
    assert!(Seen::of(&engine.seen.passed) <= 2 * 600 + 20, "{}", Seen::of(&engine.seen.passed));
}
