//! Stores that block until the test releases them.

use lazuli_engine::{BoxFuture, Engine, EngineError, MemoryEngine, Scan, ScanEnd, View, Visitor};
use lazuli_engine_local::{Faults, LocalEngine, LocalOptions};
use lazuli_testkit::layer::{Layer, Layered};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// An engine whose scans wait for permission.
pub(crate) struct SlowScans {
    inner: MemoryEngine,
    leave: Semaphore,
    arrived: Sender<()>,
}

impl SlowScans {
    /// Signals each scan that arrives.
    pub(crate) fn new() -> (Arc<Layered<Self>>, Receiver<()>) {
        let (arrived, arrivals) = channel();
        let slow = Self { inner: MemoryEngine::default(), leave: Semaphore::new(0), arrived };
        (Arc::new(Layered::new(slow)), arrivals)
    }

    /// Releases every scan, now and later.
    pub(crate) fn open(&self) {
        self.leave.close();
    }
}

impl Layer for SlowScans {
    fn below(&self) -> &dyn Engine {
        &self.inner
    }

    fn scan<'a>(
        &'a self,
        view: &'a dyn View,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(async {
            let _ = self.arrived.send(());
            // An error means that all scans are released.
            let _ = self.leave.acquire().await;
            view.scan(scan, visitor).await
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

/// An engine on a disk that the test can block.
pub(crate) struct OnSlowDisk {
    pub(crate) engine: Arc<LocalEngine>,
    pub(crate) disk: Arc<SlowDisk>,
    /// Each write that has to wait.
    pub(crate) arrivals: Receiver<()>,
    _data: TempDir,
}

pub(crate) fn on_slow_disk(options: LocalOptions) -> OnSlowDisk {
    let data = tempfile::tempdir().unwrap();
    let (disk, arrivals) = SlowDisk::new();
    let options = LocalOptions { faults: Some(disk.clone()), ..options };
    let engine = Arc::new(LocalEngine::open(data.path(), options).unwrap());
    OnSlowDisk { engine, disk, arrivals, _data: data }
}
