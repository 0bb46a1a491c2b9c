//! Scans: chunks by key, sized by what the caller expects and by what rows turn out to weigh (K-3.4).

use crate::Store;
use crate::expected::revision;
use crate::fault::Fault;
use crate::session::{Parameters, Session};
use crate::statement::Statement;
use crate::stored::split;
use crate::view::PostgresView;
use lazuli_engine::chunks::{ChunkLimits, Progress};
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
        let deadline = store.deadline();
        let open = view.open(deadline).await?;
        let rows = progress.rows_wanted();
        let size = Size { rows, bytes: progress.bytes_wanted(rows) };
        let wait_max = deadline.saturating_duration_since(Instant::now());
        let room = Progress::room_of(size.rows, size.bytes);
        let room = store.chunk_memory.take(room, wait_max).await?;
        let session = open.lease()?;
        let chunk = open.ask(fetch(session, &rest, scan.direction, size, deadline)).await?;
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
        match chunk.rows.last() {
            Some(last) if !chunk.is_last => rest = rest.after(scan.direction, &key_of(last)),
            _ => return Ok(ScanEnd::Done),
        }
        progress.note_chunk(chunk.rows.len(), chunk.bytes());
    }
}

/// How much to fetch at most: so many rows, and none after the one that reaches so many bytes.
#[derive(Clone, Copy)]
struct Size {
    rows: usize,
    bytes: usize,
}

struct Chunk {
    rows: Vec<Row>,
    /// Nothing of the range follows.
    is_last: bool,
}

impl Chunk {
    fn new(rows: Vec<Row>, size: Size) -> Self {
        let chunk = Self { rows, is_last: false };
        let is_last = chunk.rows.len() < size.rows && chunk.bytes() < size.bytes;
        Self { is_last, ..chunk }
    }

    fn bytes(&self) -> usize {
        let bytes = |row: &Row| row.get::<_, &[u8]>(0).len() + row.get::<_, &[u8]>(3).len();
        self.rows.iter().map(bytes).sum()
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
                return Ok(Chunk { rows, is_last: false });
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

fn key_of(row: &Row) -> Cow<'_, [u8]> {
    match (row.get::<_, &[u8]>(0), row.get::<_, &[u8]>(1)) {
        (k, []) => Cow::Borrowed(k),
        (k, x) => Cow::Owned([k, x].concat()),
    }
}
