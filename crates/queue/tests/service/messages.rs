//! Messages: the rules and traps that this layer decides.

use crate::fixture::{Fixture, memory, text, texts, times, visible_in};
use lazuli_engine::Writers;
use lazuli_model::{Clock, MessageId, PopReceipt, PutTimes, Timestamp};
use lazuli_queue::{QueueError, UpdatedMessage};

async fn update(
    fixture: &Fixture,
    held: (MessageId, PopReceipt),
    seconds: i64,
    other: Option<&str>,
) -> Result<UpdatedMessage, QueueError> {
    let Fixture { service, account, queue, .. } = fixture;
    let other = other.map(text);
    service.update_message(account, queue, held, visible_in(seconds), other.as_ref()).await
}

async fn delete(fixture: &Fixture, (id, receipt): (MessageId, PopReceipt)) -> bool {
    let Fixture { service, account, queue, .. } = fixture;
    match service.delete_message(account, queue, id, receipt).await {
        Ok(()) => true,
        Err(QueueError::MessageNotFound) => false,
        Err(error) => panic!("{error}"),
    }
}

/// also for many messages within one tick of the clock.
#[tokio::test]
async fn messages_come_in_the_order_of_insertion() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        let expect: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        for message in &expect {
            fixture.put(message).await;
        }
        assert_eq!(fixture.peek_texts().await, expect[..32]);
        let mut got = Vec::new();
        while got.len() < 100 {
            got.extend(texts(&fixture.get(7, 30).await));
        }
        assert_eq!(got, expect);
        // Messages of one get reappear at one tick, and still in the order of insertion.
        fixture.clock.advance_seconds(31);
        assert_eq!(fixture.peek_texts().await, expect[..32]);
    }
}

/// TQ-46: messages of one Get share one receipt.
#[tokio::test]
async fn messages_of_one_get_share_a_receipt() {
    let fixture = Fixture::new().await;
    for message in ["a", "b", "c"] {
        fixture.put(message).await;
    }
    let got = fixture.get(3, 30).await;
    assert!(got.iter().all(|message| message.receipt == got[0].receipt));
    assert_eq!(got[0].receipt.dequeue_count, None);
    fixture.delete(&got[1]).await.unwrap();
    fixture.clock.advance_seconds(31);
    assert_eq!(fixture.get_texts().await, ["a", "c"]);
}

/// TQ-35, TQ-37: invisible until the instant of its time.
#[tokio::test]
async fn a_message_is_visible_from_the_instant_of_its_time() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        fixture.put_with("delayed", times(10, -1)).await;
        fixture.clock.advance_ticks(10 * 10_000_000 - 1);
        assert!(fixture.get_texts().await.is_empty() && fixture.peek_texts().await.is_empty());
        fixture.clock.advance_ticks(1);
        assert_eq!(fixture.peek_texts().await, ["delayed"]);
        assert_eq!(fixture.get_texts().await, ["delayed"]);
        fixture.clock.advance_ticks(30 * 10_000_000 - 1);
        assert!(fixture.get_texts().await.is_empty());
        fixture.clock.advance_ticks(1);
        assert_eq!(fixture.get_texts().await, ["delayed"]);
    }
}

/// only Get raises the dequeue count.
#[tokio::test]
async fn gets_count_and_peeks_and_updates_do_not() {
    let fixture = Fixture::new().await;
    let put = fixture.put("m").await;
    let held = (put.id, put.receipt);
    let updated = update(&fixture, held, 0, None).await.unwrap();
    assert_eq!(updated.receipt.dequeue_count, Some(0));
    for count in 1..4 {
        let Fixture { service, account, queue, .. } = &fixture;
        let peeked = service.peek_messages(account, queue, 1).await.unwrap();
        assert_eq!(peeked[0].dequeue_count, count - 1);
        let got = fixture.get(1, 1).await;
        assert_eq!(got[0].message.dequeue_count, count);
        let held = (got[0].message.id, got[0].receipt);
        let updated = update(&fixture, held, 0, None).await.unwrap();
        assert_eq!(updated.receipt.dequeue_count, Some(count));
    }
}

/// TQ-38: the receipt of Put is valid until the message is dequeued.
#[tokio::test]
async fn the_receipt_of_put_serves_until_the_message_is_got() {
    let fixture = Fixture::new().await;
    let (first, second) = (fixture.put("first").await, fixture.put("second").await);
    assert!(delete(&fixture, (first.id, first.receipt)).await);
    assert!(!delete(&fixture, (first.id, first.receipt)).await);
    let got = fixture.get(1, 30).await;
    assert_eq!(got[0].message.id, second.id);
    assert!(!delete(&fixture, (second.id, second.receipt)).await);
    assert!(delete(&fixture, (second.id, got[0].receipt)).await);
}

/// TQ-25, TQ-26: an update voids the receipt, also without a text.
#[tokio::test]
async fn an_update_voids_the_receipt_before() {
    let fixture = Fixture::new().await;
    fixture.put("text").await;
    let got = fixture.get(1, 30).await.remove(0);
    let id = got.message.id;
    let updated = update(&fixture, (id, got.receipt), 60, None).await.unwrap();
    assert!(!delete(&fixture, (id, got.receipt)).await);
    let stale = update(&fixture, (id, got.receipt), 60, Some("other")).await;
    assert!(matches!(stale, Err(QueueError::MessageNotFound)));
    assert!(updated.receipt.next_visible >= got.receipt.next_visible.plus_seconds(30));
    let updated = update(&fixture, (id, updated.receipt), 0, Some("new text")).await.unwrap();
    assert_eq!(fixture.peek_texts().await, ["new text"]);
    assert!(delete(&fixture, (id, updated.receipt)).await);
}

/// with a stopped clock, and however the same time is reached.
#[tokio::test]
async fn a_receipt_never_becomes_good_again() {
    let fixture = Fixture::new().await;
    fixture.put("m").await;
    let first = fixture.get(1, 30).await.remove(0);
    let held = (first.message.id, first.receipt);
    fixture.clock.advance_seconds(10);
    update(&fixture, held, 0, None).await.unwrap();
    // Ten seconds later, a timeout of twenty seconds ends when the first thirty did.
    for _ in 0..20 {
        let again = fixture.get(1, 20).await.remove(0);
        assert_ne!(again.receipt, first.receipt);
        let held = (again.message.id, again.receipt);
        update(&fixture, held, 0, None).await.unwrap();
    }
    assert!(!delete(&fixture, held).await);
}

/// TQ-27: a receipt outlives its visibility until another consumer gets the message.
#[tokio::test]
async fn a_receipt_serves_after_its_time_unless_the_message_was_got() {
    let fixture = Fixture::new().await;
    fixture.put("a").await;
    let got = fixture.get(1, 5).await.remove(0);
    fixture.clock.advance_seconds(100);
    assert_eq!(fixture.peek_texts().await, ["a"]);
    assert!(delete(&fixture, (got.message.id, got.receipt)).await);
    assert!(fixture.get_texts().await.is_empty());
}

/// and a receipt with another dequeue count than the message's.
#[tokio::test]
async fn other_ids_and_counts_find_no_message() {
    let fixture = Fixture::new().await;
    let put = fixture.put("a").await;
    let other = MessageId::new(put.inserted, 12345);
    assert!(!delete(&fixture, (other, put.receipt)).await);
    let of_update = |count| PopReceipt::of_update(put.receipt.next_visible, count);
    assert!(!delete(&fixture, (put.id, of_update(1))).await);
    assert!(!delete(&fixture, (put.id, PopReceipt::of_get(Timestamp::MAX))).await);
    assert!(delete(&fixture, (put.id, of_update(0))).await);
}

/// TQ-23: gone for every operation at the instant of expiry.
#[tokio::test]
async fn an_expired_message_is_gone_for_every_operation() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        let put = fixture.put_with("short", times(0, 10)).await;
        fixture.put_with("hidden", times(9, 10)).await;
        fixture.put_with("never", times(0, -1)).await;
        assert_eq!(fixture.count().await, 3);
        fixture.clock.advance_ticks(10 * 10_000_000 - 1);
        assert_eq!(fixture.peek_texts().await, ["short", "never", "hidden"]);
        fixture.clock.advance_seconds(1);
        assert_eq!(fixture.peek_texts().await, ["never"]);
        assert!(!delete(&fixture, (put.id, put.receipt)).await);
        let gone = update(&fixture, (put.id, put.receipt), 0, None).await;
        assert!(matches!(gone, Err(QueueError::MessageNotFound)));
        fixture.clock.advance_seconds(1);
        assert_eq!(fixture.count().await, 1);
        assert_eq!(fixture.get_texts().await, ["never"]);
    }
}

/// TQ-23: an expired message is not counted, not even for the rest of its second.
#[tokio::test]
async fn the_count_follows_expiry_at_once() {
    let fixture = Fixture::new().await;
    fixture.put_with("short", times(0, 1)).await;
    fixture.put_with("never", times(0, -1)).await;
    fixture.clock.advance_ticks(10_000_000 + 100_000);
    assert_eq!(fixture.count().await, 1);
}

/// the count is never too low, even where it is taken once a second.
#[tokio::test]
async fn the_count_follows_what_the_process_itself_does() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        assert_eq!(fixture.count().await, 0);
        let put = fixture.put("m").await;
        fixture.put("n").await;
        assert_eq!(fixture.count().await, 2);
        assert!(delete(&fixture, (put.id, put.receipt)).await);
        assert_eq!(fixture.count().await, 1);
        fixture.clear().await.unwrap();
        assert_eq!(fixture.count().await, 0);
    }
}

/// later than the expiry is refused by Update: but not by Get.
#[tokio::test]
async fn visibility_past_the_expiry_is_refused_by_update_only() {
    let fixture = Fixture::new().await;
    let put = fixture.put_with("m", times(0, 10)).await;
    let held = (put.id, put.receipt);
    let refused = update(&fixture, held, 11, None).await;
    assert!(matches!(refused, Err(QueueError::VisibilityPastExpiry)));
    assert_eq!(texts(&fixture.get(1, 60).await), ["m"]);
}

///
#[tokio::test]
async fn times_of_a_put_message() {
    let fixture = Fixture::new().await;
    let put = fixture.put("m").await;
    assert_eq!(put.inserted, fixture.clock.now());
    assert_eq!(put.expires, put.inserted.plus_seconds(604_800));
    assert_eq!(put.receipt.next_visible, put.inserted);
    let put = fixture.put_with("m", times(30, 1_073_741_824)).await;
    assert_eq!(put.expires, put.inserted.plus_seconds(1_073_741_824));
    assert_eq!(put.receipt.next_visible, put.inserted.plus_seconds(30));
    assert_eq!(fixture.put_with("m", times(30, -1)).await.expires, Timestamp::MAX);
}

/// texts of every length, unchanged and replaced.
#[tokio::test]
async fn texts_are_kept_exactly_wherever_they_lie() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        let lengths = [0, 1, 512, 513, 65_536];
        for from in lengths {
            for to in lengths {
                let (before, after) = ("é".repeat(from / 2), " ".repeat(to));
                fixture.put(&before).await;
                let got = fixture.get(1, 1).await.remove(0);
                assert_eq!(got.message.text.as_str(), before);
                let held = (got.message.id, got.receipt);
                let kept = update(&fixture, held, 0, None).await.unwrap();
                fixture.clock.advance_ticks(1);
                assert_eq!(fixture.peek_texts().await, [before.as_str()]);
                let held = (got.message.id, kept.receipt);
                let changed = update(&fixture, held, 0, Some(&after)).await.unwrap();
                fixture.clock.advance_ticks(1);
                assert_eq!(fixture.peek_texts().await, [after]);
                assert!(delete(&fixture, (got.message.id, changed.receipt)).await);
            }
        }
    }
}

/// A clock that steps back makes no message visible twice, and hides none.
#[tokio::test]
async fn a_clock_that_steps_back_changes_no_order() {
    let fixture = Fixture::new().await;
    fixture.put("a").await;
    fixture.clock.step_back_ticks(50_000_000);
    fixture.put("b").await;
    assert_eq!(fixture.get_texts().await, ["a", "b"]);
    fixture.clock.step_back_ticks(50_000_000);
    fixture.put("c").await;
    assert_eq!(fixture.get_texts().await, ["c"]);
    fixture.clock.advance_seconds(41);
    assert_eq!(fixture.get_texts().await, ["a", "b", "c"]);
}

#[tokio::test]
async fn messages_survive_a_restart_with_their_state() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        for message in ["a", "b", "c"] {
            fixture.put_with(message, PutTimes::default()).await;
        }
        let got = fixture.get(1, 30).await.remove(0);
        fixture.clock.advance_seconds(1);
        let again = fixture.elsewhere();
        assert_eq!(
            (again.count().await, again.peek_texts().await),
            (3, vec!["b".into(), "c".into()])
        );
        assert!(delete(&again, (got.message.id, got.receipt)).await);
        assert_eq!(again.get_texts().await, ["b", "c"]);
    }
}
