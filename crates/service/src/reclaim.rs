//! Reclaims the space of dropped data: tombstones name the ranges, and engines reclaim them when no
//! request can read them any more.

use crate::error::StoreError;
use crate::scan::{Rows, key_range, step};
use crate::store::Store;
use lazuli_engine::{Commit, CommitError, Key, Reclaimed, ScanEnd, Visit, Write, Writers};
use lazuli_layout::table::decode_reclaim;
use lazuli_meter::Gauge;
use lazuli_model::limits::REQUEST_MS_MAX;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tombstones examined in one step to find one that is due: the oldest ids come first, and these
/// are mostly the oldest drops.
const MARKS_PER_STEP: usize = 16;

/// How many drops wait for their space to come back. What other processes drop, and what becomes of a
/// commit whose answer is lost, shows when all marks are counted again: whenever none is settled.
#[derive(Default)]
pub(crate) struct Waiting {
    drops: Gauge,
    /// Whether the marks that the start found are counted.
    is_counted: AtomicBool,
}

impl Store {
    /// Counts a drop, whose mark is committed.
    pub fn dropped(&self) {
        self.waiting.drops.add(1);
    }

    /// Drops whose space is not yet reclaimed.
    pub fn drops_waiting(&self) -> u64 {
        u64::try_from(self.waiting.drops.value()).unwrap_or_default()
    }

    /// The key of a tombstone within `marks` whose space no request can still be using.
    pub async fn settled_mark(&self, marks: Range<Vec<u8>>) -> Result<Option<Vec<u8>>, StoreError> {
        let view = self.engine.view().await?;
        let (now, settles_ms) = (self.clock.now(), self.drop_settles_ms());
        let is_counted = self.waiting.is_counted.load(Ordering::Relaxed);
        let (mut found, mut drops) = (None, 0);
        let mut next = Some(key_range(marks));
        while let Some(range) = next.take() {
            let mut look = |key: &[u8], value: &[u8], _| {
                drops += 1;
                let is_settled = now.millis_since(decode_reclaim(value)?) >= settles_ms;
                if is_settled && found.is_none() {
                    found = Some(key.to_vec());
                }
                Ok(if found.is_some() && is_counted { Visit::StopBefore } else { Visit::Continue })
            };
            let rows = Rows::at_most(MARKS_PER_STEP);
            if let ScanEnd::More(rest) = step(&*view, range, rows, &mut look).await? {
                next = Some(rest);
            }
        }
        if found.is_none() || !is_counted {
            self.waiting.drops.set(drops);
            self.waiting.is_counted.store(true, Ordering::Relaxed);
        }
        Ok(found)
    }

    /// Reclaims some of the space of `ranges`, and deletes their tombstone once everything is
    /// reclaimed.
    pub async fn reclaim_marked(
        &self,
        mark: Vec<u8>,
        ranges: impl IntoIterator<Item = Range<Vec<u8>>>,
    ) -> Result<(), StoreError> {
        for range in ranges {
            if self.engine.reclaim(key_range(range)).await? == Reclaimed::Partly {
                return Ok(());
            }
        }
        let forget = Write::Delete(Key::from(mark));
        match self.engine.commit(Commit::new(self.now(), vec![forget])).await {
            Ok(_) => {
                self.waiting.drops.add(-1);
                Ok(())
            }
            // Both steps are idempotent: the next call repeats them.
            Err(CommitError::Conflict | CommitError::Undetermined(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// How long after a drop earlier requests may still read or write the dropped data.
    fn drop_settles_ms(&self) -> u64 {
        let view_ms_max = self.engine.limits().view_ms_max;
        match self.nature().writers {
            Writers::Sole => view_ms_max,
            // A commit of another process that saw it alive may still be in flight.
            Writers::Many => view_ms_max.saturating_add(REQUEST_MS_MAX),
        }
    }
}
