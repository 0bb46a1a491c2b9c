//! The space of what was dropped: marks say what, and engines give it back when nobody looks any more.

use crate::error::StoreError;
use crate::scan::{Rows, key_range, step};
use crate::store::Store;
use lazuli_engine::{Commit, CommitError, Key, Reclaimed, ScanEnd, Visit, Write, Writers};
use lazuli_layout::table::decode_reclaim;
use lazuli_model::limits::REQUEST_MS_MAX;
use std::ops::Range;

/// Marks that are looked at in one step to find one whose time has come: the oldest ids come first,
/// and most often the oldest drops.
const MARKS_PER_STEP: usize = 16;

impl Store {
    /// The key of a mark within `marks` whose space no request can be using any more.
    pub async fn settled_mark(&self, marks: Range<Vec<u8>>) -> Result<Option<Vec<u8>>, StoreError> {
        let view = self.engine.view().await?;
        let (now, settles_ms) = (self.clock.now(), self.drop_settles_ms());
        let mut found = None;
        let mut next = Some(key_range(marks));
        while let Some(range) = next.take() {
            let mut look = |key: &[u8], value: &[u8], _| {
                if now.millis_since(decode_reclaim(value)?) < settles_ms {
                    return Ok(Visit::Continue);
                }
                found = Some(key.to_vec());
                Ok(Visit::StopBefore)
            };
            let rows = Rows::at_most(MARKS_PER_STEP);
            if let ScanEnd::More(rest) = step(&*view, range, rows, &mut look).await? {
                next = Some(rest);
            }
        }
        Ok(found)
    }

    /// Gives back some of the space of `ranges`, and forgets their mark once all of it is given back.
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
            // Reclaiming and forgetting are both idempotent: the next call does it again.
            Ok(_) | Err(CommitError::Conflict | CommitError::Undetermined(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// How long after a drop requests that began before may still read or write what was dropped.
    fn drop_settles_ms(&self) -> u64 {
        let view_ms_max = self.engine.limits().view_ms_max;
        match self.nature().writers {
            Writers::Sole => view_ms_max,
            // A commit of another process that saw it alive may still be under way.
            Writers::Many => view_ms_max.saturating_add(REQUEST_MS_MAX),
        }
    }
}
