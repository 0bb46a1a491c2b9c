//! Gives out table ids, none of them twice.
//!
//! A counter in the store holds the next id. Each process reserves some ids at a time, in a commit of
//! its own: creating many tables at once then does not queue up at one key. An id that is reserved and
//! never used costs nothing.

use crate::error::TableError;
use crate::service::TableService;
use lazuli_engine::retry::Attempt;
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
        self.retry(|| self.try_to_take_table_id()).await?
    }

    async fn try_to_take_table_id(&self) -> Attempt<Result<TableId, TableError>> {
        if let Some(id) = self.ids.take() {
            return Attempt::Done(Ok(id));
        }
        match self.reserve_table_ids().await {
            // Others may take what was reserved, or have been faster at reserving.
            Ok(()) => self.ids.take().map_or(Attempt::Again, |id| Attempt::Done(Ok(id))),
            Err(error) => Attempt::Done(Err(error)),
        }
    }

    /// Moves the stored counter on and keeps the ids in between; reserves none when another is faster.
    async fn reserve_table_ids(&self) -> Result<(), TableError> {
        const EXHAUSTED: CorruptRecord = CorruptRecord("next table id");
        let key = Key::from(key::next_table_id());
        let found = self.engine.read(std::slice::from_ref(&key)).await?.pop().flatten();
        let (first, expect) = match found {
            None => (TableId(1), Expect::Absent),
            Some(found) => {
                let next = decode_next_table_id(&found.value)?;
                (next, Expect::At(found.revision))
            }
        };
        let next = first.0.checked_add(RESERVED).ok_or(EXHAUSTED)?;
        let value = encode_next_table_id(TableId(next));
        let commit = Commit {
            checks: vec![Check { key: key.clone(), expect }],
            ..Commit::new(self.now(), vec![Write::Put(key, value.into())])
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
