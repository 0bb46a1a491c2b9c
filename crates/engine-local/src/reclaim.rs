//! Reclaims the space of ranges that are no longer reachable, such as a dropped table's.
//!
//! A small range is deleted key by key, through the committer, in steps small enough not to delay
//! commits. For a large range, the files that contain nothing else are dropped first: that takes
//! milliseconds whatever their size, and leaves only the keys at the edges and those in memory.
//!
//! The journal does not record dropped files. It may still contain some of the same entries, and
//! replays them when the store is opened. So the range is recorded first, and emptied again at the
//! next start.

use crate::LocalEngine;
use crate::committer::{Chore, Job};
use crate::options::LocalOptions;
use crate::store::{Changes, Store, can_be_noted};
use fjall::PersistMode;
use lazuli_engine::{EngineError, Key, KeyRange, Reclaimed, Revision};
use std::sync::PoisonError;
use tokio::sync::oneshot;

/// A reclaim in progress. Without it each call would scan the tombstones of all earlier calls.
pub(crate) struct Unfinished {
    range: KeyRange,
    rest: KeyRange,
}

impl LocalEngine {
    pub(crate) async fn reclaim_some(&self, range: KeyRange) -> Result<Reclaimed, EngineError> {
        if let Some(rest) = self.rest_of(&range) {
            return self.delete_some(range, rest).await;
        }
        let rows_max = self.options.reclaim_rows_max;
        let (keys, rest) = self.published.load_full().keys(range.clone(), rows_max)?;
        if rest.is_none() {
            self.delete(keys).await?;
            return Ok(Reclaimed::Fully);
        }
        if can_be_noted(&range) {
            self.drop_files(range.clone()).await?;
        }
        self.delete_some(range.clone(), range).await
    }

    async fn delete_some(&self, range: KeyRange, rest: KeyRange) -> Result<Reclaimed, EngineError> {
        let rows_max = self.options.reclaim_rows_max;
        let (keys, rest) = self.published.load_full().keys(rest, rows_max)?;
        self.delete(keys).await?;
        let unfinished = rest.map(|rest| Unfinished { range, rest });
        let reclaimed = if unfinished.is_some() { Reclaimed::Partly } else { Reclaimed::Fully };
        *self.unfinished.lock().unwrap_or_else(PoisonError::into_inner) = unfinished;
        Ok(reclaimed)
    }

    fn rest_of(&self, range: &KeyRange) -> Option<KeyRange> {
        let unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.as_ref().filter(|u| u.range == *range).map(|u| u.rest.clone())
    }

    async fn drop_files(&self, range: KeyRange) -> Result<(), EngineError> {
        self.chore(Chore::NoteDropped(range.clone())).await?;
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || store.drop_files(&range))
            .await
            .unwrap_or_else(|e| Err(EngineError::Unavailable(e.to_string())))?;
        self.chore(Chore::ReleaseFiles).await
    }

    async fn delete(&self, keys: Vec<Key>) -> Result<(), EngineError> {
        if keys.is_empty() { Ok(()) } else { self.chore(Chore::Delete(keys)).await }
    }

    async fn chore(&self, chore: Chore) -> Result<(), EngineError> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Chore { chore, reply })?;
        answer.await.unwrap_or_else(|gone| Err(EngineError::Unavailable(gone.to_string())))
    }
}

/// Empties the ranges whose files were dropped before the store was last closed, and returns the
/// last revision assigned.
pub(crate) fn finish(store: &Store, options: &LocalOptions) -> Result<Revision, EngineError> {
    let last = store.last_revision()?;
    let ranges = store.dropped_ranges()?;
    for range in &ranges {
        let mut rest = Some(range.clone());
        while let Some(range) = rest {
            let keys;
            (keys, rest) = store.snapshot().keys(range, options.reclaim_rows_max)?;
            let changes: Changes = keys.into_iter().map(|key| (key, None)).collect();
            store.write(changes, &[], last, PersistMode::Buffer)?;
            store.make_room()?;
        }
    }
    if !ranges.is_empty() {
        store.forget_dropped_ranges(&ranges)?;
    }
    Ok(last)
}

#[cfg(test)]
mod tests;
