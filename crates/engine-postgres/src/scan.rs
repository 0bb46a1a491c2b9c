//! Scans: chunks by key, sized by what the caller expects and by what rows turn out to weigh (K-3.4).
//!
//! A statement passes over a bounded number of deleted entries. One that stops among them says where, and the
//! next one goes on from there (K-7.15).

use crate::Store;
use crate::expected::revision;
use crate::fault::Fault;
use crate::session::{Parameters, Session};
use crate::statement::Statement;
use crate::stored::split;
use crate::view::PostgresView;
use lazuli_engine::chunks::{ChunkLimits, Progress, Room};
use lazuli_engine::{Direction, EngineError, KeyRange, Scan, ScanEnd, Visit, Visitor};
use std::borrow::Cow;
use tokio::time::Instant;
use tokio_postgres::Row;

const LIMITS: ChunkLimits = ChunkLimits { bytes_max: 32 * 1024 * 1024, rows_max: usize::MAX };

pub(crate) async fn scan(
    view: &PostgresView,
    store: &Store,
    scan: Scan,
    visitor: &mut Visitor<'_>,
) -> Result<ScanEnd, EngineError> {
    let mut rest = scan.range.clone();
    if rest.is_empty() {
        return Ok(ScanEnd::Done);
    }
    let mut progress = Progress::new(&scan, LIMITS);
    loop {
        let (chunk, room) = next_chunk(view, store, &rest, scan.direction, &progress).await?;
        let room = room.keep(chunk.bytes());
        store.meter.fetched(chunk.rows.len());
        for row in &chunk.rows {
            let (key, value) = (key_of(row), row.get::<_, &[u8]>(3));
            if progress.is_full() {
                return Ok(ScanEnd::More(rest.starting_with(scan.direction, &key)));
            }
            if visitor(&key, value, revision(row.get(2))) == Visit::StopBefore {
                return Ok(ScanEnd::Stopped);
            }
            progress.note_shown(key.len() + value.len());
        }
        drop(room);
        progress.note_chunk(chunk.rows.len(), chunk.bytes());
        match chunk.last {
            Some(last) => rest = rest.after(scan.direction, &last),
            None => return Ok(ScanEnd::Done),
        }
    }
}

/// What follows, in its memory. Each chunk has a deadline of its own.
async fn next_chunk(
    view: &PostgresView,
    store: &Store,
    range: &KeyRange,
    direction: Direction,
    progress: &Progress,
) -> Result<(Chunk, Room), EngineError> {
    let rows = progress.rows_wanted();
    let size = Size { rows, bytes: progress.bytes_wanted(rows) };
    let patience = store.patience();
    let deadline = patience.deadline();
    loop {
        let (open, until) = view.open(patience).await?;
        let wait_max = deadline.saturating_duration_since(Instant::now());
        let room = Progress::room_of(size.rows, size.bytes);
        let room = store.chunk_memory.take(room, wait_max).await?;
        let chunk = fetch(open.lease()?, range, direction, size, until);
        if let Some(chunk) = view.ask(&open, chunk, deadline).await? {
            return Ok((chunk, room));
        }
    }
}

/// How much to fetch at most: a number of rows, and no row after the one that reaches the byte limit.
#[derive(Clone, Copy)]
struct Size {
    rows: usize,
    bytes: usize,
}

struct Chunk {
    rows: Vec<Row>,
    /// The last key that was looked at, if anything of the range may follow. It may be a deleted one.
    last: Option<Vec<u8>>,
}

impl Chunk {
    fn new(mut rows: Vec<Row>, size: Size) -> Self {
        let is_full = rows.len() >= size.rows || bytes_of(&rows) >= size.bytes;
        let goes_on = |row: &&Row| is_full || row.get(4);
        let last = rows.last().filter(goes_on).map(|row| key_of(row).into_owned());
        rows.pop_if(|row| value_of(row).is_none());
        Self { rows, last }
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.rows)
    }
}

/// The next rows of a range. Keys that are longer than the index come in order from a slower statement.
async fn fetch(
    session: &Session,
    range: &KeyRange,
    direction: Direction,
    size: Size,
    deadline: Instant,
) -> Result<Chunk, Fault> {
    let rows_max = i64::try_from(size.rows).unwrap_or(i64::MAX);
    let bytes_max = i64::try_from(size.bytes).unwrap_or(i64::MAX);
    let ((start, start_rest), (end, end_rest)) = (split(&range.start), split(&range.end));
    if start_rest.is_empty() && end_rest.is_empty() {
        let statement = match direction {
            Direction::Forward => Statement::ScanForward,
            Direction::Backward => Statement::ScanBackward,
        };
        let bounds: Parameters<'_> = &[&start, &end, &rows_max, &bytes_max];
        let mut rows = session.query(statement, bounds, deadline).await?;
        let long = rows.iter().position(|row| !row.get::<_, &[u8]>(1).is_empty());
        match long {
            None => return Ok(Chunk::new(rows, size)),
            Some(0) => {}
            Some(first) => {
                rows.truncate(first);
                let last = rows.last().map(|row| key_of(row).into_owned());
                return Ok(Chunk { rows, last });
            }
        }
    }
    let statement = match direction {
        Direction::Forward => Statement::LongScanForward,
        Direction::Backward => Statement::LongScanBackward,
    };
    let bounds: Parameters<'_> = &[&start, &start_rest, &end, &end_rest, &rows_max, &bytes_max];
    let rows = session.query(statement, bounds, deadline).await?;
    Ok(Chunk::new(rows, size))
}

fn bytes_of(rows: &[Row]) -> usize {
    let bytes = |row: &Row| row.get::<_, &[u8]>(0).len() + value_of(row).unwrap_or_default().len();
    rows.iter().map(bytes).sum()
}

/// Nothing if the entry is deleted.
fn value_of(row: &Row) -> Option<&[u8]> {
    row.get(3)
}

fn key_of(row: &Row) -> Cow<'_, [u8]> {
    match (row.get::<_, &[u8]>(0), row.get::<_, &[u8]>(1)) {
        (k, []) => Cow::Borrowed(k),
        (k, x) => Cow::Owned([k, x].concat()),
    }
}
