//! A snapshot: reads as of one timestamp, and scans in chunks.

use crate::engine::Shared;
use crate::patience::{ClientError, Patience};
use crate::read::{CHUNK_BYTES_MAX, Chunk, RangeRead};
use crate::timestamp::Timestamp;
use crate::value;
use lazuli_engine::chunks::{ChunkLimits, Progress, Room};
use lazuli_engine::meter::TimedCall;
use lazuli_engine::{
    BoxFuture, Direction, EngineError, Found, Key, KeyRange, Scan, ScanEnd, View, Visit, Visitor,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OnceCell, oneshot};
use tokio::time::timeout;

const LIMITS: ChunkLimits = ChunkLimits { bytes_max: 4 * 1024 * 1024, rows_max: 4096 };

/// Minimum memory for a chunk, however small its rows are expected to be: room for an entry of a
/// change feed with both images.
const ROOM_BYTES_MIN: usize = 2 * 1024 * 1024 + 64 * 1024;

pub(crate) struct TikvView {
    shared: Arc<Shared>,
    opened_ms: u64,
    life_ms: u64,
    /// Fetched with the first read. A later snapshot sees all that an earlier one does.
    at: OnceCell<Timestamp>,
    /// Resolves when the latest read of keys is answered. No later read or scan is answered before
    /// that: otherwise a caller that verifies a read by a key read in parallel (K-4.3) would have to
    /// read again.
    last_find: Mutex<Option<oneshot::Receiver<()>>>,
}

impl TikvView {
    /// The view may be used for `life_ms`.
    pub(crate) fn new(shared: Arc<Shared>, life_ms: u64) -> Self {
        let opened_ms = shared.cluster.pace.now_ms();
        Self { shared, opened_ms, life_ms, at: OnceCell::new(), last_find: Mutex::default() }
    }

    async fn at(&self, patience: &mut Patience) -> Result<Timestamp, EngineError> {
        let age = self.shared.cluster.pace.now_ms().saturating_sub(self.opened_ms);
        if age > self.life_ms {
            return Err(EngineError::Expired);
        }
        let fetched = self.at.get_or_try_init(|| self.shared.cluster.oracle.now(patience));
        Ok(*fetched.await?)
    }

    async fn find(&self, keys: &[Key]) -> Result<Vec<Option<Found>>, EngineError> {
        // Dropped at the end, however this returns.
        let (_answered, next) = oneshot::channel();
        let earlier = self.last_find().replace(next);
        let mut patience = self.shared.cluster.patience();
        let at = self.at(&mut patience).await?;
        let found = self.shared.find_in_order(keys, at, &mut patience).await;
        answered(earlier, &patience).await;
        found
    }

    /// No code under the lock can panic halfway.
    fn last_find(&self) -> MutexGuard<'_, Option<oneshot::Receiver<()>>> {
        self.last_find.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn scan_chunks(
        &self,
        scan: Scan,
        visitor: &mut Visitor<'_>,
    ) -> Result<ScanEnd, EngineError> {
        if scan.range.is_empty() {
            return Ok(ScanEnd::Done);
        }
        let mut earlier = self.last_find().take();
        let mut progress = Progress::new(&scan, LIMITS);
        let mut left = Some(scan.range);
        while let Some(range) = left {
            // One for each chunk. The view may have expired since the last.
            let mut patience = self.shared.cluster.patience();
            let at = self.at(&mut patience).await?;
            let read = RangeRead { range, direction: scan.direction, at, keys_only: false };
            let (chunk, room) = self.fetch(&read, &progress, &mut patience).await?;
            let bytes = chunk.entries.iter().map(|(key, stored)| key.len() + stored.len()).sum();
            progress.note_chunk(chunk.entries.len(), bytes);
            let _room = room.keep(bytes);
            self.shared.meter.fetched(chunk.entries.len());
            answered(earlier.take(), &patience).await;
            for (key, stored) in &chunk.entries {
                if progress.is_full() {
                    return Ok(ScanEnd::More(read.range.starting_with(scan.direction, key)));
                }
                let found = value::load(stored)?;
                if visitor(key, &found.value, found.revision) == Visit::StopBefore {
                    return Ok(ScanEnd::Stopped);
                }
                progress.note_shown(key.len() + found.value.len());
            }
            left = chunk.rest;
            if let Some(rest) = left.take_if(|_| progress.is_full()) {
                // A limit was reached, but perhaps nothing is left.
                return self.end_of(rest, scan.direction, at).await;
            }
        }
        Ok(ScanEnd::Done)
    }

    /// The next chunk, and the memory reserved for it. The answer is never longer than that memory: if
    /// it would be, asks for half as many rows, down to a single row with room for the largest.
    async fn fetch(
        &self,
        read: &RangeRead,
        progress: &Progress,
        patience: &mut Patience,
    ) -> Result<(Chunk, Room), EngineError> {
        let mut asked = Asked::new(progress);
        loop {
            let room = self.shared.chunks.take(asked.bytes, patience.time_left()).await?;
            match self.shared.cluster.scan(read, asked.rows, asked.bytes, patience).await {
                Err(ClientError::TooLong(reason)) => match asked.less() {
                    Some(less) => asked = less,
                    // The server may be short of memory.
                    None => patience.pause(reason).await?,
                },
                chunk => return Ok((chunk?, room)),
            }
        }
    }

    /// How a full scan ends: `Done` only if nothing is left.
    async fn end_of(
        &self,
        rest: KeyRange,
        direction: Direction,
        at: Timestamp,
    ) -> Result<ScanEnd, EngineError> {
        let mut patience = self.shared.cluster.patience();
        let mut left = Some(rest);
        while let Some(range) = left {
            let read = RangeRead { range, direction, at, keys_only: true };
            let chunk = self.shared.cluster.scan(&read, 1, CHUNK_BYTES_MAX, &mut patience).await?;
            if let Some((key, _)) = chunk.entries.first() {
                return Ok(ScanEnd::More(read.range.starting_with(direction, key)));
            }
            left = chunk.rest;
        }
        Ok(ScanEnd::Done)
    }
}

/// What one request of a scan asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    rows: usize,
    /// The longest answer, in bytes.
    bytes: usize,
}

impl Asked {
    fn new(progress: &Progress) -> Self {
        let rows = progress.rows_wanted();
        // Rows may be larger than earlier ones, and each has overhead in the message.
        let bytes = progress.bytes_of(rows).saturating_mul(2);
        Self { rows, bytes: bytes.clamp(ROOM_BYTES_MIN, CHUNK_BYTES_MAX) }
    }

    /// What to ask for after an answer that was too long.
    fn less(self) -> Option<Self> {
        match self {
            Self { rows: 0 | 1, bytes } if bytes >= CHUNK_BYTES_MAX => None,
            Self { rows: 0 | 1, .. } => Some(Self { rows: 1, bytes: CHUNK_BYTES_MAX }),
            Self { rows, bytes } => Some(Self { rows: rows / 2, bytes }),
        }
    }
}

/// Waits until an earlier read of keys is answered or given up, but not forever: its caller may have
/// stopped polling it.
async fn answered(earlier: Option<oneshot::Receiver<()>>, patience: &Patience) {
    if let Some(earlier) = earlier {
        let _ = timeout(patience.time_left(), earlier).await;
    }
}

impl View for TikvView {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        Box::pin(async move {
            let key = [Key::from(key.to_vec())];
            let found = self.shared.meter.timed(TimedCall::Get, self.find(&key)).await?;
            Ok(found.into_iter().next().flatten())
        })
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(self.shared.meter.timed(TimedCall::Get, self.find(keys)))
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(self.shared.meter.timed(TimedCall::Scan, self.scan_chunks(scan, visitor)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        let range = KeyRange::prefix(b"L");
        let scan = Scan {
            range,
            direction: Direction::Forward,
            rows_max: 1000,
            bytes_max: usize::MAX,
            rows_expected: 1000,
        };
        Progress::new(&scan, LIMITS)
    }

    /// K-3.10
    #[test]
    fn answer_of_a_scan_has_a_bound_whatever_rows_came_before() {
        let first = Asked::new(&progress());
        assert_eq!(first, Asked { rows: 32, bytes: CHUNK_BYTES_MAX });
        let mut small = progress();
        small.note_chunk(32, 3_200);
        assert_eq!(Asked::new(&small), Asked { rows: 128, bytes: CHUNK_BYTES_MAX });
    }

    /// K-3.4
    #[test]
    fn less_is_asked_for_until_one_row_has_all_the_room() {
        let asked = Asked { rows: 128, bytes: ROOM_BYTES_MIN };
        let all: Vec<Asked> = std::iter::successors(Some(asked), |asked| asked.less()).collect();
        let rows: Vec<usize> = all.iter().map(|asked| asked.rows).collect();
        assert_eq!(rows, [128, 64, 32, 16, 8, 4, 2, 1, 1]);
        assert_eq!(all.last().map(|asked| asked.bytes), Some(CHUNK_BYTES_MAX));
        assert_eq!(all.last().and_then(|asked| asked.less()), None);
    }
}
