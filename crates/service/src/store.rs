//! [`Store`]: an engine, a clock, and the pace of retries.

use crate::error::StoreError;
use crate::ids::Ids;
use crate::reclaim::Waiting;
use lazuli_engine::retry::{Attempt, Budget, GiveWay, Pace, retry};
use lazuli_engine::{ClockSource, Engine, Found, Key, Nature, Revision};
use lazuli_model::Clock;
use std::sync::Arc;

/// The store of a service. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub engine: Arc<dyn Engine>,
    pub clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) waiting: Arc<Waiting>,
    pace: Arc<dyn Pace>,
    nature: Nature,
}

impl Store {
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Self {
        let nature = engine.nature();
        let (ids, waiting) = Default::default();
        Self { engine, clock, ids, waiting, pace: Arc::new(GiveWay), nature }
    }

    /// The same store, waiting with `pace` before it retries a commit. Engines with other writers
    /// need a real pace.
    pub fn with_pace(self, pace: Arc<dyn Pace>) -> Self {
        Self { pace, ..self }
    }

    /// The nature of the engine.
    pub fn nature(&self) -> Nature {
        self.nature
    }

    /// A lower bound on the revision of any commit that begins now.
    pub fn now(&self) -> Revision {
        Revision(self.clock.now().ticks())
    }

    /// Tries until an attempt is done, or the service is busy.
    pub async fn retry<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Attempt<T>>,
    {
        retry(&*self.pace, Budget::DEFAULT, attempt).await.ok_or(StoreError::Busy)
    }

    /// The value of `key` now.
    pub async fn read_one(&self, key: &Key) -> Result<Option<Found>, StoreError> {
        Ok(self.engine.read(std::slice::from_ref(key)).await?.pop().flatten())
    }

    /// Whether a commit whose reply was lost has certainly not happened.
    ///
    /// Had it happened, no key it wrote could still carry a revision older than `not_before`:
    /// revisions of a key only grow, and a deleted key carries none. Anything else proves nothing,
    /// and neither does a store that cannot be read. An engine with its own clock resolves this
    /// itself as far as possible.
    pub async fn did_not_happen(&self, not_before: Revision, written: &[Key]) -> bool {
        if self.nature.clock == ClockSource::Store {
            return false;
        }
        let Ok(found) = self.engine.read(written).await else { return false };
        found.iter().flatten().any(|found| found.revision < not_before)
    }
}
