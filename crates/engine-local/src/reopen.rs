//! Reopens the store when a write has failed and the disk takes writes again.
//!
//! An engine whose write or sync failed writes nothing more: only reading the directory from the
//! start shows what reached the disk. Reads keep working while the disk is full or broken. Once a
//! trial write succeeds, no new views are opened, open views end, and the directory is reopened. That
//! is as safe as restarting the program: nothing is taken from the old engine, and the journal is
//! written from the start (`journal.rs`).
//!
//! The log gets one ERROR when writes start to be refused, then a line with a count every 10 s.
//! Callers need not log each refusal.

mod outage;

use crate::view::KeptView;
use crate::{LocalEngine, LocalOptions, OpenError};
use arc_swap::ArcSwapOption;
use lazuli_engine::{
    Acknowledged, BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, KeyRange,
    Limits, Nature, Reclaimed, Revision, View,
};
use lazuli_meter::{Family, Source, Value};
use outage::Outage;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pause between two trials, and before the store is reopened yet again; doubled each time.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// An engine that lasts this long has recovered.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// A [`LocalEngine`] that is replaced by another on the same directory when a write has failed.
pub struct ReopeningEngine {
    shared: Arc<Shared>,
    watcher: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    dir: PathBuf,
    limits: Limits,
    options: LocalOptions,
    /// `None` while it is being opened.
    current: ArcSwapOption<LocalEngine>,
    signal: Arc<Signal>,
    reopens: AtomicU64,
    /// How often a store was given up to be reopened.
    given_up: AtomicU64,
    /// How long the first open took.
    recovery: Duration,
    /// Calls answered with `Unavailable` that are not in the log yet.
    refused: AtomicU64,
    /// Views kept between requests. Each would keep the old engine alive.
    kept: Mutex<Vec<Weak<KeptView>>>,
}

/// What wakes the watcher: a close, or an engine failure.
#[derive(Default)]
struct Signal {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl ReopeningEngine {
    /// Opens the data directory `dir`, creating it if needed.
    pub fn open(dir: &Path, options: LocalOptions) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared::open(dir, options)?);
        let watched = shared.clone();
        let watcher = std::thread::Builder::new()
            .name("reopener".into())
            .spawn(move || watched.watch())
            .map_err(|source| OpenError::Io { dir: dir.to_path_buf(), source })?;
        Ok(Self { shared, watcher: Mutex::new(Some(watcher)) })
    }

    /// How often the store was reopened.
    pub fn reopens(&self) -> u64 {
        self.shared.reopens.load(Ordering::Relaxed)
    }

    /// Whether writes are refused, because one has failed or because the store is being reopened.
    pub fn refuses_writes(&self) -> bool {
        self.shared.current.load().as_ref().is_none_or(|engine| engine.failure().is_some())
    }

    fn stop(&self) -> Option<JoinHandle<()>> {
        *self.shared.signal.is_closed() = true;
        self.shared.signal.changed.notify_all();
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Source for ReopeningEngine {
    fn report(&self) -> Vec<Family> {
        let gauge = |number: f64| Value::Gauge(number);
        let mut families = self.shared.options.meter.report();
        families.extend([
            Family::of(
                "lazuli_store_writable",
                "1 if the store takes writes, else 0",
                &gauge(f64::from(u8::from(!self.refuses_writes()))),
            ),
            Family::of(
                "lazuli_store_reopens",
                "How often the store was reopened after a failed write",
                &Value::Counter(self.reopens() as f64),
            ),
            Family::of(
                "lazuli_store_recovery_seconds",
                "How long the store took to open at the start",
                &gauge(self.shared.recovery.as_secs_f64()),
            ),
        ]);
        if let Some(engine) = &*self.shared.current.load() {
            let (queued, queue_max) = engine.queue_bytes();
            let pool = || vec![("pool", "commit_queue".into())];
            families.extend([
                Family::of("lazuli_commit_queue_bytes", "Commits that wait", &gauge(queued as f64)),
                Family::new("lazuli_memory_bytes", "Memory in use")
                    .with(pool(), &gauge(queued as f64)),
                Family::new("lazuli_memory_limit_bytes", "Memory that may be used")
                    .with(pool(), &gauge(queue_max as f64)),
            ]);
            families.extend(engine.store.report());
        }
        families
    }
}

impl Drop for ReopeningEngine {
    fn drop(&mut self) {
        // A failure was logged when it happened.
        let _ = crate::join(self.stop());
    }
}

impl Engine for ReopeningEngine {
    fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    fn nature(&self) -> Nature {
        self.shared.options.nature()
    }

    fn losses(&self) -> u64 {
        match self.nature().acknowledged {
            Acknowledged::Kept => 0,
            Acknowledged::MayVanish => self.shared.given_up.load(Ordering::SeqCst),
        }
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async {
            match &*self.shared.current.load() {
                Some(engine) => engine.read_now(keys),
                None => Err(self.shared.reopening()),
            }
        })
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        let view = match &*self.shared.current.load() {
            Some(engine) => Ok(engine.snapshot()),
            None => Err(self.shared.reopening()),
        };
        Box::pin(std::future::ready(view))
    }

    fn kept_view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        let view = self.shared.kept_view().map(|view| view as Arc<dyn View>);
        Box::pin(std::future::ready(view))
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async {
            let result = self.shared.engine()?.submit(commit).await;
            if let Err(CommitError::Engine(error)) = &result {
                self.shared.count_refusal(error);
            }
            result
        })
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(async {
            let result = self.shared.engine()?.reclaim_some(range).await;
            result.inspect_err(|error| self.shared.count_refusal(error))
        })
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        let health = match &*self.shared.current.load() {
            Some(engine) => engine.healthy(),
            None => Err(reopening()),
        };
        Box::pin(std::future::ready(health))
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(std::future::ready(Ok(Reclaimed::Fully)))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            let watcher = self.stop();
            if crate::join_elsewhere(watcher).await.is_err() {
                return Err(EngineError::Unavailable("the watcher panicked".into()));
            }
            match self.shared.current.load_full() {
                Some(engine) => engine.close().await,
                None => Ok(()),
            }
        })
    }
}

fn reopening() -> EngineError {
    EngineError::Unavailable("the store is reopened after a write failed".into())
}

impl Signal {
    /// Opens an engine that notifies the watcher when it fails.
    fn open(
        self: &Arc<Self>,
        dir: &Path,
        options: &LocalOptions,
    ) -> Result<LocalEngine, OpenError> {
        let signal = self.clone();
        LocalEngine::open_watched(dir, options.clone(), move || {
            // Take the lock, so that the watcher either waits already or has yet to check.
            drop(signal.is_closed());
            signal.changed.notify_all();
        })
    }

    fn is_closed(&self) -> MutexGuard<'_, bool> {
        self.is_closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, waits: impl Fn() -> bool) -> Result<(), Closed> {
        let condition = |is_closed: &mut bool| !*is_closed && waits();
        let is_closed = self.changed.wait_while(self.is_closed(), condition);
        if *is_closed.unwrap_or_else(PoisonError::into_inner) { Err(Closed) } else { Ok(()) }
    }

    fn pause(&self, pause: Duration) -> Result<(), Closed> {
        let condition = |is_closed: &mut bool| !*is_closed;
        let waited = self.changed.wait_timeout_while(self.is_closed(), pause, condition);
        let (is_closed, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *is_closed { Err(Closed) } else { Ok(()) }
    }
}

/// The engine was closed: the watcher ends.
struct Closed;

impl Shared {
    fn open(dir: &Path, options: LocalOptions) -> Result<Self, OpenError> {
        let signal = Arc::new(Signal::default());
        let began = Instant::now();
        let engine = signal.open(dir, &options)?;
        Ok(Self {
            dir: dir.to_path_buf(),
            limits: options.limits(),
            options,
            current: ArcSwapOption::from_pointee(engine),
            signal,
            reopens: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            recovery: began.elapsed(),
            refused: AtomicU64::new(0),
            kept: Mutex::default(),
        })
    }

    fn engine(&self) -> Result<Arc<LocalEngine>, EngineError> {
        self.current.load_full().ok_or_else(|| self.reopening())
    }

    fn kept_view(&self) -> Result<Arc<KeptView>, EngineError> {
        // Under the lock, so that a view of a discarded engine is released too.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let view = match &*self.current.load() {
            Some(engine) => engine.keep_snapshot(),
            None => return Err(self.reopening()),
        };
        kept.retain(|other| other.strong_count() > 0);
        kept.push(Arc::downgrade(&view));
        Ok(view)
    }

    /// No new view of this engine is opened from now on.
    fn release_kept(&self) {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.iter().filter_map(Weak::upgrade).for_each(|view| view.release());
    }

    fn reopening(&self) -> EngineError {
        let error = reopening();
        self.count_refusal(&error);
        error
    }

    fn count_refusal(&self, error: &EngineError) {
        if matches!(error, EngineError::Unavailable(_)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Asks the engine itself, not the callers whose writes it refused: they may notice only after
    /// it has been replaced, and then a healthy store would be reopened.
    fn has_failed(&self) -> bool {
        self.current.load().as_ref().is_some_and(|engine| engine.failure().is_some())
    }

    fn watch(&self) {
        let mut pause = PAUSE;
        loop {
            let opened = Instant::now();
            if self.wait_for_failure().is_err() {
                return;
            }
            pause =
                if opened.elapsed() > RECOVERED_AFTER { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
            if self.recover(pause).is_err() {
                return;
            }
        }
    }

    fn wait_for_failure(&self) -> Result<(), Closed> {
        self.signal.wait_while(|| !self.has_failed())
    }

    fn recover(&self, pause: Duration) -> Result<(), Closed> {
        let mut outage = Outage::new(self);
        outage.wait_for_the_disk(pause)?;
        outage.reopen(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Faults;
    use lazuli_engine::Write;
    use std::io;
    use std::sync::atomic::AtomicBool;

    /// Fails writes while it is set.
    #[derive(Debug, Default)]
    struct Broken(AtomicBool);

    impl Faults for Broken {
        fn before_write(&self) -> io::Result<()> {
            match self.0.load(Ordering::SeqCst) {
                true => Err(io::Error::other("broken")),
                false => Ok(()),
            }
        }
    }

    fn put() -> Commit {
        let writes = vec![Write::Put(Key::from(b"Lk".to_vec()), "value".into())];
        Commit::new(Revision(0), writes)
    }

    /// A write refused while the watcher waited for the disk made it reopen the healthy store a second
    /// time. Here the test plays the watcher, because a separate thread might reopen before or after
    /// the check.
    #[tokio::test]
    async fn writes_refused_during_an_outage_do_not_reopen_a_healthy_store() {
        let dir = tempfile::tempdir().unwrap();
        let faults = Arc::new(Broken::default());
        let options = LocalOptions { faults: Some(faults.clone()), ..LocalOptions::default() };
        let shared = Arc::new(Shared::open(dir.path(), options).unwrap());
        let engine = ReopeningEngine { shared: shared.clone(), watcher: Mutex::default() };
        faults.0.store(true, Ordering::SeqCst);
        engine.commit(put()).await.unwrap_err();
        faults.0.store(false, Ordering::SeqCst);
        assert!(shared.wait_for_failure().is_ok(), "it is there already");
        engine.commit(put()).await.unwrap_err();
        assert!(shared.recover(Duration::ZERO).is_ok(), "nobody closed the engine");
        engine.commit(put()).await.unwrap();
        assert!(!shared.has_failed(), "the watcher would reopen the store again");
    }
}
