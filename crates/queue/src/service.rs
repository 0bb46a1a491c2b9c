//! [`QueueService`], and what its verbs share.
//!
//! The verbs stand where their meaning does: `queues.rs` creates, deletes and clears queues and keeps
//! their metadata and policies, `list.rs` lists them, `messages.rs` puts, updates and deletes
//! messages, `deliver.rs` hands them out, `expire.rs` and [`QueueService::reclaim_some`] give space
//! back.

use crate::dispenser::{Dispenser, Sending};
use crate::error::QueueError;
use crate::expire::Sweep;
use crate::meter::MessageMeter;
use crate::open::{KnownQueues, OpenQueues};
use lazuli_engine::retry::{Attempt, Pace};
use lazuli_engine::{Engine, Nature, Reclaimed};
use lazuli_layout::key;
use lazuli_layout::queue::MessageRecord;
use lazuli_layout::{Generation, Position};
use lazuli_model::{AccountName, Clock, ServiceProperties, ServicePropertiesPatch, Timestamp};
use lazuli_service::Store;
use std::sync::Arc;

/// Where message ids get their random part from: any number, another with each call.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The queue service of every account, on one engine. Cheap to clone.
///
/// On an engine that only this process writes to ([`Nature::only_we_change_it`]), the service and its
/// clones must be the only ones that write to queues.
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
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, random: Random) -> Self {
        Self {
            store: Store::new(engine, clock),
            random,
            known: Arc::default(),
            dispensers: Arc::default(),
            sweep: Arc::default(),
            meter: Arc::default(),
        }
    }

    /// The same service, which waits by `pace` before it tries a commit again. Engines that others
    /// write to want one that takes time.
    pub fn with_pace(self, pace: Arc<dyn Pace>) -> Self {
        Self { store: self.store.with_pace(pace), ..self }
    }

    /// What the service's engine is like.
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

    /// Set Queue Service Properties: sections that the patch lacks keep their values.
    pub async fn set_service_properties(
        &self,
        account: &AccountName,
        patch: ServicePropertiesPatch,
    ) -> Result<(), QueueError> {
        let key = key::queue::service_properties(account);
        Ok(self.store.set_service_properties(key, patch).await?)
    }

    /// Gives back some of the space of deleted and cleared queues. Says [`Reclaimed::Fully`] when
    /// there is none that could be given back now.
    pub async fn reclaim_some(&self) -> Result<Reclaimed, QueueError> {
        let Some(mark) = self.store.settled_mark(key::queue::reclaim_range()).await? else {
            return Ok(Reclaimed::Fully);
        };
        let dropped = key::queue::decode_reclaim(&mark)?;
        let ranges = [key::queue::message_range(dropped), key::queue::text_keys(dropped)];
        self.store.reclaim_marked(mark, ranges).await?;
        Ok(Reclaimed::Partly)
    }

    /// Whether what this process remembers of messages is complete.
    pub(crate) fn only_we_write(&self) -> bool {
        self.nature().only_we_change_it()
    }

    pub(crate) fn clock(&self) -> Timestamp {
        self.store.clock.now()
    }

    pub(crate) fn dispenser(&self, generation: Generation) -> Arc<Dispenser> {
        self.dispensers.of(generation)
    }

    /// A commit that writes `written` is about to be sent. Where others write too, no message is
    /// remembered that could be in doubt, and a count lasts a second at most.
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

    /// Tries until an attempt is done, or the service is busy.
    pub(crate) async fn retry<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T, QueueError>
    where
        F: Future<Output = Attempt<Result<T, QueueError>>>,
    {
        self.store.retry(attempt).await?
    }
}
