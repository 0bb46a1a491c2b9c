//! Several engines on one store, used in turn as if they were one (K-10.2).

use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, KeyRange, Limits, Nature,
    Reclaimed, Revision, View,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each call goes to the next engine: what one acknowledges, another must know.
pub struct Spread {
    engines: Vec<Arc<dyn Engine>>,
    calls: AtomicUsize,
}

impl Spread {
    pub fn new(engines: impl IntoIterator<Item = Arc<dyn Engine>>) -> Self {
        let engines: Vec<_> = engines.into_iter().collect();
        assert!(!engines.is_empty(), "at least one engine");
        Self { engines, calls: AtomicUsize::new(0) }
    }

    fn next(&self) -> &dyn Engine {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        &*self.engines[call % self.engines.len()]
    }
}

impl Engine for Spread {
    fn limits(&self) -> &Limits {
        self.engines[0].limits()
    }

    fn nature(&self) -> Nature {
        self.engines[0].nature()
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.next().read(keys)
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        self.next().view()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.next().commit(commit)
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.next().reclaim(range)
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.next().health()
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.next().tend()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            for engine in &self.engines {
                engine.close().await?;
            }
            Ok(())
        })
    }
}
