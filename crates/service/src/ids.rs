//! Assigns the ids of tables and queues; an id is never reused.
//!
//! A counter in the store holds the next id. Each process reserves several ids in a separate
//! commit, so that concurrent creations do not contend for one key. A reserved id that is never
//! used costs nothing.

use crate::error::StoreError;
use crate::store::Store;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{Check, Commit, CommitError, Expect, Key, Write};
use lazuli_layout::table::{decode_next_table_id, encode_next_table_id};
use lazuli_layout::{CorruptRecord, TableId, key};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ids reserved at a time.
const RESERVED: u64 = 32;

/// Ids that this process has reserved and not yet assigned.
#[derive(Default)]
pub(crate) struct Ids(Mutex<VecDeque<Range<u64>>>);

impl Ids {
    fn take(&self) -> Option<u64> {
        let mut ranges = self.ranges();
        loop {
            if let Some(id) = ranges.front_mut()?.next() {
                return Some(id);
            }
            ranges.pop_front();
        }
    }

    fn add(&self, ids: Range<u64>) {
        self.ranges().push_back(ids);
    }

    /// No code under the lock can panic halfway.
    fn ranges(&self) -> MutexGuard<'_, VecDeque<Range<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// An id that was never assigned to a table or queue before.
    pub async fn next_id(&self) -> Result<u64, StoreError> {
        self.retry(|| self.try_to_take_id()).await?
    }

    async fn try_to_take_id(&self) -> Attempt<Result<u64, StoreError>> {
        if let Some(id) = self.ids.take() {
            return Attempt::Done(Ok(id));
        }
        match self.reserve_ids().await {
            // Other tasks may take the reserved ids, or may have won the reservation.
            Ok(()) => self.ids.take().map_or(Attempt::Again, |id| Attempt::Done(Ok(id))),
            Err(error) => Attempt::Done(Err(error)),
        }
    }

    /// Advances the stored counter and keeps the ids in between; reserves none if another writer
    /// wins.
    async fn reserve_ids(&self) -> Result<(), StoreError> {
        const EXHAUSTED: CorruptRecord = CorruptRecord("next id");
        let key = Key::from(key::next_table_id());
        let (first, expect) = match self.read_one(&key).await? {
            None => (1, Expect::Absent),
            Some(found) => (decode_next_table_id(&found.value)?.0, Expect::At(found.revision)),
        };
        let next = first.checked_add(RESERVED).ok_or(EXHAUSTED)?;
        let value = encode_next_table_id(TableId(next));
        let commit = Commit {
            checks: vec![Check { key: key.clone(), expect }],
            ..Commit::new(self.now(), vec![Write::Put(key, value.into())])
        };
        match self.engine.commit(commit).await {
            Ok(_) => self.ids.add(first..next),
            // After a lost reply the ids may be reserved, but are never assigned.
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
