//! A store with one writer that loses its last acknowledged commits when it is reopened: no stored
//! message is lost, and none is delivered twice within a stored visibility timeout.

use crate::engines::Fault;
use crate::fixture::{Fixture, texts};
use lazuli_engine::{
    Acknowledged, BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, KeyRange,
    Limits, MemoryEngine, Nature, Reclaimed, Revision, View,
};
use lazuli_queue::ReceivedMessage;
use lazuli_testkit::seed::Seeded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A memory engine that can be rolled back.
#[derive(Default)]
struct Forgetful {
    current: Mutex<Arc<MemoryEngine>>,
    /// The commits so far.
    commits: Mutex<Vec<(Commit, Revision)>>,
    losses: AtomicU64,
}

impl Forgetful {
    fn current(&self) -> Arc<MemoryEngine> {
        self.current.lock().unwrap().clone()
    }

    fn happened(&self) -> usize {
        self.commits.lock().unwrap().len()
    }

    /// Loses the last `number` commits.
    async fn lose(&self, number: usize) {
        let kept = {
            let mut commits = self.commits.lock().unwrap();
            let kept = commits.len() - number;
            commits.truncate(kept);
            commits.clone()
        };
        let engine = MemoryEngine::default();
        for (commit, revision) in kept {
            assert_eq!(engine.commit(commit).await.unwrap(), revision);
        }
        self.losses.fetch_add(1, Ordering::SeqCst);
        *self.current.lock().unwrap() = Arc::new(engine);
    }
}

impl Engine for Forgetful {
    fn limits(&self) -> &Limits {
        &Limits::DEFAULT
    }

    fn nature(&self) -> Nature {
        Nature { acknowledged: Acknowledged::MayVanish, ..self.current().nature() }
    }

    fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async { self.current().read(keys).await })
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(async { self.current().view().await })
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async {
            let revision = self.current().commit(commit.clone()).await?;
            self.commits.lock().unwrap().push((commit, revision));
            Ok(revision)
        })
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(async { self.current().reclaim(range).await })
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async { self.current().health().await })
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(async { self.current().tend().await })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async { self.current().close().await })
    }
}

async fn forgetful() -> (Fixture, Arc<Forgetful>) {
    let engine = Arc::new(Forgetful::default());
    (Fixture::on(engine.clone()).await, engine)
}

#[tokio::test]
async fn deleted_messages_come_back_if_their_deletion_is_lost() {
    let (fixture, engine) = forgetful().await;
    fixture.put("a").await;
    fixture.put("b").await;
    for received in fixture.get(2, 30).await {
        fixture.delete(&received).await.unwrap();
    }
    assert_eq!((fixture.get_texts().await.len(), fixture.count().await), (0, 0));
    engine.lose(2).await;
    assert_eq!(fixture.get_texts().await, [""; 0], "their holder has them for 30 s");
    assert_eq!(fixture.count().await, 2);
    fixture.clock.advance_seconds(31);
    assert_eq!(fixture.peek_texts().await, ["a", "b"]);
    assert_eq!(fixture.get_texts().await, ["a", "b"]);
}

#[tokio::test]
async fn received_messages_are_visible_if_their_delivery_is_lost() {
    let (fixture, engine) = forgetful().await;
    fixture.put("a").await;
    let received = fixture.get(1, 30).await;
    engine.lose(1).await;
    fixture.delete(&received[0]).await.unwrap_err();
    assert_eq!(fixture.get_texts().await, ["a"]);
    assert_eq!(fixture.get_texts().await, [""; 0]);
}

#[tokio::test]
async fn messages_whose_put_is_lost_are_not_delivered() {
    let (fixture, engine) = forgetful().await;
    for message in ["a", "b", "c"] {
        fixture.put(message).await;
    }
    // Some are in memory.
    assert_eq!(texts(&fixture.get(1, 30).await), ["a"]);
    engine.lose(2).await;
    assert_eq!(fixture.count().await, 2);
    assert_eq!(fixture.get_texts().await, ["a", "b"]);
}

/// The commit happens in the reopened store, behind what has already been read of it.
#[tokio::test]
async fn message_that_is_put_during_a_loss_is_delivered() {
    let (fixture, engine) = forgetful().await;
    fixture.put("first").await;
    let (others, store) = (fixture.clone(), engine.clone());
    let reopened = Box::pin(async move {
        store.lose(0).await;
        others.clock.advance_seconds(1);
        assert_eq!(others.get_texts().await, ["first"]);
        assert_eq!(others.get_texts().await, [""; 0]);
    });
    fixture.engine.plan([Fault::After(reopened)]);
    fixture.put("second").await;
    assert_eq!(fixture.get_texts().await, ["second"]);
    assert_eq!(fixture.count().await, 2);
}

/// A get holds messages of the lost store; those of the reopened one still arrive.
#[tokio::test]
async fn message_that_is_taken_during_a_loss_is_delivered_once() {
    let (fixture, engine) = forgetful().await;
    fixture.put("a").await;
    fixture.put("b").await;
    let (others, store) = (fixture.clone(), engine.clone());
    let reopened = Box::pin(async move {
        store.lose(1).await;
        assert_eq!(others.get_texts().await, ["a"]);
    });
    fixture.engine.plan([Fault::After(reopened)]);
    assert_eq!(fixture.get_texts().await, [""; 0], "another has it");
    fixture.clock.advance_seconds(31);
    assert_eq!(fixture.get_texts().await, ["a"]);
}

/// The cost of a get does not depend on how many messages were deleted in the last minute.
#[tokio::test]
async fn deleted_messages_are_not_read_again() {
    let (fixture, _) = forgetful().await;
    fixture.put("stays").await;
    for _ in 0..200 {
        fixture.put("goes").await;
    }
    let received = fixture.get(1, 3600).await;
    assert_eq!(texts(&received), ["stays"]);
    for _ in 0..200 {
        let received = fixture.get(1, 30).await;
        fixture.delete(&received[0]).await.unwrap();
    }
    fixture.engine.seen.reset();
    for _ in 0..100 {
        assert_eq!(fixture.get_texts().await, [""; 0]);
    }
    let passed = crate::engines::Seen::of(&fixture.engine.seen.passed);
    assert!(passed <= 400, "{passed} deleted keys were read again");
}

/// The content of the queue: each message with the second from which it is visible.
type Model = BTreeMap<String, u64>;

const VISIBILITY_SECONDS: u64 = 30;
/// No multiple of this is a multiple of the visibility before the end of a history.
const STEP_SECONDS: u64 = 7;

#[tokio::test]
async fn random_histories_with_losses_match_the_store() {
    for seed in 0..150 {
        let mut random = Seeded::new(seed);
        let (fixture, engine) = forgetful().await;
        let created = engine.happened();
        // After each commit.
        let mut models: Vec<Model> = vec![Model::new(); created];
        let mut model = Model::new();
        let mut held: Vec<ReceivedMessage> = Vec::new();
        let mut now = 0;
        for step in 0..60 {
            match random.below(9) {
                0..3 => {
                    let message = format!("{step:02}");
                    fixture.put(&message).await;
                    model.insert(message, now);
                }
                3..5 => {
                    let max = 1 + random.below(4);
                    let received = fixture.get(max, VISIBILITY_SECONDS as i64).await;
                    let visible = model.values().filter(|at| **at <= now).count();
                    assert_eq!(received.len(), visible.min(max), "seed {seed}, step {step}");
                    for text in texts(&received) {
                        let at = model.insert(text.clone(), now + VISIBILITY_SECONDS);
                        let is_free = at.is_some_and(|at| at <= now);
                        assert!(is_free, "seed {seed}, step {step}: {text} is held or gone");
                    }
                    held.extend(received);
                }
                5..7 if !held.is_empty() => {
                    let received = held.swap_remove(random.below(held.len()));
                    // It fails if another consumer has the message, or if its delivery was lost.
                    if fixture.delete(&received).await.is_ok() {
                        let text = received.message.text.as_str();
                        assert!(model.remove(text).is_some(), "seed {seed}, step {step}");
                    }
                }
                7 => {
                    now += STEP_SECONDS;
                    fixture.clock.advance_seconds(STEP_SECONDS);
                }
                8 if random.one_in(2) => {
                    let lost = random.below(6).min(models.len() - created);
                    engine.lose(lost).await;
                    models.truncate(models.len() - lost);
                    model = models.last().cloned().unwrap_or_default();
                }
                _ => assert_eq!(fixture.count().await, model.len() as u64, "seed {seed}"),
            }
            models.resize(engine.happened(), model.clone());
        }
        fixture.clock.advance_seconds(2 * VISIBILITY_SECONDS);
        let mut left = fixture.get_texts().await;
        left.extend(fixture.get_texts().await);
        left.sort();
        assert_eq!(left, model.into_keys().collect::<Vec<_>>(), "seed {seed}");
    }
}
