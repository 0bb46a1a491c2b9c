//! Engines around engines: a test defines what differs, and the engine below does the rest.

use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, KeyRange, Limits, Nature,
    Reclaimed, Revision, Scan, ScanEnd, View, Visitor,
};
use std::ops::Deref;
use std::sync::Arc;

/// What a layer does differently from the engine below: count, wait, fail.
pub trait Layer: Send + Sync + 'static {
    fn below(&self) -> &dyn Engine;

    fn nature(&self) -> Nature {
        self.below().nature()
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.below().read(keys)
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        self.below().view()
    }

    /// A read of one key of a view of the engine below.
    fn get<'a>(
        &'a self,
        view: &'a dyn View,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        view.get(key)
    }

    /// A read of several keys of a view of the engine below.
    fn multi_get<'a>(
        &'a self,
        view: &'a dyn View,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        view.multi_get(keys)
    }

    /// A scan of a view of the engine below.
    fn scan<'a>(
        &'a self,
        view: &'a dyn View,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        view.scan(scan, visitor)
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.below().commit(commit)
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.below().health()
    }
}

/// An engine with a layer on it.
#[derive(Debug, Default)]
pub struct Layered<L>(Arc<L>);

impl<L> Layered<L> {
    pub fn new(layer: L) -> Self {
        Self(Arc::new(layer))
    }
}

impl<L> Deref for Layered<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.0
    }
}

impl<L: Layer> Engine for Layered<L> {
    fn limits(&self) -> &Limits {
        self.0.below().limits()
    }

    fn nature(&self) -> Nature {
        self.0.nature()
    }

    fn losses(&self) -> u64 {
        self.0.below().losses()
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.0.read(keys)
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(async move {
            let (below, layer) = (self.0.view().await?, self.0.clone());
            Ok(Arc::new(LayeredView { below, layer }) as Arc<dyn View>)
        })
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.0.commit(commit)
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.0.below().reclaim(range)
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.0.health()
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.0.below().tend()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.0.below().close()
    }
}

struct LayeredView<L> {
    below: Arc<dyn View>,
    layer: Arc<L>,
}

impl<L: Layer> View for LayeredView<L> {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        self.layer.get(&*self.below, key)
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.layer.multi_get(&*self.below, keys)
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        self.layer.scan(&*self.below, scan, visitor)
    }
}
