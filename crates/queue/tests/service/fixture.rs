//! What the tests of the service share: a service with one queue, a manual clock, and shorthands
//! for messages.

use crate::engines::Watched;
use lazuli_engine::retry::{Pace, give_way};
use lazuli_engine::{BoxFuture, Engine, MemoryEngine, MemoryOptions, Writers};
use lazuli_model::{
    AccountName, Clock, MessageText, Metadata, PutTimes, QueueName, TimeToLive, Timestamp,
    VisibilityTimeout,
};
use lazuli_queue::{PutMessage, QueueError, QueueService, Random, ReceivedMessage};
use lazuli_testkit::layer::Layered;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that stands still unless it is advanced.
pub(crate) struct ManualClock(AtomicU64);

impl ManualClock {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Timestamp::parse("2026-01-01T00:00:00Z").unwrap().ticks()))
    }

    pub(crate) fn advance_ticks(&self, ticks: u64) {
        self.0.fetch_add(ticks, Ordering::SeqCst);
    }

    pub(crate) fn step_back_ticks(&self, ticks: u64) {
        self.0.fetch_sub(ticks, Ordering::SeqCst);
    }

    pub(crate) fn advance_seconds(&self, seconds: u64) {
        self.advance_ticks(seconds * 10_000_000);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ticks(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

/// Lets others run, and counts pauses as milliseconds.
#[derive(Default)]
pub(crate) struct CountedPace(AtomicU64);

impl Pace for CountedPace {
    fn now_ms(&self) -> u64 {
        0
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst)
    }

    fn pause(&self, ms: u64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for _ in 0..=ms {
                give_way().await;
            }
        })
    }
}

/// Numbers that look random, without repeats.
pub(crate) fn numbers() -> Random {
    static STATE: AtomicU64 = AtomicU64::new(1);
    Arc::new(|| {
        let mut z = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 31)
    })
}

/// A service with one queue, `orders`.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) service: QueueService,
    pub(crate) engine: Arc<Layered<Watched>>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) account: AccountName,
    pub(crate) queue: QueueName,
}

pub(crate) fn memory(writers: Writers) -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new(MemoryOptions { writers, ..MemoryOptions::default() }))
}

pub(crate) fn text(text: &str) -> MessageText {
    MessageText::new(text).unwrap()
}

pub(crate) fn visible_in(seconds: i64) -> VisibilityTimeout {
    VisibilityTimeout::of_put_or_update(seconds).unwrap()
}

pub(crate) fn times(visibility: i64, time_to_live: i64) -> PutTimes {
    PutTimes::new(visible_in(visibility), TimeToLive::parse(time_to_live).unwrap()).unwrap()
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::on(memory(Writers::Sole)).await
    }

    pub(crate) async fn on(engine: Arc<dyn Engine>) -> Self {
        let fixture = Self::over(engine, Arc::new(ManualClock::new()));
        let Self { service, account, queue, .. } = &fixture;
        service.create_queue(account, queue, &Metadata::default()).await.unwrap();
        fixture
    }

    /// A service on existing data.
    pub(crate) fn over(engine: Arc<dyn Engine>, clock: Arc<ManualClock>) -> Self {
        let engine = Arc::new(Layered::new(Watched::new(engine)));
        let service = QueueService::new(engine.clone(), clock.clone(), numbers())
            .with_pace(Arc::new(CountedPace::default()));
        let account = AccountName::parse("acct1").unwrap();
        let queue = QueueName::parse("orders").unwrap();
        Self { service, engine, clock, account, queue }
    }

    /// The same store, as another process would serve it.
    pub(crate) fn elsewhere(&self) -> Self {
        Self::over(self.engine.inner.clone(), self.clock.clone())
    }

    pub(crate) async fn put(&self, message: &str) -> PutMessage {
        self.put_with(message, PutTimes::default()).await
    }

    pub(crate) async fn put_with(&self, message: &str, times: PutTimes) -> PutMessage {
        self.try_to_put(message, times).await.unwrap()
    }

    pub(crate) async fn try_to_put(
        &self,
        message: &str,
        times: PutTimes,
    ) -> Result<PutMessage, QueueError> {
        self.service.put_message(&self.account, &self.queue, &text(message), times).await
    }

    pub(crate) async fn try_to_get(
        &self,
        max: usize,
        seconds: i64,
    ) -> Result<Vec<ReceivedMessage>, QueueError> {
        let visibility = VisibilityTimeout::of_get(seconds).unwrap();
        self.service.get_messages(&self.account, &self.queue, max, visibility).await
    }

    pub(crate) async fn get(&self, max: usize, seconds: i64) -> Vec<ReceivedMessage> {
        self.try_to_get(max, seconds).await.unwrap()
    }

    /// The texts of up to 32 messages, made invisible for 30 s.
    pub(crate) async fn get_texts(&self) -> Vec<String> {
        texts(&self.get(32, 30).await)
    }

    pub(crate) async fn peek_texts(&self) -> Vec<String> {
        let peeked = self.service.peek_messages(&self.account, &self.queue, 32).await.unwrap();
        peeked.into_iter().map(|message| message.text.as_str().to_owned()).collect()
    }

    pub(crate) async fn delete(&self, received: &ReceivedMessage) -> Result<(), QueueError> {
        let id = received.message.id;
        self.service.delete_message(&self.account, &self.queue, id, received.receipt).await
    }

    pub(crate) async fn count(&self) -> u64 {
        self.service.queue_info(&self.account, &self.queue).await.unwrap().messages
    }

    pub(crate) async fn clear(&self) -> Result<(), QueueError> {
        self.service.clear_messages(&self.account, &self.queue).await
    }
}

pub(crate) fn texts(received: &[ReceivedMessage]) -> Vec<String> {
    received.iter().map(|received| received.message.text.as_str().to_owned()).collect()
}
