//! The embedded engine: one directory on one disk.
//!
//! Writes go through one thread, the committer, which writes all waiting commits as one batch with
//! one sync (`committer.rs`). Reads use the last published snapshot, on the caller's thread, and
//! never wait (`view.rs`). The store is fjall, a log-structured merge tree (`store.rs`);
//! `docs/decisions/001-local-engine.md` says why.

mod committer;
mod damage;
mod directory;
mod journal;
mod journal_register;
mod manifest;
mod meter;
mod options;
mod poison;
mod reclaim;
mod reopen;
mod stage;
mod store;
mod view;

pub use directory::{FORMAT as FORMAT_VERSION, OpenError};
pub use meter::EngineMeter;
pub use options::{Durability, Faults, LocalOptions};
pub use reopen::ReopeningEngine;

use arc_swap::{ArcSwap, ArcSwapOption};
use committer::{Committer, Job};
use directory::Directory;
use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, KeyRange, Limits, Nature,
    Reclaimed, Revision, View,
};
use poison::Poison;
use reclaim::Unfinished;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use view::{KeptView, Snapshot};

/// The embedded engine. Closes when dropped. Its futures need a tokio runtime with time.
pub struct LocalEngine {
    options: LocalOptions,
    limits: Limits,
    published: Arc<ArcSwap<Snapshot>>,
    /// Free space in the queue, in units of [`PLACE_BYTES`].
    places: Arc<Semaphore>,
    /// `None` once the engine is closed.
    jobs: ArcSwapOption<Sender<Job>>,
    committer: Mutex<Option<JoinHandle<()>>>,
    poison: Arc<Poison>,
    unfinished: Mutex<Option<Unfinished>>,
    store: Arc<Store>,
    /// Dropped last: it holds the lock of the directory.
    _directory: Directory,
}

/// The size of a place in the queue. A commit takes at least one.
const PLACE_BYTES: usize = 1024;

impl LocalEngine {
    /// Opens the data directory `dir`, creating it if needed.
    pub fn open(dir: &Path, options: LocalOptions) -> Result<Self, OpenError> {
        Self::open_watched(dir, options, || ())
    }

    /// Like [`Self::open`]; calls `on_failure` when the engine starts to refuse writes.
    fn open_watched(
        dir: &Path,
        options: LocalOptions,
        on_failure: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let directory = Directory::open(dir)?;
        let store = Arc::new(Store::open(&directory, &options)?);
        let last = reclaim::finish(&store, &options).map_err(|e| directory.unusable(e))?;
        let published = Arc::new(ArcSwap::from_pointee(store.snapshot()));
        let poison = Arc::new(Poison::new(on_failure));
        let (sender, jobs) = channel();
        let committer = Committer {
            store: store.clone(),
            limits: options.limits(),
            options: options.clone(),
            jobs,
            published: published.clone(),
            last,
            poison: poison.clone(),
            sync_due: None,
            release_due: false,
        };
        let thread = std::thread::Builder::new()
            .name("committer".into())
            .spawn(|| committer.run())
            .map_err(|e| directory.io(e))?;
        Ok(Self {
            limits: options.limits(),
            places: Arc::new(Semaphore::new(places(options.queue_bytes_max))),
            options,
            published,
            jobs: ArcSwapOption::from_pointee(sender),
            committer: Mutex::new(Some(thread)),
            poison,
            unfinished: Mutex::new(None),
            store,
            _directory: directory,
        })
    }

    /// Why writes are refused until the directory is reopened, if they are.
    pub fn failure(&self) -> Option<&str> {
        self.poison.get()
    }

    fn snapshot(&self) -> Arc<dyn View> {
        self.published.load_full()
    }

    fn keep_snapshot(&self) -> Arc<KeptView> {
        Arc::new(KeptView::of(self.published.load_full()))
    }

    fn read_now(&self, keys: &[Key]) -> Result<Vec<Option<Found>>, EngineError> {
        self.published.load().find_all(keys)
    }

    fn healthy(&self) -> Result<(), EngineError> {
        match (self.poison.get(), &*self.jobs.load()) {
            (Some(reason), _) => Err(EngineError::Unavailable(reason.to_owned())),
            (None, None) => Err(closed()),
            (None, Some(_)) => Ok(()),
        }
    }

    /// Accepts no more commits; the committer finishes the queue, syncs, and ends.
    fn stop(&self) -> Option<JoinHandle<()>> {
        self.jobs.store(None);
        self.committer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the committer ended without a failure.
    fn stopped(&self, joined: std::thread::Result<()>) -> Result<(), EngineError> {
        match (joined, self.poison.get()) {
            (Err(_), _) => Err(EngineError::Unavailable("the committer panicked".into())),
            (Ok(()), Some(reason)) => Err(EngineError::Unavailable(reason.to_owned())),
            (Ok(()), None) => Ok(()),
        }
    }

    async fn submit(&self, commit: Commit) -> Result<Revision, CommitError> {
        let began = Instant::now();
        let result = self.queue_and_wait(commit).await;
        self.options.meter.committed(&result, began.elapsed());
        result
    }

    async fn queue_and_wait(&self, commit: Commit) -> Result<Revision, CommitError> {
        self.limits.check(&commit)?;
        let place = self.place(commit.held_bytes()).await?;
        let (reply, answer) = oneshot::channel();
        self.send(Job::Commit { commit: commit.into(), place, reply })?;
        match answer.await {
            Ok(result) => result,
            Err(gone) => Err(CommitError::Undetermined(gone.into())),
        }
    }

    /// The bytes in the queue, and its limit.
    fn queue_bytes(&self) -> (usize, usize) {
        let (all, free) = (places(self.options.queue_bytes_max), self.places.available_permits());
        (all.saturating_sub(free) * PLACE_BYTES, all * PLACE_BYTES)
    }

    /// Waits for space in the queue, first come first served. A commit larger than the queue waits
    /// until the queue is empty.
    async fn place(&self, bytes: usize) -> Result<OwnedSemaphorePermit, CommitError> {
        let wanted = places(bytes.min(self.options.queue_bytes_max));
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        if let Ok(place) = self.places.clone().try_acquire_many_owned(wanted) {
            return Ok(place);
        }
        let place = self.places.clone().acquire_many_owned(wanted);
        match tokio::time::timeout(self.options.queue_wait_max, place).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(CommitError::Busy),
        }
    }

    fn send(&self, job: Job) -> Result<(), EngineError> {
        if let Some(reason) = self.poison.get() {
            return Err(EngineError::Unavailable(reason.to_owned()));
        }
        match &*self.jobs.load() {
            Some(jobs) if jobs.send(job).is_ok() => Ok(()),
            _ => Err(closed()),
        }
    }
}

impl Drop for LocalEngine {
    fn drop(&mut self) {
        // A failure has already been logged.
        let _ = self.stopped(join(self.stop()));
    }
}

impl Engine for LocalEngine {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn nature(&self) -> Nature {
        self.options.nature()
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async { self.read_now(keys) })
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(std::future::ready(Ok(self.snapshot())))
    }

    fn kept_view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(std::future::ready(Ok(self.keep_snapshot() as Arc<dyn View>)))
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(self.submit(commit))
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(self.reclaim_some(range))
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(std::future::ready(self.healthy()))
    }

    /// The committer and fjall's worker do all the maintenance.
    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(std::future::ready(Ok(Reclaimed::Fully)))
    }

    /// Views keep working; the directory is unlocked once engine and views are dropped.
    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            let thread = self.stop();
            self.stopped(join_elsewhere(thread).await)
        })
    }
}

fn join(thread: Option<JoinHandle<()>>) -> std::thread::Result<()> {
    thread.map_or(Ok(()), JoinHandle::join)
}

/// Joins a thread without blocking the caller's thread.
async fn join_elsewhere(thread: Option<JoinHandle<()>>) -> std::thread::Result<()> {
    match tokio::task::spawn_blocking(|| join(thread)).await {
        Ok(joined) => joined,
        Err(error) => Err(Box::new(error)),
    }
}

fn closed() -> EngineError {
    EngineError::Unavailable("it is closed".into())
}

fn places(bytes: usize) -> usize {
    bytes.div_ceil(PLACE_BYTES).max(1)
}
