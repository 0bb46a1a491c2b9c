//! The engine's own upkeep: space of dropped ranges, abandoned locks, old versions.

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
/// Regions without keys that one step of a reclaim passes through.
const RECLAIM_REGIONS: usize = 256;
/// Ranges whose reclaim is in progress and remembered; a forgotten one starts over.
const RECLAIMS_MAX: usize = 64;
/// Regions that one step of tending searches for locks.
const SWEEP_REGIONS: usize = 64;
/// No transaction lives this long.
const LOCKS_MS: u64 = 60_000;
/// Versions replaced longer ago than this are dropped; twice the life of a kept view.
const VERSIONS_MS: u64 = 600_000;

impl TikvEngine {
    /// Deletes some keys of a range that is no longer used (K-6.12). It continues where the last step ended, so
    /// that each part is walked once, however many empty regions the deletions leave.
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

    /// No code under the lock can panic halfway.
    fn reclaims(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Vec<u8>>> {
        self.reclaims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the locks of dead processes, a few regions at a time; after a full pass, lets the
    /// cluster drop old versions (K-6.11, K-6.14). Locks come first: dropping versions under a lock
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
