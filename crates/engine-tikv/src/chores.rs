//! The engine's own upkeep: space of dropped ranges, forgotten locks, old versions.

use crate::engine::TikvEngine;
use crate::patience::ClientError;
use crate::proto::kv::{Mutation, Op};
use crate::read::{CHUNK_BYTES_MAX, RangeRead};
use crate::transaction::{Span, TransactionError};
use bytes::Bytes;
use lazuli_engine::{Direction, GUARD_AGE_MS_MAX, KeyRange, Reclaimed};
use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

/// Keys deleted by one step of a reclaim.
const RECLAIM_KEYS: usize = 1024;
/// Regions without keys that one step of a reclaim looks at.
const RECLAIM_REGIONS: usize = 256;
/// Ranges whose reclaim has begun and is remembered; one that is forgotten begins again.
const RECLAIMS_MAX: usize = 64;
/// Regions whose locks one step of tending looks for.
const SWEEP_REGIONS: usize = 64;
/// No transaction lives this long.
const LOCKS_MS: u64 = 60_000;
/// Versions that were replaced longer ago are dropped: twice as long as a view that is kept lives.
const VERSIONS_MS: u64 = 600_000;

impl TikvEngine {
    /// Deletes some keys of a range that nobody uses any more. It goes on where the last step ended: what
    /// was deleted is walked over once, however many empty regions it leaves.
    pub(crate) async fn reclaim_some(&self, range: KeyRange) -> Result<Reclaimed, ClientError> {
        let end = range.end.clone();
        let begun = self.reclaims().remove(&end).filter(|from| range.start < *from);
        let (reclaimed, rest) =
            self.reclaim_from(KeyRange::new(begun.unwrap_or(range.start), range.end)).await?;
        if let Some(rest) = rest {
            let mut reclaims = self.reclaims();
            if reclaims.len() >= RECLAIMS_MAX {
                reclaims.clear();
            }
            reclaims.insert(end, rest);
        }
        Ok(reclaimed)
    }

    /// One step, and where the next one begins.
    async fn reclaim_from(
        &self,
        range: KeyRange,
    ) -> Result<(Reclaimed, Option<Vec<u8>>), ClientError> {
        let cluster = &self.shared.cluster;
        let mut patience = cluster.patience();
        let began_ms = cluster.pace.now_ms();
        let at = cluster.oracle.now(&mut patience).await?;
        let mut left = Some(range).filter(|range| !range.is_empty());
        for _ in 0..RECLAIM_REGIONS {
            let Some(range) = left else { return Ok((Reclaimed::Fully, None)) };
            let from = range.start.clone();
            let read = RangeRead { range, direction: Direction::Forward, at, keys_only: true };
            let chunk = cluster.scan(&read, RECLAIM_KEYS, CHUNK_BYTES_MAX, &mut patience).await?;
            if !chunk.entries.is_empty() {
                let delete =
                    |(key, _)| Mutation { op: Op::Delete as i32, key, value: Bytes::new() };
                let deletes = chunk.entries.into_iter().map(delete).collect();
                let span = Span { start: at, began_ms, latest: at.later(GUARD_AGE_MS_MAX) };
                return match cluster.commit(span, deletes, &mut patience).await {
                    Ok(()) => Ok((Reclaimed::Partly, chunk.rest.map(|rest| rest.start))),
                    // The next step finds what this one left.
                    Err(TransactionError::Conflict | TransactionError::Exists) => {
                        Ok((Reclaimed::Partly, Some(from)))
                    }
                    Err(
                        TransactionError::Failed(error) | TransactionError::Undetermined(error),
                    ) => Err(error),
                };
            }
            left = chunk.rest;
        }
        Ok((Reclaimed::Partly, left.map(|rest| rest.start)))
    }

    /// Nothing done under the lock can panic halfway.
    fn reclaims(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Vec<u8>>> {
        self.reclaims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the locks of processes that died, some regions at a time; once through, it lets the
    /// cluster drop old versions (K-6.11, K-6.14). Locks come first: to drop versions under a lock
    /// would lose its transaction.
    pub(crate) async fn tend_some(&self) -> Result<Reclaimed, ClientError> {
        let cluster = &self.shared.cluster;
        let ours = KeyRange::prefix(b"L");
        let mut sweep = self.sweep.lock().await;
        let (mut from, began) = match sweep.take() {
            Some(sweep) => sweep,
            None => (ours.start, cluster.oracle.now(&mut cluster.patience()).await?),
        };
        for _ in 0..SWEEP_REGIONS {
            match cluster.sweep(&from, &ours.end, began.earlier(LOCKS_MS)).await? {
                Some(next) => from = next,
                None => {
                    if self.collect_garbage {
                        let keep = began.earlier(VERSIONS_MS);
                        cluster.driver.set_safe_point(keep, &mut cluster.patience()).await?;
                    }
                    return Ok(Reclaimed::Fully);
                }
            }
        }
        *sweep = Some((from, began));
        Ok(Reclaimed::Partly)
    }
}
