//! Gives out table ids, none of them twice.
//!
//! A counter in the store holds the next id. Each process reserves some ids at a time, in a commit of
//! its own: creating many tables at once then does not queue up at one key, and an id that is
//! reserved and never used is no loss.

use crate::error::TableError;
use crate::service::{COMMIT_ATTEMPTS_MAX, TableService};
use crate::yielding::yield_now;
use lazuli_engine::{Check, Commit, CommitError, Expect, Key, Write};
use lazuli_layout::table::{decode_next_table_id, encode_next_table_id};
use lazuli_layout::{CorruptRecord, TableId, key};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ids reserved at a time.
const RESERVED: u64 = 32;

/// Table ids that this process has reserved and not yet given out.
#[derive(Default)]
pub(crate) struct TableIds(Mutex<VecDeque<Range<u64>>>);

impl TableIds {
    fn take(&self) -> Option<TableId> {
        let mut ranges = self.ranges();
        loop {
            if let Some(id) = ranges.front_mut()?.next() {
                return Some(TableId(id));
            }
            ranges.pop_front();
        }
    }

    fn add(&self, ids: Range<u64>) {
        self.ranges().push_back(ids);
    }

    /// Nothing done under the lock can panic halfway.
    fn ranges(&self) -> MutexGuard<'_, VecDeque<Range<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableService {
    /// A table id that nobody was given before.
    pub(crate) async fn next_table_id(&self) -> Result<TableId, TableError> {
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            if let Some(id) = self.ids.take() {
                return Ok(id);
            }
            self.reserve_table_ids().await?;
            yield_now().await;
        }
        Err(TableError::Busy)
    }

    /// Moves the stored counter on, and keeps what lies between; fails silently when another does.
    async fn reserve_table_ids(&self) -> Result<(), TableError> {
        const EXHAUSTED: CorruptRecord = CorruptRecord("next table id");
        let key = key::next_table_id();
        let view = self.engine.view().await?;
        let (first, expect) = match view.get(&key).await? {
            None => (TableId(1), Expect::Absent),
            Some(found) => {
                let next = decode_next_table_id(&found.value)?;
                (next, Expect::At(found.revision))
            }
        };
        let next = first.0.checked_add(RESERVED).ok_or(EXHAUSTED)?;
        let key = Key::from(key);
        let value = encode_next_table_id(TableId(next));
        let commit = Commit {
            not_before: self.now(),
            checks: vec![Check { key: key.clone(), expect }],
            writes: vec![Write::Put(key, value.into())],
        };
        match self.engine.commit(commit).await {
            Ok(_) => self.ids.add(first.0..next),
            // After a lost answer the ids, if they were reserved, are never given out.
            Err(
                CommitError::CheckFailed { .. }
                | CommitError::Conflict
                | CommitError::Undetermined(_),
            ) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
