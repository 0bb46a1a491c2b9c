//! What deleted messages cost later ones: nothing.

use crate::engines::Seen;
use crate::fixture::{Fixture, memory};
use lazuli_engine::Writers;
use lazuli_model::PutTimes;

const PAIRS: u64 = 100_000;
/// How many messages one get may examine.
const SHOWN_MAX: u64 = 256;

async fn fixture() -> Fixture {
    Fixture::on(memory(Writers::Sole)).await
}

/// Messages deleted by the receipt of their put, without a get: a later consumer does not scan past them.
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

/// The usual life: put, received, deleted. All gets together scan past each of the two positions of
/// a message at most once, while other messages stay in the queue.
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
    // Those that stay are read when they become visible again.
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

/// A peek of a long queue reads only the messages that it shows.
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

/// Puts a message through another server, whose clock is 20 s behind.
async fn put_late(fixture: &Fixture, text: &str) {
    fixture.clock.step_back_ticks(200_000_000);
    fixture.elsewhere().put(text).await;
    fixture.clock.advance_seconds(20);
}

/// Where others write too, a message may be put late, behind others that were got: it is found, at once if
/// nothing else is there.
#[tokio::test]
async fn a_message_that_was_put_late_is_got() {
    let fixture = Fixture::on(memory(Writers::Many)).await;
    let Fixture { clock, .. } = &fixture;
    clock.advance_seconds(100);
    assert!(fixture.get_texts().await.is_empty());
    put_late(&fixture, "late").await;
    assert_eq!(fixture.get_texts().await, ["late"]);
    for text in ["one", "two", "three"] {
        fixture.put(text).await;
    }
    put_late(&fixture, "later").await;
    let mut got = Vec::new();
    for _ in 0..4 {
        clock.advance_ticks(5_000_000);
        got.extend(fixture.get(1, 600).await.into_iter().map(|got| got.message.text));
    }
    assert!(got.iter().any(|text| text.as_str() == "later"), "{got:?}");
}

/// The minute in which messages may be on their way is that of the scan before, however late the next one is.
#[tokio::test]
async fn a_message_that_was_put_late_is_got_after_a_pause() {
    let fixture = Fixture::on(memory(Writers::Many)).await;
    fixture.clock.advance_seconds(100);
    assert!(fixture.get_texts().await.is_empty());
    fixture.put("one").await;
    assert_eq!(fixture.get_texts().await, ["one"]);
    put_late(&fixture, "late").await;
    fixture.clock.advance_seconds(100);
    assert_eq!(fixture.get_texts().await, ["late", "one"]);
}

/// The clock of this server was set back, so that the time of its queue stands still: others, whose clocks are
/// right, put all messages late.
#[tokio::test]
async fn a_message_that_was_put_late_is_got_while_the_clock_is_behind() {
    let fixture = Fixture::on(memory(Writers::Many)).await;
    fixture.clock.advance_seconds(100);
    fixture.put("one").await;
    assert_eq!(fixture.get(1, 600).await.len(), 1);
    fixture.put("two").await;
    fixture.clock.step_back_ticks(300_000_000);
    fixture.elsewhere().put("late").await;
    fixture.clock.advance_seconds(2);
    let got = fixture.get(1, 600).await;
    assert_eq!(got.first().map(|got| got.message.text.as_str()), Some("late"));
}

/// The same where the clock was ahead by more than a look back, and the queue was found empty then.
#[tokio::test]
async fn messages_are_got_after_the_clock_was_far_ahead() {
    let fixture = Fixture::on(memory(Writers::Many)).await;
    fixture.clock.advance_seconds(1000);
    fixture.put("one").await;
    assert_eq!(fixture.get(1, 5000).await.len(), 1);
    assert!(fixture.get_texts().await.is_empty());
    fixture.clock.step_back_ticks(6_000_000_000);
    for text in ["two", "three"] {
        fixture.elsewhere().put(text).await;
        fixture.clock.advance_seconds(2);
        assert_eq!(fixture.get(1, 5000).await.len(), 1, "{text}");
    }
}

/// A peek shows all there are, up to what was asked for.
#[tokio::test]
async fn a_message_that_was_put_late_is_peeked() {
    let fixture = Fixture::on(memory(Writers::Many)).await;
    fixture.clock.advance_seconds(100);
    assert!(fixture.get_texts().await.is_empty());
    fixture.put("here").await;
    put_late(&fixture, "late").await;
    assert_eq!(fixture.peek_texts().await, ["late", "here"]);
}

/// Where others write too, a scan begins a minute before the first message once a second, and if it would
/// otherwise find nothing.
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
    engine.seen.reset();
    assert!(fixture.get_texts().await.is_empty());
    // Two places of each message of a minute, at 10 a second.
    assert!(Seen::of(&engine.seen.passed) <= 2 * 600 + 40, "{}", Seen::of(&engine.seen.passed));
    fixture.put("here").await;
    fixture.put("there").await;
    engine.seen.reset();
    assert_eq!(fixture.get(1, 30).await.len(), 1);
    assert_eq!(fixture.get(1, 30).await.len(), 1);
    // Of a second.
    assert!(Seen::of(&engine.seen.passed) <= 2 * 2 * 20, "{}", Seen::of(&engine.seen.passed));
}
