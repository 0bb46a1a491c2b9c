//! Commits that fail, whose answers are lost, or whose callers have stopped waiting.

use crate::engines::Fault;
use crate::fixture::{Fixture, memory, text, visible_in};
use lazuli_engine::Writers;
use lazuli_model::limits::MESSAGES_PER_GET_MAX;
use lazuli_model::{PutTimes, VisibilityTimeout};
use lazuli_queue::{QueueBounds, QueueError};
use lazuli_service::StoreError;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};

/// Polls a request until its commit hangs, then drops it.
fn abandon<T>(request: impl Future<Output = T>) {
    hang(pin!(request));
}

/// Polls a request until its commit hangs.
fn hang<T>(mut request: Pin<&mut impl Future<Output = T>>) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        assert!(request.as_mut().poll(&mut context).is_pending(), "the request was to hang");
    }
}

fn is_undetermined<T: std::fmt::Debug>(result: Result<T, QueueError>) -> bool {
    matches!(result, Err(QueueError::Store(StoreError::Undetermined)))
}

#[tokio::test]
async fn an_abandoned_put_that_happened_is_delivered() {
    let fixture = Fixture::new().await;
    fixture.get(1, 30).await;
    fixture.engine.plan([Fault::HangAfter]);
    abandon(fixture.try_to_put("abandoned", PutTimes::default()));
    fixture.put("after").await;
    assert_eq!(fixture.peek_texts().await, ["abandoned", "after"]);
    assert_eq!(fixture.get_texts().await, ["abandoned", "after"]);
    assert_eq!(fixture.count().await, 2);
}

#[tokio::test]
async fn an_abandoned_put_that_never_happens_is_forgotten() {
    let fixture = Fixture::new().await;
    fixture.put("first").await;
    fixture.engine.plan([Fault::Hang]);
    abandon(fixture.try_to_put("never", PutTimes::default()));
    assert_eq!(fixture.get_texts().await, ["first"]);
    assert_eq!(fixture.count().await, 1);
    fixture.clock.advance_seconds(90);
    assert_eq!(fixture.get_texts().await, ["first"]);
    assert_eq!(fixture.count().await, 1);
}

/// Too many commits of unknown outcome make the next scan start again at messages that others are about
/// to deliver; it continues after them.
#[tokio::test]
async fn a_get_finds_what_lies_behind_the_messages_of_others() {
    let mut fixture = Fixture::new().await;
    let bounds = QueueBounds { doubts_max: 1, ..QueueBounds::default() };
    fixture.service = fixture.service.with_bounds(bounds);
    fixture.engine.plan([Fault::Hang]);
    abandon(fixture.try_to_put("never", PutTimes::default()));
    let gets = 5;
    for message in 0..gets * MESSAGES_PER_GET_MAX {
        fixture.put(&message.to_string()).await;
    }
    fixture.engine.plan((0..gets).map(|_| Fault::Hang));
    let get = |_| Box::pin(fixture.try_to_get(MESSAGES_PER_GET_MAX, 30));
    let mut others: Vec<_> = (0..gets).map(get).collect();
    others.iter_mut().for_each(|other| hang(other.as_mut()));
    fixture.engine.plan([Fault::Hang]);
    abandon(fixture.try_to_put("never", PutTimes::default()));
    fixture.put("last").await;
    assert_eq!(fixture.get_texts().await, ["last"]);
}

/// The cursor has long passed the position of a commit that the engine finishes late.
#[tokio::test]
async fn an_abandoned_put_that_happens_later_is_delivered() {
    let fixture = Fixture::new().await;
    let Fixture { engine, clock, .. } = &fixture;
    engine.plan([Fault::Hold]);
    abandon(fixture.try_to_put("late", PutTimes::default()));
    for message in 0..10 {
        fixture.put(&message.to_string()).await;
        clock.advance_seconds(1);
        let got = fixture.get(1, 30).await.remove(0);
        fixture.delete(&got).await.unwrap();
    }
    assert_eq!(fixture.count().await, 0);
    assert_eq!(engine.release().await, 1);
    assert_eq!(fixture.count().await, 1);
    clock.advance_seconds(1);
    assert_eq!(fixture.peek_texts().await, ["late"]);
    assert_eq!(fixture.get_texts().await, ["late"]);
}

/// Of an abandoned delivery and a later one, exactly one happens, whichever the engine finishes first.
#[tokio::test]
async fn an_abandoned_get_that_happens_later_does_not_deliver_twice() {
    let fixture = Fixture::new().await;
    let Fixture { engine, clock, .. } = &fixture;
    fixture.put("m").await;
    engine.plan([Fault::Hold]);
    abandon(fixture.try_to_get(1, 30));
    let got = fixture.get(1, 30).await.remove(0);
    assert_eq!((got.message.dequeue_count, engine.release().await), (1, 0));
    engine.plan([Fault::Hold]);
    clock.advance_seconds(31);
    abandon(fixture.try_to_get(1, 30));
    assert_eq!(engine.release().await, 1);
    assert!(fixture.get_texts().await.is_empty());
    assert!(matches!(fixture.delete(&got).await, Err(QueueError::MessageNotFound)));
    clock.advance_seconds(31);
    assert_eq!(fixture.get(1, 30).await[0].message.dequeue_count, 3);
}

#[tokio::test]
async fn an_abandoned_get_gives_its_messages_back() {
    let fixture = Fixture::new().await;
    for message in ["a", "b"] {
        fixture.put(message).await;
    }
    for _ in 0..3 {
        fixture.engine.plan([Fault::Hang]);
        abandon(fixture.try_to_get(2, 30));
        assert_eq!(fixture.peek_texts().await, ["a", "b"]);
    }
    assert_eq!(fixture.get_texts().await, ["a", "b"]);
}

#[tokio::test]
async fn an_abandoned_get_that_happened_hides_its_messages_for_their_time() {
    let fixture = Fixture::new().await;
    for message in ["a", "b", "c"] {
        fixture.put(message).await;
    }
    fixture.engine.plan([Fault::HangAfter]);
    abandon(fixture.try_to_get(2, 30));
    assert_eq!(fixture.get_texts().await, ["c"]);
    fixture.clock.advance_seconds(31);
    assert_eq!(fixture.get_texts().await, ["a", "b", "c"]);
    assert_eq!(fixture.count().await, 3);
}

#[tokio::test]
async fn abandoned_updates_and_deletes_lose_nothing() {
    for (fault, expect) in [(Fault::Hang, 2), (Fault::HangAfter, 1)] {
        let fixture = Fixture::new().await;
        let Fixture { service, account, queue, engine, .. } = &fixture;
        let (kept, gone) = (fixture.put("updated").await, fixture.put("deleted").await);
        assert_eq!(fixture.count().await, 2);
        let is_lost = matches!(fault, Fault::Hang);
        engine.plan([fault]);
        abandon(service.delete_message(account, queue, gone.id, gone.receipt));
        assert_eq!(fixture.count().await, expect);
        engine.plan([if is_lost { Fault::Hang } else { Fault::HangAfter }]);
        let held = (kept.id, kept.receipt);
        let other = text("new");
        abandon(service.update_message(account, queue, held, visible_in(0), Some(&other)));
        let mut texts = fixture.get_texts().await;
        texts.sort();
        let expect: &[&str] = if is_lost { &["deleted", "updated"] } else { &["new"] };
        assert_eq!(texts, expect);
    }
}

/// A request dropped at any point: before, during or after its scan and its commit.
#[tokio::test]
async fn a_get_dropped_at_any_point_locks_nothing() {
    for polls in 0..8 {
        let fixture = Fixture::new().await;
        for message in 0..5 {
            fixture.put(&message.to_string()).await;
        }
        let fixture = fixture.elsewhere();
        {
            fixture.engine.plan([Fault::After(Box::pin(lazuli_engine::retry::give_way()))]);
            let mut request = pin!(fixture.try_to_get(2, 30));
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                if request.as_mut().poll(&mut context).is_ready() {
                    break;
                }
            }
        }
        fixture.clock.advance_seconds(31);
        assert_eq!(fixture.get_texts().await.len(), 5, "after {polls} polls");
        assert_eq!(fixture.count().await, 5);
    }
}

/// A removal was counted before the addition, and found nothing to remove: the count stayed at 1, and a
/// queue considered empty hid the next message.
#[tokio::test]
async fn a_message_deleted_before_its_put_was_answered_is_counted_out() {
    let fixture = Fixture::new().await;
    let consumer = fixture.clone();
    fixture.engine.plan([Fault::Before(Box::pin(async move {
        assert_eq!(consumer.count().await, 1);
        let got = consumer.get(1, 30).await.remove(0);
        consumer.delete(&got).await.unwrap();
        assert_eq!(consumer.count().await, 0);
    }))]);
    fixture.put("gone").await;
    assert_eq!(fixture.count().await, 0);
    assert!(fixture.get_texts().await.is_empty());
    fixture.put("here").await;
    assert_eq!((fixture.count().await, fixture.get_texts().await), (1, vec!["here".into()]));
}

#[tokio::test]
async fn busy_commits_leave_everything_as_it_was() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        let put = fixture.put("m").await;
        let Fixture { service, account, queue, engine, .. } = &fixture;
        engine.plan([Fault::Busy, Fault::Busy, Fault::Busy, Fault::Busy]);
        let busy = [
            fixture.try_to_put("other", PutTimes::default()).await.err(),
            fixture.try_to_get(1, 30).await.err(),
            service.delete_message(account, queue, put.id, put.receipt).await.err(),
            fixture.clear().await.err(),
        ];
        for error in busy {
            assert!(matches!(error, Some(QueueError::Store(StoreError::Busy))), "{error:?}");
        }
        assert_eq!((fixture.count().await, fixture.get_texts().await), (1, vec!["m".into()]));
    }
}

#[tokio::test]
async fn conflicts_are_tried_again() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        let conflict = || fixture.engine.plan([Fault::Conflict, Fault::Conflict]);
        conflict();
        fixture.put("m").await;
        conflict();
        let got = fixture.get(1, 30).await.remove(0);
        conflict();
        fixture.delete(&got).await.unwrap();
        conflict();
        fixture.clear().await.unwrap();
        assert_eq!(fixture.count().await, 0);
    }
}

#[tokio::test]
async fn lost_answers_are_told_from_lost_commits_where_they_can_be() {
    let fixture = Fixture::new().await;
    let Fixture { service, account, queue, engine, clock, .. } = &fixture;
    engine.plan([Fault::LoseAnswer]);
    let put = fixture.put("put").await;
    assert_eq!(fixture.count().await, 1);
    clock.advance_seconds(1);
    engine.plan([Fault::LoseCommit]);
    assert!(is_undetermined(fixture.try_to_put("lost", PutTimes::default()).await));
    engine.plan([Fault::LoseCommit]);
    service.delete_message(account, queue, put.id, put.receipt).await.unwrap();
    assert_eq!(fixture.count().await, 0);
    let put = fixture.put("again").await;
    engine.plan([Fault::LoseAnswer]);
    let deleted = service.delete_message(account, queue, put.id, put.receipt).await;
    assert!(is_undetermined(deleted));
    assert_eq!(fixture.count().await, 0);
    assert!(fixture.get_texts().await.is_empty());
}

#[tokio::test]
async fn a_get_whose_answer_was_lost_keeps_its_messages_hidden() {
    let fixture = Fixture::new().await;
    fixture.put("m").await;
    fixture.engine.plan([Fault::LoseAnswer]);
    let visibility = VisibilityTimeout::of_get(30).unwrap();
    let Fixture { service, account, queue, .. } = &fixture;
    assert!(is_undetermined(service.get_messages(account, queue, 1, visibility).await));
    assert!(fixture.get_texts().await.is_empty());
    fixture.clock.advance_seconds(31);
    assert_eq!(fixture.get_texts().await, ["m"]);
}
