//! Scans over a network: the engine fetches a chunk of rows, then shows them one by one (K-3.3).

mod memory;

pub use memory::{ChunkMemory, Room};

use crate::Scan;

/// Rows of the first chunk, because the size of a row is not known yet: 32 entities are at most 32 MiB.
const FIRST_ROWS_MAX: usize = 32;

/// A chunk has at most this many times the rows of the previous chunk.
const GROWTH_MAX: usize = 4;

/// The largest row of a table: an entry of a change feed that holds an entity before and after.
const ROW_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A chunk may hold this many times the bytes expected from earlier rows, and at least
/// `CHUNK_BYTES_MIN`, so that slightly larger rows do not cost more chunks.
const BYTES_SLACK: usize = 2;
const CHUNK_BYTES_MIN: usize = 1024 * 1024;

/// How much an engine fetches from its store at once.
#[derive(Clone, Copy, Debug)]
pub struct ChunkLimits {
    /// Estimated from rows fetched earlier; exact where the store itself counts bytes.
    pub bytes_max: usize,
    pub rows_max: usize,
}

/// How much of a scan has been shown, and how many rows to fetch next (K-3.4).
#[derive(Debug)]
pub struct Progress {
    limits: ChunkLimits,
    rows_left: usize,
    bytes_left: usize,
    rows_expected: usize,
    /// The number of rows in the last chunk, and the size that rows are expected to have: the mean of
    /// the last chunk, but at least half of the previous estimate. A large row shrinks the next chunks,
    /// not all later ones.
    seen: Option<(usize, usize)>,
}

impl Progress {
    pub fn new(scan: &Scan, limits: ChunkLimits) -> Self {
        Self {
            limits,
            rows_left: scan.rows_max.max(1),
            bytes_left: scan.bytes_max.max(1),
            rows_expected: scan.rows_expected,
            seen: None,
        }
    }

    /// The number of rows to fetch next: one more than will be shown, to learn whether any are
    /// left.
    pub fn rows_wanted(&self) -> usize {
        let rows_left = self.rows_left.saturating_add(1);
        let Some((last_rows, row_bytes)) = self.seen else {
            return rows_left.min(self.rows_expected.saturating_add(1)).min(FIRST_ROWS_MAX);
        };
        let by_size = self.bytes_left.min(self.limits.bytes_max) / row_bytes + 1;
        let by_growth = last_rows.saturating_mul(GROWTH_MAX);
        rows_left.min(by_size).min(by_growth).clamp(1, self.limits.rows_max)
    }

    /// The memory to reserve for a chunk of `rows` rows from a store that does not count bytes. Earlier
    /// rows say little about the next ones, so it has room for some of the largest.
    pub fn bytes_of(&self, rows: usize) -> usize {
        let largest = rows.min(FIRST_ROWS_MAX).saturating_mul(ROW_BYTES_MAX);
        self.bytes_expected(rows).map_or(largest, |bytes| bytes.max(largest))
    }

    /// How many bytes to fetch from a store that counts them and ends a chunk with the row that reaches
    /// this number. Never zero: the row after the last one shown says whether any are left.
    pub fn bytes_wanted(&self, rows: usize) -> usize {
        let bytes_max = self.bytes_left.min(self.limits.bytes_max).max(1);
        self.bytes_expected(rows).map_or(bytes_max, |bytes| {
            bytes.saturating_mul(BYTES_SLACK).max(CHUNK_BYTES_MIN).min(bytes_max)
        })
    }

    /// The memory to reserve for a chunk of at most `rows` rows that ends with the row that reaches `bytes`
    /// bytes.
    pub fn room_of(rows: usize, bytes: usize) -> usize {
        bytes.saturating_add(ROW_BYTES_MAX).min(rows.saturating_mul(ROW_BYTES_MAX))
    }

    fn bytes_expected(&self, rows: usize) -> Option<usize> {
        self.seen.map(|(_, row_bytes)| rows.saturating_mul(row_bytes))
    }

    /// A chunk has arrived.
    pub fn note_chunk(&mut self, rows: usize, bytes: usize) {
        if rows > 0 {
            let mean = bytes.div_ceil(rows).max(1);
            self.seen = Some((rows, self.seen.map_or(mean, |(_, before)| mean.max(before / 2))));
        }
    }

    /// A row has been shown.
    pub fn note_shown(&mut self, bytes: usize) {
        self.rows_left = self.rows_left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }

    /// Whether the scan has reached its limit. It always shows at least one row.
    pub fn is_full(&self) -> bool {
        self.rows_left == 0 || self.bytes_left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, KeyRange};

    const LIMITS: ChunkLimits = ChunkLimits { bytes_max: 32 << 20, rows_max: 4096 };

    fn progress(rows_max: usize, bytes_max: usize, rows_expected: usize) -> Progress {
        let (range, direction) = (KeyRange::prefix(b"L"), Direction::Forward);
        Progress::new(&Scan { range, direction, rows_max, bytes_max, rows_expected }, LIMITS)
    }

    /// K-3.4
    #[test]
    fn first_chunk_asks_for_what_is_expected() {
        assert_eq!(progress(1000, usize::MAX, 1).rows_wanted(), 2);
        assert_eq!(progress(1000, usize::MAX, 0).rows_wanted(), 1);
        assert_eq!(progress(1000, usize::MAX, 1000).rows_wanted(), FIRST_ROWS_MAX);
        assert_eq!(progress(1, usize::MAX, 1000).rows_wanted(), 2);
    }

    /// K-3.4
    #[test]
    fn later_chunks_grow_up_to_the_bytes_that_are_left() {
        let mut small = progress(10_000, usize::MAX, 10_000);
        let mut sizes = Vec::new();
        for _ in 0..5 {
            let rows = small.rows_wanted();
            sizes.push(rows);
            (0..rows).for_each(|_| small.note_shown(100));
            small.note_chunk(rows, rows * 100);
        }
        assert_eq!(sizes, [32, 128, 512, 2048, 4096]);

        let mut large = progress(10_000, usize::MAX, 10_000);
        large.note_chunk(32, 32 << 20);
        assert!(large.rows_wanted() << 20 <= 40 << 20);
        let mut nearly_full = progress(10_000, 4_000, 10_000);
        (0..32).for_each(|_| nearly_full.note_shown(100));
        nearly_full.note_chunk(32, 3_200);
        assert_eq!(nearly_full.rows_wanted(), 9);
    }

    /// K-3.4: rows of 100 bytes say nothing about the rows that follow.
    #[test]
    fn small_rows_before_large_ones_leave_chunks_bounded() {
        let mut progress = progress(10_000, usize::MAX, 10_000);
        let rows = progress.rows_wanted();
        assert_eq!(progress.bytes_wanted(rows), LIMITS.bytes_max);
        progress.note_chunk(rows, rows * 100);

        let rows = progress.rows_wanted();
        assert_eq!((rows, progress.bytes_wanted(rows)), (128, CHUNK_BYTES_MIN));
        assert_eq!(progress.bytes_of(rows), FIRST_ROWS_MAX * ROW_BYTES_MAX);
        assert_eq!(Progress::room_of(rows, CHUNK_BYTES_MIN), CHUNK_BYTES_MIN + ROW_BYTES_MAX);

        // The largest chunk that the store may send now.
        progress.note_chunk(2, 2 << 20);
        let rows = progress.rows_wanted();
        let room = Progress::room_of(rows, progress.bytes_wanted(rows));
        assert!(rows == 8 && room <= 8 * ROW_BYTES_MAX, "{rows} rows, {room} bytes");
    }

    /// K-3.4: a row of 1 MiB at the beginning does not make every chunk after it tiny.
    #[test]
    fn chunks_grow_again_after_a_large_row() {
        let mut progress = progress(100_000, usize::MAX, 1);
        progress.note_chunk(1, 1 << 20);
        let mut chunks = 0;
        let mut left = 20_000_usize;
        while left > 0 {
            let rows = progress.rows_wanted().min(left);
            progress.note_chunk(rows, rows * 100);
            (left, chunks) = (left - rows, chunks + 1);
        }
        assert!(chunks < 25, "{chunks} chunks");
    }

    #[test]
    fn a_chunk_is_not_larger_than_what_the_scan_may_show() {
        let mut progress = progress(10_000, 4_000, 10_000);
        assert_eq!(progress.bytes_wanted(32), 4_000);
        progress.note_shown(4_000);
        progress.note_chunk(1, 4_000);
        assert_eq!((progress.rows_wanted(), progress.bytes_wanted(1)), (1, 1));
    }

    #[test]
    fn a_scan_shows_at_least_one_row() {
        let mut progress = progress(0, 0, 0);
        assert!(!progress.is_full());
        progress.note_shown(1);
        assert!(progress.is_full());
    }

    /// A chunk may be empty: a region without rows. It says nothing about sizes.
    #[test]
    fn an_empty_chunk_leaves_the_next_one_as_it_was() {
        let mut progress = progress(1000, usize::MAX, 5);
        progress.note_chunk(0, 0);
        assert_eq!((progress.rows_wanted(), progress.bytes_of(1)), (6, ROW_BYTES_MAX));
    }
}
