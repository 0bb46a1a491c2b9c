//! The engine's own upkeep: space of dropped ranges, forgotten locks, old versions.

use crate::engine::TikvEngine;
use crate::patience::ClientError;
use crate::proto::kv::{Mutation, Op};
use crate::read::{CHUNK_BYTES_MAX, RangeRead};
use crate::transaction::TransactionError;
use bytes::Bytes;
use lazuli_engine::{Direction, GUARD_AGE_MS_MAX, KeyRange, Reclaimed};

/// Keys deleted by one step of a reclaim.
const RECLAIM_KEYS: usize = 1024;
/// Regions whose locks one step of tending looks for.
const SWEEP_REGIONS: usize = 64;
/// No transaction lives this long.
const LOCKS_MS: u64 = 60_000;
/// Versions that were replaced longer ago are dropped: twice as long as a view that is kept lives.
const VERSIONS_MS: u64 = 600_000;

impl TikvEngine {
    /// Deletes some keys of a range that nobody uses any more.
    pub(crate) async fn reclaim_some(&self, range: KeyRange) -> Result<Reclaimed, ClientError> {
        let cluster = &self.shared.cluster;
        let mut patience = cluster.patience();
        let at = cluster.oracle.now(&mut patience).await?;
        let mut left = Some(range).filter(|range| !range.is_empty());
        while let Some(range) = left {
            let read = RangeRead { range, direction: Direction::Forward, at, keys_only: true };
            let chunk = cluster.scan(&read, RECLAIM_KEYS, CHUNK_BYTES_MAX, &mut patience).await?;
            if !chunk.entries.is_empty() {
                let delete =
                    |(key, _)| Mutation { op: Op::Delete as i32, key, value: Bytes::new() };
                let deletes = chunk.entries.into_iter().map(delete).collect();
                let latest = at.later(GUARD_AGE_MS_MAX);
                return match cluster.commit((at, latest), deletes, &mut patience).await {
                    // A later step finds what this one left.
                    Ok(()) | Err(TransactionError::Conflict | TransactionError::Exists) => {
                        Ok(Reclaimed::Partly)
                    }
                    Err(
                        TransactionError::Failed(error) | TransactionError::Undetermined(error),
                    ) => Err(error),
                };
            }
            left = chunk.rest;
        }
        Ok(Reclaimed::Fully)
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
