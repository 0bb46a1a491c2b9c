//! Scans: chunks by key, sized by what the caller expects and by what rows turn out to weigh (K-3.4).

use crate::Store;
use crate::expected::revision;
use crate::fault::Fault;
use crate::session::Session;
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
        let limit = progress.rows_wanted();
        let wait_max = deadline.saturating_duration_since(Instant::now());
        let room = store.chunk_memory.take(progress.bytes_of(limit), wait_max).await?;
        let session = open.lease()?;
        let chunk = open.ask(fetch(session, &rest, scan.direction, limit, deadline)).await?;
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

struct Chunk {
    rows: Vec<Row>,
    /// Nothing of the range follows.
    is_last: bool,
}

impl Chunk {
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
    limit: usize,
    deadline: Instant,
) -> Result<Chunk, Fault> {
    let rows_max = i64::try_from(limit).unwrap_or(i64::MAX);
    let ((start, start_rest), (end, end_rest)) = (split(&range.start), split(&range.end));
    if start_rest.is_empty() && end_rest.is_empty() {
        let statement = match direction {
            Direction::Forward => Statement::ScanForward,
            Direction::Backward => Statement::ScanBackward,
        };
        let mut rows = session.query(statement, &[&start, &end, &rows_max], deadline).await?;
        let long = rows.iter().position(|row| !row.get::<_, &[u8]>(1).is_empty());
        match long {
            None => return Ok(Chunk { is_last: rows.len() < limit, rows }),
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
    let bounds: crate::session::Parameters<'_> = &[&start, &start_rest, &end, &end_rest, &rows_max];
    let rows = session.query(statement, bounds, deadline).await?;
    Ok(Chunk { is_last: rows.len() < limit, rows })
}

fn key_of(row: &Row) -> Cow<'_, [u8]> {
    match (row.get::<_, &[u8]>(0), row.get::<_, &[u8]>(1)) {
        (k, []) => Cow::Borrowed(k),
        (k, x) => Cow::Owned([k, x].concat()),
    }
}
