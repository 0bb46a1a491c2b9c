//! Reclaims the space of dropped data: tombstones name the ranges, and engines reclaim them when no
//! request can use them any more.
//!
//! Where this process is the only writer, one pass is enough. Where others write, a commit that was
//! concurrent with the drop may end after any wait: a second pass, an hour after the first, finds
//! what it wrote, and only then is the tombstone deleted (K-4.6). There, time comes from the clock
//! that stamps the revisions, so that gateways with differing clocks agree.

use crate::error::StoreError;
use crate::scan::{Rows, key_range, step};
use crate::store::Store;
use lazuli_engine::{
    Check, Commit, CommitError, Expect, Key, Reclaimed, Revision, ScanEnd, Visit, Write, Writers,
};
use lazuli_layout::table::ReclaimMark;
use lazuli_meter::Gauge;
use lazuli_model::Timestamp;
use lazuli_model::limits::REQUEST_MS_MAX;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tombstones fetched at a time.
const MARKS_PER_STEP: usize = 256;
/// Minimum time that views may be in use, in milliseconds.
const VIEW_MS_MIN: u64 = 60_000;
/// How long after the first pass the second follows, in milliseconds.
const SECOND_PASS_MS: u64 = 3_600_000;

/// A tombstone whose space no request can still be using.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledMark {
    pub key: Vec<u8>,
    mark: ReclaimMark,
    revision: Revision,
}

/// How many drops wait for their space to be reclaimed. Drops by other processes, and commits whose
/// answer was lost, are included when all marks are recounted: whenever none is settled.
#[derive(Default)]
pub(crate) struct Waiting {
    drops: Gauge,
    /// Whether the marks found at start-up have been counted.
    is_counted: AtomicBool,
    /// Where the search for the next settled mark begins; `None` is the first mark. Many marks wait
    /// for their second pass; they are not examined again for each settled mark.
    next: Mutex<Option<Vec<u8>>>,
}

impl Waiting {
    /// No code under the lock can panic halfway.
    fn next(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Counts a drop whose mark is committed. Where other processes drop too, only recounting the
    /// marks gives the number.
    pub fn dropped(&self) {
        if self.nature().writers == Writers::Sole {
            self.waiting.drops.add(1);
        }
    }

    /// Drops whose space is not yet reclaimed.
    pub fn drops_waiting(&self) -> u64 {
        u64::try_from(self.waiting.drops.value()).unwrap_or_default()
    }

    /// The next tombstone within `marks` whose space no request can still be using at `now`, which
    /// is the time of the clock that stamps the revisions.
    pub async fn settled_mark(
        &self,
        marks: Range<Vec<u8>>,
        now: Timestamp,
    ) -> Result<Option<SettledMark>, StoreError> {
        let view = self.engine.view().await?;
        let from = self.waiting.next().take();
        let is_whole = from.is_none();
        let is_counted = self.waiting.is_counted.load(Ordering::Relaxed);
        let (mut found, mut drops) = (None, 0);
        let mut next = Some(key_range(from.unwrap_or(marks.start)..marks.end));
        while let Some(range) = next.take() {
            let mut look = |key: &[u8], value: &[u8], revision| {
                let mark = ReclaimMark::decode(value)?;
                drops += i64::from(!mark.is_swept);
                if found.is_none() && self.is_settled(mark, revision, now) {
                    found = Some(SettledMark { key: key.to_vec(), mark, revision });
                }
                Ok(if found.is_some() && is_counted { Visit::StopBefore } else { Visit::Continue })
            };
            let rows = Rows::at_most(MARKS_PER_STEP);
            if let ScanEnd::More(rest) = step(&*view, range, rows, &mut look).await? {
                next = Some(rest);
            }
        }
        if is_whole && (found.is_none() || !is_counted) {
            self.waiting.drops.set(drops);
            self.waiting.is_counted.store(true, Ordering::Relaxed);
        }
        *self.waiting.next() = found.as_ref().map(|found| found.key.clone());
        Ok(found)
    }

    /// Reclaims some of the space of `ranges`. Once everything is reclaimed, and no other writer can
    /// add to it, deletes their tombstone.
    pub async fn reclaim_marked(
        &self,
        settled: SettledMark,
        ranges: impl IntoIterator<Item = Range<Vec<u8>>>,
    ) -> Result<(), StoreError> {
        for range in ranges {
            if self.engine.reclaim(key_range(range)).await? == Reclaimed::Partly {
                return Ok(());
            }
        }
        let SettledMark { key, mark, revision } = settled;
        let key = Key::from(key);
        let is_last = mark.is_swept || self.nature().writers == Writers::Sole;
        let write = match is_last {
            true => Write::Delete(key.clone()),
            false => {
                let swept = ReclaimMark { is_swept: true, ..mark };
                Write::Put(key.clone(), swept.encode().into())
            }
        };
        let commit = Commit {
            checks: vec![Check { key, expect: Expect::At(revision) }],
            ..Commit::new(self.now(), vec![write])
        };
        match self.engine.commit(commit).await {
            Ok(_) => {
                self.waiting.drops.add(if mark.is_swept { 0 } else { -1 });
                Ok(())
            }
            // Another process was faster. All steps are idempotent: a later call repeats them.
            Err(
                CommitError::CheckFailed { .. }
                | CommitError::Conflict
                | CommitError::Undetermined(_),
            ) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether no request can still be using what was dropped, or swept, at `revision`.
    fn is_settled(&self, mark: ReclaimMark, revision: Revision, now: Timestamp) -> bool {
        let view_ms_max = self.engine.limits().view_ms_max;
        let (since, ms) = match (self.nature().writers, mark.is_swept) {
            (Writers::Sole, _) => (Some(mark.dropped), view_ms_max),
            // A commit of another process that saw it alive may still be in flight.
            (Writers::Many, false) => {
                let settles_ms = view_ms_max.max(VIEW_MS_MIN).saturating_add(REQUEST_MS_MAX);
                (Timestamp::from_ticks(revision.0), settles_ms)
            }
            (Writers::Many, true) => (Timestamp::from_ticks(revision.0), SECOND_PASS_MS),
        };
        since.is_some_and(|since| now.millis_since(since) >= ms)
    }
}
