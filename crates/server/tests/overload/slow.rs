//! Stores that block until the test releases them.

use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, KeyRange, Limits,
    MemoryEngine, Nature, Reclaimed, Revision, Scan, ScanEnd, View, Visitor,
};
use lazuli_engine_local::Faults;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use tokio::sync::Semaphore;

/// An engine whose scans wait until there is leave for them.
pub(crate) struct SlowScans {
    inner: MemoryEngine,
    door: Arc<Door>,
}

#[derive(Debug)]
struct Door {
    leave: Semaphore,
    arrived: Sender<()>,
}

impl SlowScans {
    /// Signals each scan that arrives.
    pub(crate) fn new() -> (Arc<Self>, Receiver<()>) {
        let (arrived, arrivals) = channel();
        let door = Arc::new(Door { leave: Semaphore::new(0), arrived });
        (Arc::new(Self { inner: MemoryEngine::default(), door }), arrivals)
    }

    /// Releases every scan, now and later.
    pub(crate) fn open(&self) {
        self.door.leave.close();
    }
}

impl Engine for SlowScans {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn nature(&self) -> Nature {
        self.inner.nature()
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.inner.read(keys)
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(async {
            let view: Arc<dyn View> =
                Arc::new(SlowView { inner: self.inner.view().await?, door: self.door.clone() });
            Ok(view)
        })
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.inner.commit(commit)
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.inner.reclaim(range)
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.health()
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.inner.tend()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.close()
    }
}

struct SlowView {
    inner: Arc<dyn View>,
    door: Arc<Door>,
}

impl View for SlowView {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        self.inner.get(key)
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.inner.multi_get(keys)
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(async {
            let _ = self.door.arrived.send(());
            // An error is the open door.
            let _ = self.door.leave.acquire().await;
            self.inner.scan(scan, visitor).await
        })
    }
}

/// A disk whose writes, once it is closed, wait until it is opened.
#[derive(Debug)]
pub(crate) struct SlowDisk {
    closed: Mutex<bool>,
    opened: Condvar,
    arrived: Mutex<Sender<()>>,
}

impl SlowDisk {
    /// Signals each write that has to wait.
    pub(crate) fn new() -> (Arc<Self>, Receiver<()>) {
        let (arrived, arrivals) = channel();
        let closed = Mutex::new(false);
        let disk = Self { closed, opened: Condvar::new(), arrived: Mutex::new(arrived) };
        (Arc::new(disk), arrivals)
    }

    pub(crate) fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    pub(crate) fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.opened.notify_all();
    }
}

impl Faults for SlowDisk {
    fn before_write(&self) -> io::Result<()> {
        let closed = self.closed.lock().unwrap();
        if *closed {
            let _ = self.arrived.lock().unwrap().send(());
        }
        drop(self.opened.wait_while(closed, |closed| *closed).unwrap());
        Ok(())
    }
}
