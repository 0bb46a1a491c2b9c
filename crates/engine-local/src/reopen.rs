//! Opens the store anew when a write has failed and the disk takes writes again.
//!
//! An engine whose write or sync failed writes nothing more: what reached the disk is known when the
//! directory is read from the start. It goes on being read meanwhile, for as long as the disk is
//! full or broken. When a trial write succeeds, nobody is given a view any more, those that are out
//! come to their end, and the directory is opened again. That is as safe as starting the program
//! again: nothing is taken from the old engine, and the journal is written anew (`journal.rs`).

use crate::{LocalEngine, LocalOptions, OpenError};
use arc_swap::ArcSwapOption;
use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, KeyRange, Limits, Reclaimed, Revision,
    View,
};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a trial writes: enough for the store to do something with, not only to begin.
const TRIAL_BYTES: usize = 4 * 1024 * 1024;
const TRIAL_FILE: &str = "TRIAL";
/// Between two trials, and before the engine is opened anew once more; doubled each time.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// An engine that lasts so long has recovered.
const LASTING: Duration = Duration::from_secs(60);

/// A [`LocalEngine`] that is replaced by another on the same directory when a write has failed.
pub struct ReopeningEngine {
    shared: Arc<Shared>,
    watcher: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    dir: PathBuf,
    options: LocalOptions,
    /// `None` while it is opened.
    current: ArcSwapOption<LocalEngine>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    has_failed: bool,
    is_closed: bool,
}

impl ReopeningEngine {
    /// Opens the data directory `dir`, creating it if need be.
    pub fn open(dir: &Path, options: LocalOptions) -> Result<Self, OpenError> {
        let engine = LocalEngine::open(dir, options.clone())?;
        let shared = Arc::new(Shared {
            dir: dir.to_path_buf(),
            options,
            current: ArcSwapOption::from_pointee(engine),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let watched = shared.clone();
        let watcher = std::thread::Builder::new()
            .name("reopener".into())
            .spawn(move || watched.watch())
            .map_err(|source| OpenError::Io { dir: dir.to_path_buf(), source })?;
        Ok(Self { shared, watcher: Mutex::new(Some(watcher)) })
    }

    /// See [`LocalEngine::close`].
    pub fn close(&self) -> Result<(), EngineError> {
        self.shared.state().is_closed = true;
        self.shared.changed.notify_all();
        let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        if watcher.is_some_and(|watcher| watcher.join().is_err()) {
            return Err(EngineError::Unavailable("the watcher panicked".into()));
        }
        match self.shared.current.load_full() {
            Some(engine) => engine.close(),
            None => Ok(()),
        }
    }
}

impl Drop for ReopeningEngine {
    fn drop(&mut self) {
        // A failure was logged when it happened.
        let _ = self.close();
    }
}

impl Engine for ReopeningEngine {
    fn limits(&self) -> &Limits {
        &Limits::DEFAULT
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        let view = match &*self.shared.current.load() {
            Some(engine) => Ok(engine.snapshot()),
            None => Err(reopening()),
        };
        Box::pin(std::future::ready(view))
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async {
            let engine = self.shared.current.load_full().ok_or_else(reopening)?;
            let result = engine.submit(commit).await;
            self.shared.look_at(&engine, result.is_err());
            result
        })
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(async {
            let engine = self.shared.current.load_full().ok_or_else(reopening)?;
            let result = engine.reclaim_some(range).await;
            self.shared.look_at(&engine, result.is_err());
            result
        })
    }
}

fn reopening() -> EngineError {
    EngineError::Unavailable("the store is opened anew after a write failed".into())
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_at(&self, engine: &LocalEngine, refused: bool) {
        if refused && engine.failure().is_some() {
            self.state().has_failed = true;
            self.changed.notify_all();
        }
    }

    fn watch(&self) {
        let mut pause = PAUSE;
        loop {
            let opened = Instant::now();
            if self.wait_for_failure().is_err() {
                return;
            }
            pause = if opened.elapsed() > LASTING { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
            if self.wait_for_the_disk(pause).and_then(|()| self.reopen(pause)).is_err() {
                return;
            }
        }
    }

    fn wait_for_failure(&self) -> Result<(), Closed> {
        let waits = |state: &mut State| !state.has_failed && !state.is_closed;
        let state = self.changed.wait_while(self.state(), waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.has_failed = false;
        if state.is_closed { Err(Closed) } else { Ok(()) }
    }

    fn wait_for_the_disk(&self, mut pause: Duration) -> Result<(), Closed> {
        loop {
            self.pause(pause)?;
            match try_to_write(&self.dir) {
                Ok(()) => return Ok(()),
                Err(error) => tracing::warn!("writes are still refused: {error}"),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn reopen(&self, mut pause: Duration) -> Result<(), Closed> {
        tracing::info!("the disk takes writes again: opening the store anew");
        self.current.store(None);
        loop {
            match LocalEngine::open(&self.dir, self.options.clone()) {
                Ok(engine) => {
                    self.current.store(Some(Arc::new(engine)));
                    tracing::info!("writes are accepted again");
                    return Ok(());
                }
                // Commits and views that are out hold the old engine.
                Err(OpenError::Locked { .. }) => self.pause(PAUSE)?,
                Err(error) => {
                    let source = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::error!("{error}: {}", source.unwrap_or_default());
                    self.pause(pause)?;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    fn pause(&self, pause: Duration) -> Result<(), Closed> {
        let waits = |state: &mut State| !state.is_closed;
        let waited = self.changed.wait_timeout_while(self.state(), pause, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_closed { Err(Closed) } else { Ok(()) }
    }
}

/// The engine was closed, and nobody waits for it any more.
struct Closed;

fn try_to_write(dir: &Path) -> io::Result<()> {
    let path = dir.join(TRIAL_FILE);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0xa5; TRIAL_BYTES])?;
        file.sync_all()
    });
    let removed = fs::remove_file(&path);
    written.and(removed)
}
