//! The reference engine: everything in one ordered map, readable before all else.
//!
//! A view is a clone of an `Arc` to the map, and a commit copies the map only while a view still
//! holds it. It is the model that other engines are checked against, and `--durability memory`'s
//! little sister for tests.

use crate::{
    BoxFuture, Commit, CommitError, Direction, Engine, EngineError, Found, Key, KeyRange, Limits,
    Reclaimed, Revision, Scan, ScanEnd, View, Visit, Visitor, Write,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Map = BTreeMap<Key, Found>;

/// How the memory engine behaves.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    pub limits: Limits,
    /// Entries one reclaim removes at most.
    pub reclaim_rows_max: usize,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { limits: Limits::DEFAULT, reclaim_rows_max: 10_000 }
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
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new(MemoryOptions::default())
    }
}

impl MemoryEngine {
    pub fn new(options: MemoryOptions) -> Self {
        Self { options, state: Mutex::new(State { map: Arc::default(), last: Revision(0) }) }
    }

    /// A panic while the lock was held cannot leave the map half changed: it is replaced whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, commit: &Commit) -> Result<Revision, CommitError> {
        self.options.limits.check(commit)?;
        let mut state = self.state();
        for (index, check) in commit.checks.iter().enumerate() {
            let found = state.map.get(&check.key).map(|f| f.revision);
            if !check.expect.holds(found) {
                return Err(CommitError::CheckFailed { index, found });
            }
        }
        let values = self.new_values(&state.map, &commit.writes)?;
        let revision = commit.not_before.max(Revision(state.last.0 + 1));
        state.last = revision;
        let map = Arc::make_mut(&mut state.map);
        for (write, value) in commit.writes.iter().zip(values) {
            match value {
                Some(value) => map.insert(write.key().clone(), Found { value, revision }),
                None => map.remove(write.key()),
            };
        }
        Ok(revision)
    }

    /// The value each write leaves behind; `None` where it deletes.
    fn new_values(&self, map: &Map, writes: &[Write]) -> Result<Vec<Option<Bytes>>, CommitError> {
        let next = |(index, write): (usize, &Write)| match write {
            Write::Put(_, value) => Ok(Some(value.clone())),
            Write::Delete(_) => Ok(None),
            Write::Modify(key, function) => {
                let current = map.get(key).map(|found| found.value.as_ref());
                let value = function
                    .modify(current)
                    .map_err(|reason| CommitError::Refused { index, reason })?;
                self.options.limits.check_value(value.len())?;
                Ok(Some(value.into()))
            }
        };
        writes.iter().enumerate().map(next).collect()
    }

    fn remove_some(&self, range: &KeyRange) -> Reclaimed {
        if range.is_empty() {
            return Reclaimed::Fully;
        }
        let mut state = self.state();
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
        if keys.len() < self.options.reclaim_rows_max {
            Reclaimed::Fully
        } else {
            Reclaimed::Partly
        }
    }
}

impl Engine for MemoryEngine {
    fn limits(&self) -> &Limits {
        &self.options.limits
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        let view: Arc<dyn View> = Arc::new(MemoryView(self.state().map.clone()));
        Box::pin(std::future::ready(Ok(view)))
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move { self.apply(&commit) })
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        Box::pin(async move { Ok(self.remove_some(&range)) })
    }
}

struct MemoryView(Arc<Map>);

impl View for MemoryView {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        Box::pin(std::future::ready(Ok(self.0.get(key).cloned())))
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        let found = keys.iter().map(|key| self.0.get(key).cloned()).collect();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(async move { Ok(walk(&self.0, scan, visitor)) })
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
    mut scan: Scan,
    visitor: &mut Visitor<'_>,
) -> ScanEnd {
    let (mut rows, mut bytes) = (0, 0);
    for (key, found) in entries {
        if rows > 0 && (rows >= scan.rows_max || bytes >= scan.bytes_max) {
            match scan.direction {
                Direction::Forward => scan.range.start = key.as_slice().to_vec(),
                // The end is exclusive: one zero byte more includes the key itself.
                Direction::Backward => scan.range.end = [key.as_slice(), &[0]].concat(),
            }
            return ScanEnd::More(scan.range);
        }
        if visitor(key.as_slice(), &found.value, found.revision) == Visit::StopBefore {
            return ScanEnd::Stopped;
        }
        rows += 1;
        bytes += key.as_slice().len() + found.value.len();
    }
    ScanEnd::Done
}
