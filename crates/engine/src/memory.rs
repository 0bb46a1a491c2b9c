//! The reference engine: one ordered map, written for readability.
//!
//! A view is a clone of an `Arc` to the map, and a commit copies the map only while a view still
//! holds it. Other engines are tested against it, and tests of the layers above run on it.

use crate::resolve::{Resolved, resolve};
use crate::{
    Acknowledged, BoxFuture, ClockSource, Commit, CommitError, Direction, Engine, EngineError,
    Found, Key, KeyRange, Limits, Nature, Reclaimed, Revision, Scan, ScanEnd, View, Visit, Visitor,
    Writers,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Map = BTreeMap<Key, Found>;

/// A clock in milliseconds, for the expiry of views.
pub type ViewClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How the memory engine behaves.
#[derive(Clone)]
pub struct MemoryOptions {
    pub limits: Limits,
    /// The writers that the engine declares. Tests in which several services share one engine use
    /// `Many`.
    pub writers: Writers,
    /// Maximum number of entries that one reclaim removes.
    pub reclaim_rows_max: usize,
    /// The clock by which views expire. Without one they never do.
    pub view_clock: Option<ViewClock>,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            writers: Writers::Sole,
            reclaim_rows_max: 10_000,
            view_clock: None,
        }
    }
}

impl fmt::Debug for MemoryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryOptions")
            .field("limits", &self.limits)
            .field("writers", &self.writers)
            .field("reclaim_rows_max", &self.reclaim_rows_max)
            .field("view_clock", &self.view_clock.is_some())
            .finish()
    }
}

/// The reference engine.
pub struct MemoryEngine {
    options: MemoryOptions,
    state: Mutex<State>,
}

struct State {
    map: Arc<Map>,
    last: Revision,
    is_closed: bool,
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new(MemoryOptions::default())
    }
}

impl MemoryEngine {
    pub fn new(options: MemoryOptions) -> Self {
        let state = State { map: Arc::default(), last: Revision(0), is_closed: false };
        Self { options, state: Mutex::new(state) }
    }

    /// A panic under the lock cannot leave the map half changed, because it is replaced as a whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_state(&self) -> Result<MutexGuard<'_, State>, EngineError> {
        let state = self.state();
        if state.is_closed {
            return Err(EngineError::Unavailable("it is closed".into()));
        }
        Ok(state)
    }

    fn apply(&self, commit: &Commit) -> Result<Revision, CommitError> {
        let limits = &self.options.limits;
        limits.check(commit)?;
        let mut state = self.open_state()?;
        let resolved = resolve(commit, limits, &mut |key| Ok(state.map.get(key).cloned()))?;
        let revision = commit.not_before.max(Revision(state.last.0 + 1));
        state.last = revision;
        let map = Arc::make_mut(&mut state.map);
        let mut position = 0;
        for write in resolved {
            match write {
                Resolved::Set(key, Some(value)) => map.insert(key, Found { value, revision }),
                Resolved::Set(key, None) => map.remove(&key),
                Resolved::Append(prefix, value) => {
                    let key = Key::appended(&prefix, revision, position);
                    position += 1;
                    map.insert(key, Found { value, revision })
                }
            };
        }
        Ok(revision)
    }

    fn remove_some(&self, range: &KeyRange) -> Result<Reclaimed, EngineError> {
        if range.is_empty() {
            return Ok(Reclaimed::Fully);
        }
        let mut state = self.open_state()?;
        let map = Arc::make_mut(&mut state.map);
        let bounds = (Key::from(range.start.clone()), Key::from(range.end.clone()));
        let keys: Vec<Key> = map
            .range(bounds.0..bounds.1)
            .map(|(key, _)| key.clone())
            .take(self.options.reclaim_rows_max)
            .collect();
        for key in &keys {
            map.remove(key);
        }
        let is_full = keys.len() < self.options.reclaim_rows_max;
        Ok(if is_full { Reclaimed::Fully } else { Reclaimed::Partly })
    }

    fn snapshot(&self, ms_max: u64) -> Result<Arc<dyn View>, EngineError> {
        let map = self.open_state()?.map.clone();
        let clock = self.options.view_clock.clone();
        let life = clock.map(|clock| Life { begun_ms: clock(), ms_max, clock });
        Ok(Arc::new(MemoryView { map, life }))
    }
}

impl Engine for MemoryEngine {
    fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// Acknowledged commits last as long as the engine.
    fn nature(&self) -> Nature {
        Nature {
            clock: ClockSource::Caller,
            writers: self.options.writers,
            acknowledged: Acknowledged::Kept,
        }
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        let find_all = |state: MutexGuard<'_, State>| find_all(&state.map, keys);
        Box::pin(std::future::ready(self.open_state().map(find_all)))
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        let view = self.snapshot(self.options.limits.view_ms_max);
        Box::pin(std::future::ready(view))
    }

    fn kept_view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        let view = self.snapshot(self.options.limits.kept_view_ms_max);
        Box::pin(std::future::ready(view))
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move { self.apply(&commit) })
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(async move { self.remove_some(&range) })
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        let health = self.open_state().map(drop);
        Box::pin(std::future::ready(health))
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(std::future::ready(Ok(Reclaimed::Fully)))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.state().is_closed = true;
        Box::pin(std::future::ready(Ok(())))
    }
}

struct MemoryView {
    map: Arc<Map>,
    /// `None` for a view that does not expire.
    life: Option<Life>,
}

struct Life {
    begun_ms: u64,
    ms_max: u64,
    clock: ViewClock,
}

impl MemoryView {
    fn map(&self) -> Result<&Map, EngineError> {
        match &self.life {
            Some(life) if (life.clock)().saturating_sub(life.begun_ms) >= life.ms_max => {
                Err(EngineError::Expired)
            }
            _ => Ok(&self.map),
        }
    }

    fn find(&self, key: &[u8]) -> Result<Option<Found>, EngineError> {
        Ok(self.map()?.get(key).cloned())
    }
}

fn find_all(map: &Map, keys: &[Key]) -> Vec<Option<Found>> {
    keys.iter().map(|key| map.get(key).cloned()).collect()
}

impl View for MemoryView {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        Box::pin(std::future::ready(self.find(key)))
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(std::future::ready(self.map().map(|map| find_all(map, keys))))
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(async move { Ok(walk(self.map()?, scan, visitor)) })
    }
}

fn walk(map: &Map, scan: Scan, visitor: &mut Visitor<'_>) -> ScanEnd {
    if scan.range.is_empty() {
        return ScanEnd::Done;
    }
    let bounds = Key::from(scan.range.start.clone())..Key::from(scan.range.end.clone());
    let entries = map.range(bounds);
    match scan.direction {
        Direction::Forward => walk_entries(entries, scan, visitor),
        Direction::Backward => walk_entries(entries.rev(), scan, visitor),
    }
}

fn walk_entries<'m>(
    entries: impl Iterator<Item = (&'m Key, &'m Found)>,
    scan: Scan,
    visitor: &mut Visitor<'_>,
) -> ScanEnd {
    let (mut rows, mut bytes) = (0, 0);
    for (key, found) in entries {
        if rows > 0 && (rows >= scan.rows_max || bytes >= scan.bytes_max) {
            return ScanEnd::More(scan.range.starting_with(scan.direction, key.as_slice()));
        }
        if visitor(key.as_slice(), &found.value, found.revision) == Visit::StopBefore {
            return ScanEnd::Stopped;
        }
        rows += 1;
        bytes += key.as_slice().len() + found.value.len();
    }
    ScanEnd::Done
}
