//! Random histories, each step compared with the naive queue.

use crate::fixture::{Fixture, ManualClock, memory, text, times, visible_in};
use crate::naive::Naive;
use lazuli_engine::{Engine, Writers};
use lazuli_engine_local::{Durability, LocalEngine, LocalOptions};
use lazuli_model::{Clock, MessageId, PopReceipt, PutTimes, VisibilityTimeout};
use lazuli_queue::{QueueError, Reclaimed};
use lazuli_testkit::seed::Seeded;
use std::sync::Arc;

/// Opens the engine of a history, at first and after each close.
type Open<'o> = dyn Fn() -> Arc<dyn Engine> + 'o;

struct History<'o> {
    fixture: Fixture,
    naive: Naive,
    choose: Seeded,
    open: &'o Open<'o>,
    /// Every receipt ever given.
    given: Vec<(MessageId, PopReceipt)>,
}

impl<'o> History<'o> {
    async fn begin(seed: u64, open: &'o Open<'o>) -> Self {
        let fixture = Fixture::on(open()).await;
        let choose = Seeded::new(seed);
        Self { fixture, naive: Naive::default(), choose, open, given: Vec::new() }
    }

    async fn step(&mut self) {
        match self.choose.below(100) {
            0..=24 => self.put().await,
            25..=49 => self.get().await,
            50..=57 => self.peek().await,
            58..=69 => self.update().await,
            70..=81 => self.delete().await,
            82..=89 => self.turn_clock(),
            90..=94 => self.count().await,
            95 => self.clear().await,
            96 => self.reopen().await,
            97 => self.expire().await,
            98 => self.set_metadata().await,
            _ => self.reclaim().await,
        }
    }

    fn clock(&self) -> lazuli_model::Timestamp {
        self.fixture.clock.now()
    }

    async fn put(&mut self) {
        let length = [0, 3, 512, 513, 4000][self.choose.below(5)];
        let message = format!("{}{}", self.given.len(), "x".repeat(length));
        let times = match self.choose.below(4) {
            0 => times(self.choose.below(40) as i64, -1),
            1 => times(self.choose.below(4) as i64, 5 + self.choose.below(60) as i64),
            _ => PutTimes::default(),
        };
        let put = self.fixture.put_with(&message, times).await;
        self.naive.put(self.clock(), &message, times, &put);
        self.given.push((put.id, put.receipt));
    }

    async fn get(&mut self) {
        let max = [1, 1, 2, 5, 32][self.choose.below(5)];
        let seconds = [1, 5, 30, 30, 60][self.choose.below(5)];
        let received = self.fixture.get(max, seconds).await;
        let visibility = VisibilityTimeout::of_get(seconds).unwrap();
        self.naive.got(self.clock(), max, visibility, &received);
        self.given.extend(received.iter().map(|got| (got.message.id, got.receipt)));
    }

    async fn peek(&mut self) {
        let max = [1, 3, 32][self.choose.below(3)];
        let Fixture { service, account, queue, .. } = &self.fixture;
        let peeked = service.peek_messages(account, queue, max).await.unwrap();
        let peeked: Vec<_> =
            peeked.iter().map(|m| (m.id, m.dequeue_count, m.text.as_str())).collect();
        let expect = self.naive.visible(self.clock(), max).into_iter();
        let expect: Vec<_> = expect.map(|m| (m.id, m.dequeue_count, m.text.as_str())).collect();
        assert_eq!(peeked, expect);
    }

    /// A receipt, most often a recent one.
    fn receipt(&mut self) -> Option<(MessageId, PopReceipt)> {
        let back = if self.choose.one_in(4) { self.given.len() } else { 6 };
        let index = self.given.len().checked_sub(1 + self.choose.below(back))?;
        self.given.get(index).copied()
    }

    async fn update(&mut self) {
        let Some((id, receipt)) = self.receipt() else { return };
        let visibility = visible_in([0, 0, 1, 10, 30][self.choose.below(5)]);
        let other = match self.choose.below(3) {
            0 => Some("short".to_owned()),
            1 => Some("long".repeat(200)),
            _ => None,
        };
        let other_text = other.as_deref().map(text);
        let Fixture { service, account, queue, .. } = &self.fixture;
        let held = (id, receipt);
        let updated =
            service.update_message(account, queue, held, visibility, other_text.as_ref()).await;
        let clock = self.clock();
        let Some(message) = self.naive.held(clock, id, receipt).cloned() else {
            assert!(matches!(updated, Err(QueueError::MessageNotFound)), "{updated:?}");
            return;
        };
        let next_visible = visibility.end_after(self.naive.tick(clock));
        if matches!(updated, Err(QueueError::VisibilityPastExpiry)) {
            assert!(next_visible.plus_seconds(1) > message.expires);
            return;
        }
        let receipt = updated.unwrap().receipt;
        assert_eq!(receipt.dequeue_count, Some(message.dequeue_count));
        let text = other.unwrap_or_else(|| message.text.clone());
        let message = crate::naive::NaiveMessage { text, ..message };
        self.naive.replace(message, next_visible, receipt);
        self.given.push((id, receipt));
    }

    async fn delete(&mut self) {
        let Some((id, receipt)) = self.receipt() else { return };
        let Fixture { service, account, queue, .. } = &self.fixture;
        let deleted = service.delete_message(account, queue, id, receipt).await;
        if self.naive.held(self.clock(), id, receipt).is_some() {
            deleted.unwrap();
            self.naive.remove(id);
        } else {
            assert!(matches!(deleted, Err(QueueError::MessageNotFound)), "{deleted:?}");
        }
    }

    fn turn_clock(&mut self) {
        let clock = &self.fixture.clock;
        match self.choose.below(8) {
            0 => clock.advance_ticks(1),
            1 => clock.advance_ticks(self.choose.next_u64() % 10_000_000),
            2 => clock.step_back_ticks(self.choose.next_u64() % 30_000_000),
            3 => clock.advance_seconds(30),
            4 => clock.advance_seconds(self.choose.next_u64() % 400),
            _ => clock.advance_seconds(self.choose.next_u64() % 8),
        }
    }

    async fn count(&mut self) {
        let count = self.fixture.count().await;
        let expect = self.naive.counts(self.clock());
        // With other writers, a count may be a second old.
        if self.fixture.service.nature().only_we_change_it() {
            assert!(expect.contains(&count), "{count} not in {expect:?}");
        }
    }

    async fn clear(&mut self) {
        self.fixture.clear().await.unwrap();
        self.naive = Naive::default();
    }

    async fn set_metadata(&mut self) {
        let value = self.given.len().to_string();
        let metadata = lazuli_model::Metadata::parse([("step", value.as_str())]).unwrap();
        let Fixture { service, account, queue, .. } = &self.fixture;
        service.set_metadata(account, queue, &metadata).await.unwrap();
    }

    /// What has expired is gone for good, even if the clock steps back.
    async fn expire(&mut self) {
        while self.fixture.service.expire_some().await.unwrap() == Reclaimed::Partly {}
        let clock = self.clock();
        self.naive.messages.retain(|message| message.expires > clock);
    }

    async fn reclaim(&mut self) {
        let now = self.fixture.clock.now();
        while self.fixture.service.reclaim_some(now).await.unwrap() == Reclaimed::Partly {}
    }

    async fn reopen(&mut self) {
        let clock: Arc<ManualClock> = self.fixture.clock.clone();
        let inner = self.fixture.engine.inner.clone();
        // The previous engine is closed, as far as possible, before the next is opened.
        let placeholder = Fixture::over(memory(Writers::Sole), clock.clone());
        self.fixture = placeholder;
        drop(inner);
        self.fixture = Fixture::over((self.open)(), clock);
        self.naive.last = 0;
    }
}

#[expect(clippy::print_stderr, reason = "names the history that failed")]
fn run(seeds: std::ops::Range<u64>, steps: usize, open: &Open<'_>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for seed in seeds {
        runtime.block_on(async {
            eprintln!("history {seed}");
            let mut history = History::begin(seed, open).await;
            for _ in 0..steps {
                history.step().await;
            }
        });
    }
}

#[test]
fn histories_agree_with_the_naive_queue_for_a_sole_writer() {
    for seed in 0..300 {
        let engine = memory(Writers::Sole);
        run(seed..seed + 1, 150, &|| engine.clone());
    }
}

#[test]
fn histories_agree_with_the_naive_queue_for_one_of_many_writers() {
    for seed in 0..300 {
        let engine = memory(Writers::Many);
        run(seed..seed + 1, 150, &|| engine.clone());
    }
}

fn on_the_local_engine(durability: Durability, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let dir = tempfile::tempdir().unwrap();
        let open = || -> Arc<dyn Engine> {
            let options = LocalOptions { durability, ..LocalOptions::default() };
            Arc::new(LocalEngine::open(dir.path(), options).unwrap())
        };
        run(seed..seed + 1, 150, &open);
    }
}

#[test]
fn histories_agree_with_the_naive_queue_on_the_local_engine() {
    on_the_local_engine(Durability::Sync, 0..6);
}

#[test]
fn histories_agree_with_the_naive_queue_on_a_local_engine_that_may_forget() {
    on_the_local_engine(Durability::Memory, 6..12);
}
