//! A view: one fjall snapshot, read on the caller's own thread.

use crate::damage::DamageReporter;
use crate::store::{decode, decode_ref, engine_error};
use arc_swap::ArcSwapOption;
use fjall::{Guard, Keyspace, Readable};
use lazuli_engine::{
    BoxFuture, Direction, EngineError, Found, Key, KeyRange, Scan, ScanEnd, View, Visit, Visitor,
};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Entries that are read through a bounded range. lsm-tree searches for the end in each block it
/// opens, which is a sixth of the cost of a long scan: after this many entries the scan restarts
/// without an end, and compares each key itself. A short range is not read beyond its end, which
/// could cost a disk read.
const BOUNDED_ROWS_MAX: usize = 64;
/// A scan of at most this many entries never restarts. Scans for the first messages of a queue are this
/// short, and past the end of their range lie all messages deleted in the last half minute.
const SHORT_SCAN_ROWS_MAX: usize = 128;

/// The state after one group of commits. All views of that state share it.
pub(crate) struct Snapshot {
    snapshot: fjall::Snapshot,
    data: Keyspace,
    damage: Arc<DamageReporter>,
    life: Duration,
    /// When a newer snapshot was published. All views of this snapshot are older, so their life is
    /// counted from here, and views of the newest snapshot need not read a clock.
    replaced: OnceLock<Instant>,
}

impl Snapshot {
    /// `life` is how long a view may be used.
    pub(crate) fn new(
        snapshot: fjall::Snapshot,
        data: Keyspace,
        damage: Arc<DamageReporter>,
        life: Duration,
    ) -> Self {
        Self { snapshot, data, damage, life, replaced: OnceLock::new() }
    }

    /// A newer snapshot is published `now`: views of this one start to age.
    pub(crate) fn replace(&self, now: Instant) {
        // The committer replaces a snapshot once.
        let _ = self.replaced.set(now);
    }

    /// When a newer snapshot was published, if one was.
    pub(crate) fn replaced(&self) -> Option<Instant> {
        self.replaced.get().copied()
    }

    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<Found>, EngineError> {
        let found = self.snapshot.get(&self.data, key);
        match found.map_err(|error| unreadable(&self.damage, error))? {
            Some(stored) => decode(stored).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn find_all(&self, keys: &[Key]) -> Result<Vec<Option<Found>>, EngineError> {
        keys.iter().map(|key| self.find(key.as_slice())).collect()
    }

    fn alive(&self) -> Result<(), EngineError> {
        match self.replaced.get() {
            Some(replaced) if replaced.elapsed() >= self.life => Err(EngineError::Expired),
            _ => Ok(()),
        }
    }

    pub(crate) fn walk(
        &self,
        scan: Scan,
        visitor: &mut Visitor<'_>,
    ) -> Result<ScanEnd, EngineError> {
        if scan.range.is_empty() {
            return Ok(ScanEnd::Done);
        }
        let mut walk = Walk { damage: &self.damage, scan, visitor, rows: 0, bytes: 0 };
        let bounds = walk.scan.range.start.clone()..walk.scan.range.end.clone();
        let entries = self.snapshot.range(&self.data, bounds);
        if walk.scan.direction == Direction::Backward {
            return Ok(walk.over(entries.rev(), usize::MAX)?.unwrap_or(ScanEnd::Done));
        }
        let is_short = walk.scan.rows_max <= SHORT_SCAN_ROWS_MAX;
        let bounded_rows = if is_short { usize::MAX } else { BOUNDED_ROWS_MAX };
        if let Some(end) = walk.over(entries, bounded_rows)? {
            return Ok(end);
        }
        let entries = self.snapshot.range(&self.data, walk.scan.range.start.clone()..);
        Ok(walk.over(entries, usize::MAX)?.unwrap_or(ScanEnd::Done))
    }

    /// The keys of a range, at most `rows_max`, and what is left of it.
    pub(crate) fn keys(
        &self,
        range: KeyRange,
        rows_max: usize,
    ) -> Result<(Vec<Key>, Option<KeyRange>), EngineError> {
        let mut keys = Vec::new();
        let scan = Scan {
            range,
            direction: Direction::Forward,
            rows_max,
            bytes_max: usize::MAX,
            rows_expected: rows_max,
        };
        let end = self.walk(scan, &mut |key, _, _| {
            keys.push(Key::from(key.to_vec()));
            Visit::Continue
        })?;
        match end {
            ScanEnd::More(rest) => Ok((keys, Some(rest))),
            ScanEnd::Done | ScanEnd::Stopped => Ok((keys, None)),
        }
    }
}

/// A snapshot kept until its holder drops it, or until the store must be reopened.
pub(crate) struct KeptView(ArcSwapOption<Snapshot>);

impl KeptView {
    pub(crate) fn of(snapshot: Arc<Snapshot>) -> Self {
        Self(ArcSwapOption::new(Some(snapshot)))
    }

    /// Releases the store. Reads in progress finish.
    pub(crate) fn release(&self) {
        self.0.store(None);
    }

    fn snapshot(&self) -> Result<Arc<Snapshot>, EngineError> {
        self.0.load_full().ok_or(EngineError::Expired)
    }
}

impl View for KeptView {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        Box::pin(async move { self.snapshot()?.find(key) })
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async move { self.snapshot()?.find_all(keys) })
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(async move { self.snapshot()?.walk(scan, visitor) })
    }
}

/// A scan in progress.
struct Walk<'v, 'f> {
    damage: &'v DamageReporter,
    /// Its range is what remains once [`over`](Self::over) stops early.
    scan: Scan,
    visitor: &'v mut Visitor<'f>,
    rows: usize,
    bytes: usize,
}

impl Walk<'_, '_> {
    /// Passes on `entries`, which start with the range and may continue past its end; `None` if
    /// there are more than `rows_max`.
    fn over(
        &mut self,
        entries: impl Iterator<Item = Guard>,
        rows_max: usize,
    ) -> Result<Option<ScanEnd>, EngineError> {
        for entry in entries {
            let entry = entry.into_inner().map_err(|error| unreadable(self.damage, error));
            let (key, stored) = entry?;
            if *key >= *self.scan.range.end {
                break;
            }
            let full = self.rows >= self.scan.rows_max || self.bytes >= self.scan.bytes_max;
            if self.rows > 0 && (full || self.rows >= rows_max) {
                let rest = self.scan.range.clone().starting_with(self.scan.direction, &key);
                self.scan.range = rest.clone();
                return Ok(full.then_some(ScanEnd::More(rest)));
            }
            let (revision, value) = decode_ref(&stored)?;
            if (self.visitor)(&key, value, revision) == Visit::StopBefore {
                return Ok(Some(ScanEnd::Stopped));
            }
            self.rows += 1;
            self.bytes += key.len() + value.len();
        }
        Ok(Some(ScanEnd::Done))
    }
}

fn unreadable(damage: &DamageReporter, error: fjall::Error) -> EngineError {
    let error = engine_error(error);
    if matches!(error, EngineError::Corrupt(_)) {
        damage.met();
    }
    error
}

impl View for Snapshot {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        Box::pin(async move {
            self.alive()?;
            self.find(key)
        })
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async move {
            self.alive()?;
            self.find_all(keys)
        })
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(async move {
            self.alive()?;
            self.walk(scan, visitor)
        })
    }
}

#[cfg(test)]
mod tests;
