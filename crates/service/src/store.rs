//! [`Store`]: an engine, a clock, and the way to try again.

use crate::error::StoreError;
use crate::ids::Ids;
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
    pace: Arc<dyn Pace>,
    nature: Nature,
}

impl Store {
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Self {
        let nature = engine.nature();
        Self { engine, clock, ids: Arc::default(), pace: Arc::new(GiveWay), nature }
    }

    /// The same store, which waits by `pace` before it tries a commit again. Engines that others
    /// write to want one that takes time.
    pub fn with_pace(self, pace: Arc<dyn Pace>) -> Self {
        Self { pace, ..self }
    }

    /// What the engine is like.
    pub fn nature(&self) -> Nature {
        self.nature
    }

    /// The time before which no commit that begins now is stamped.
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

    /// What lies under `key` now.
    pub async fn read_one(&self, key: &Key) -> Result<Option<Found>, StoreError> {
        Ok(self.engine.read(std::slice::from_ref(key)).await?.pop().flatten())
    }

    /// Whether a commit whose answer was lost has certainly not happened.
    ///
    /// Had it happened, no key it wrote could still carry a revision older than `not_before`:
    /// revisions of a key only grow, and a deleted key carries none. Anything else proves nothing,
    /// and neither does a store that cannot be read. An engine that stamps by its own clock finds out
    /// by itself, as far as anybody can.
    pub async fn did_not_happen(&self, not_before: Revision, written: &[Key]) -> bool {
        if self.nature.clock == ClockSource::Store {
            return false;
        }
        let Ok(found) = self.engine.read(written).await else { return false };
        found.iter().flatten().any(|found| found.revision < not_before)
    }
}
