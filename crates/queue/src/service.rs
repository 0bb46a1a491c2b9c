//! [`QueueService`], and what its verbs share.
//!
//! The verbs are in other files: `queues.rs` creates, deletes and clears queues and sets their
//! metadata and policies, `list.rs` lists them, `messages.rs` puts, updates and deletes messages,
//! `deliver.rs` delivers them, `expire.rs` and [`QueueService::reclaim_some`] free space.

use crate::bounds::QueueBounds;
use crate::dispenser::{Dispenser, Losses, Sending};
use crate::error::QueueError;
use crate::expire::Sweep;
use crate::meter::MessageMeter;
use crate::open::{KnownQueues, OpenQueues};
use lazuli_engine::retry::{Attempt, Pace};
use lazuli_engine::{Engine, Nature, Reclaimed, Writers};
use lazuli_layout::key;
use lazuli_layout::queue::MessageRecord;
use lazuli_layout::{Generation, Position};
use lazuli_model::{AccountName, Clock, ServiceProperties, ServicePropertiesPatch, Timestamp};
use lazuli_service::Store;
use std::sync::Arc;

/// The source of the random part of message ids; each call returns a different number.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The queue service of every account, on one engine. Cheap to clone.
///
/// On an engine that only this process writes to ([`Writers::Sole`]), the service and its clones must
/// be the only writers of queues.
#[derive(Clone)]
pub struct QueueService {
    pub(crate) store: Store,
    pub(crate) random: Random,
    pub(crate) known: Arc<KnownQueues>,
    pub(crate) dispensers: Arc<OpenQueues>,
    pub(crate) sweep: Arc<tokio::sync::Mutex<Sweep>>,
    pub(crate) meter: Arc<MessageMeter>,
}

impl QueueService {
    /// A service on `engine` with the default bounds.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, random: Random) -> Self {
        let bounds = QueueBounds::default();
        let losses = losses_of(&engine);
        Self {
            store: Store::new(engine, clock),
            random,
            known: Arc::new(KnownQueues::new(bounds)),
            dispensers: Arc::new(OpenQueues::new(bounds, losses)),
            sweep: Arc::default(),
            meter: Arc::default(),
        }
    }

    /// The same service, waiting with `pace` before it retries a commit. Engines with other writers
    /// need a real pace.
    pub fn with_pace(self, pace: Arc<dyn Pace>) -> Self {
        Self { store: self.store.with_pace(pace), ..self }
    }

    /// The same service with other bounds. It must have no clones yet, because they would not share
    /// its memory.
    pub fn with_bounds(self, bounds: QueueBounds) -> Self {
        let known = Arc::new(KnownQueues::new(bounds));
        let losses = losses_of(&self.store.engine);
        Self { known, dispensers: Arc::new(OpenQueues::new(bounds, losses)), ..self }
    }

    /// The nature of the service's engine.
    pub fn nature(&self) -> Nature {
        self.store.nature()
    }

    /// Get Queue Service Properties.
    pub async fn service_properties(
        &self,
        account: &AccountName,
    ) -> Result<ServiceProperties, QueueError> {
        let key = key::queue::service_properties(account);
        Ok(self.store.service_properties(key).await?)
    }

    /// Set Queue Service Properties: sections missing from the patch keep their values.
    pub async fn set_service_properties(
        &self,
        account: &AccountName,
        patch: ServicePropertiesPatch,
    ) -> Result<(), QueueError> {
        let key = key::queue::service_properties(account);
        Ok(self.store.set_service_properties(key, patch).await?)
    }

    /// Reclaims some of the space of deleted and cleared queues. Returns [`Reclaimed::Fully`] if
    /// nothing can be reclaimed at `now`, the time of the clock that stamps the revisions.
    pub async fn reclaim_some(&self, now: Timestamp) -> Result<Reclaimed, QueueError> {
        let Some(mark) = self.store.settled_mark(key::queue::reclaim_range(), now).await? else {
            return Ok(Reclaimed::Fully);
        };
        let dropped = key::queue::decode_reclaim(&mark.key)?;
        let ranges = [key::queue::message_range(dropped), key::queue::text_keys(dropped)];
        self.store.reclaim_marked(mark, ranges).await?;
        Ok(Reclaimed::Partly)
    }

    /// Whether the in-memory state of messages is complete. This holds even if acknowledged commits
    /// may be lost: a dispenser notices, and forgets what it knew.
    pub(crate) fn only_we_write(&self) -> bool {
        self.nature().writers == Writers::Sole
    }

    pub(crate) fn clock(&self) -> Timestamp {
        self.store.clock.now()
    }

    pub(crate) fn dispenser(&self, generation: Generation) -> Arc<Dispenser> {
        self.dispensers.of(generation)
    }

    /// A commit that writes `written` is about to be sent. With other writers, no message in doubt
    /// is tracked, and a count is valid for at most a second.
    pub(crate) fn sending(
        &self,
        dispenser: &Arc<Dispenser>,
        written: Vec<(Position, MessageRecord)>,
        delta: Option<crate::count::Delta>,
    ) -> Sending {
        match self.only_we_write() {
            true => Sending::new(dispenser, written, delta, self.clock()),
            false => Sending::new(dispenser, Vec::new(), delta, self.clock()),
        }
    }

    /// Retries until an attempt is done, or the service is busy.
    pub(crate) async fn retry<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T, QueueError>
    where
        F: Future<Output = Attempt<Result<T, QueueError>>>,
    {
        self.store.retry(attempt).await?
    }
}

fn losses_of(engine: &Arc<dyn Engine>) -> Losses {
    let engine = engine.clone();
    Arc::new(move || engine.losses())
}
