//! Copies everything from one engine to another, and compares the two (K-12, O-12.5, O-12.6).
//!
//! Keys are copied in order, so that the last key written shows how far a copy got, and an interrupted copy
//! continues there. Every write puts a whole value: repeating it does no harm. Revisions belong to the engine
//! that assigns them, so timestamps and etags of the target are its own.
//!
//! Derived data is copied as it is, except the moments at which entities expire some time after their last
//! write: those depend on the timestamps. So the record of each expiry is copied with an order to rebuild its
//! moments, which the target's server carries out when it starts.

use crate::scan::key_range;
use lazuli_engine::retry::{Attempt, Budget, GiveWay, Pace, retry};
use lazuli_engine::{
    Commit, CommitError, Direction, Engine, EngineError, Key, Revision, Scan, ScanEnd, View, Visit,
    Write,
};
use lazuli_layout::key;
use lazuli_layout::key::expiry::{decode_record, records};
use lazuli_layout::settings::{BuildRecord, ExpiryRecord};
use lazuli_model::Clock;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum entries and bytes copied in one commit, if the target accepts that many.
const ROWS_MAX: usize = 1024;
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a commit is repeated whose errors are not its own fault: long enough for a store that fails over.
const PATIENCE: Budget = Budget { attempts_max: 32, ms_max: 60_000, pause_ms_max: 1_000 };
/// Keys of differences that are kept.
const DIFFERENCES_KEPT: usize = 10;

/// Why a copy ended early.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("read the source")]
    Source(#[source] EngineError),
    #[error("read the target")]
    Target(#[source] EngineError),
    #[error("write to the target")]
    Write(#[source] CommitError),
}

/// How far a copy got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The first key that is not yet copied.
    pub next: Vec<u8>,
    pub entries: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Snapshots of the source that were read: if only one, the copy is one state of the source.
    pub views: u64,
}

impl Default for Progress {
    fn default() -> Self {
        Self { next: key::all().start, entries: 0, bytes: 0, views: 0 }
    }
}

/// A copy in progress.
pub struct Transfer {
    from: Arc<dyn Engine>,
    to: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    pace: Arc<dyn Pace>,
    view: Option<Arc<dyn View>>,
    pub progress: Progress,
}

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    More,
    Done,
}

impl Transfer {
    /// A copy that begins or continues at `progress`. A target without its own clock stamps what it stores by
    /// `clock`.
    pub fn new(
        from: Arc<dyn Engine>,
        to: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        progress: Progress,
    ) -> Self {
        Self { from, to, clock, pace: Arc::new(GiveWay), view: None, progress }
    }

    /// The same copy, waiting with `pace` before it retries a commit.
    pub fn with_pace(self, pace: Arc<dyn Pace>) -> Self {
        Self { pace, ..self }
    }

    /// Copies some entries.
    pub async fn step(&mut self) -> Result<Step, TransferError> {
        let range = self.progress.next.clone()..key::all().end;
        let view = self.view().await?;
        let (rows, rest) = match read(&*view, range, self.rows_max(), self.bytes_max()).await {
            // A source with other writers keeps a snapshot only for a while.
            Err(EngineError::Expired) => {
                self.view = None;
                return Ok(Step::More);
            }
            read => read.map_err(TransferError::Source)?,
        };
        let Some(last) = rows.last().map(|row| row.key.clone()) else { return Ok(Step::Done) };
        let rows: Vec<Row> =
            rows.into_iter().filter(|row| !key::is_of_gateways(&row.key)).collect();
        self.write(&rows).await?;
        self.progress.entries += rows.len() as u64;
        self.progress.bytes += rows.iter().map(Row::bytes).sum::<u64>();
        self.progress.next = [&last[..], &[0]].concat();
        Ok(if rest { Step::More } else { Step::Done })
    }

    async fn view(&mut self) -> Result<Arc<dyn View>, TransferError> {
        if let Some(view) = &self.view {
            return Ok(view.clone());
        }
        let view = self.from.view().await.map_err(TransferError::Source)?;
        self.progress.views += 1;
        Ok(self.view.insert(view).clone())
    }

    async fn write(&self, rows: &[Row]) -> Result<(), TransferError> {
        if rows.is_empty() {
            return Ok(());
        }
        let rebuilt: Vec<Row> = rows.iter().filter_map(rebuilding).collect();
        let is_copied = |row: &&Row| !rebuilt.iter().any(|other| other.key == row.key);
        let put = |row: &Row| Write::Put(Key::from(row.key.clone()), row.value.clone().into());
        let commit = || {
            let not_before = Revision(self.clock.now().ticks());
            let writes = rows.iter().filter(is_copied).chain(&rebuilt).map(put).collect();
            self.to.commit(Commit::new(not_before, writes))
        };
        let written = retry(&*self.pace, PATIENCE, || async {
            match commit().await {
                // Repeating it does no harm.
                Err(CommitError::Conflict | CommitError::Busy | CommitError::Undetermined(_)) => {
                    Attempt::Again
                }
                written => Attempt::Done(written),
            }
        });
        let written = match written.await {
            Some(written) => written,
            None => commit().await,
        };
        written.map(drop).map_err(TransferError::Write)
    }

    fn rows_max(&self) -> usize {
        // Each entry may be the record of an expiry, which adds a second write.
        (self.to.limits().commit_writes_max / 2).clamp(1, ROWS_MAX)
    }

    fn bytes_max(&self) -> usize {
        self.to.limits().commit_bytes_max.min(BYTES_MAX)
    }
}

/// The record that makes the target rebuild the moments of an expiry, if `row` is the record of one. A record
/// that cannot be read is copied as it is.
fn rebuilding(row: &Row) -> Option<Row> {
    let id = decode_record(&row.key).ok()?;
    let ExpiryRecord { account, table } = ExpiryRecord::decode(&row.value).ok()?;
    Some(Row { key: id.build(), value: BuildRecord::new(account, table).encode() })
}

/// The keys of the records that rebuild moments, in both engines.
async fn rebuilds(engine: &dyn Engine) -> Result<BTreeSet<Vec<u8>>, EngineError> {
    let view = engine.view().await?;
    let all = records();
    let mut keys = BTreeSet::new();
    let mut next = Some(all.start);
    while let Some(from) = next.take() {
        let (rows, rest) = read(&*view, from..all.end.clone(), ROWS_MAX, BYTES_MAX).await?;
        next = rows.last().filter(|_| rest).map(|last| [&last.key[..], &[0]].concat());
        keys.extend(rows.iter().filter_map(rebuilding).map(|row| row.key));
    }
    Ok(keys)
}

/// Whether an engine holds nothing except what engines and gateways keep for themselves.
pub async fn is_empty(engine: &dyn Engine) -> Result<bool, EngineError> {
    let view = engine.view().await?;
    let mut next = key::all().start;
    loop {
        let (rows, rest) = read(&*view, next..key::all().end, ROWS_MAX, BYTES_MAX).await?;
        if rows.iter().any(|row| !key::is_of_gateways(&row.key)) {
            return Ok(false);
        }
        match rows.last() {
            Some(last) if rest => next = [&last.key[..], &[0]].concat(),
            _ => return Ok(true),
        }
    }
}

/// What two engines have in common, and how they differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Entries that are the same in both.
    pub same: u64,
    pub missing: u64,
    pub changed: u64,
    /// Entries that only the target has.
    pub extra: u64,
    /// The sum of the hashes of all entries of the source, and of the target.
    pub sums: (u128, u128),
    /// The keys of the first differences.
    pub first: Vec<Vec<u8>>,
}

impl Comparison {
    pub fn differences(&self) -> u64 {
        self.missing + self.changed + self.extra
    }

    fn differs(&mut self, key: &[u8]) {
        if self.first.len() < DIFFERENCES_KEPT {
            self.first.push(key.to_vec());
        }
    }
}

/// Compares two engines entry by entry, in one pass over both. `watch` is called between chunks with the
/// number of entries seen.
pub async fn compare(
    from: &dyn Engine,
    to: &dyn Engine,
    hash: fn(&[u8], &[u8]) -> u128,
    mut watch: impl FnMut(u64),
) -> Result<Comparison, TransferError> {
    // Progress of building moments differs between the engines.
    let apart = rebuilds(from).await.map_err(TransferError::Source)?;
    let mut source = Cursor::new(from, &apart);
    let mut target = Cursor::new(to, &apart);
    let mut found = Comparison::default();
    loop {
        if source.fill().await.map_err(TransferError::Source)?
            | target.fill().await.map_err(TransferError::Target)?
        {
            watch(found.same + found.differences());
        }
        let order = match (source.rows.front(), target.rows.front()) {
            (None, None) => return Ok(found),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(one), Some(other)) => one.key.cmp(&other.key),
        };
        let one = if order.is_le() { source.rows.pop_front() } else { None };
        let other = if order.is_ge() { target.rows.pop_front() } else { None };
        let add = |sum: &mut u128, row: &Row| *sum = sum.wrapping_add(hash(&row.key, &row.value));
        one.iter().for_each(|row| add(&mut found.sums.0, row));
        other.iter().for_each(|row| add(&mut found.sums.1, row));
        match (one, other) {
            (Some(one), Some(other)) if one.value == other.value => found.same += 1,
            (Some(one), Some(_)) => {
                found.changed += 1;
                found.differs(&one.key);
            }
            (Some(one), None) => {
                found.missing += 1;
                found.differs(&one.key);
            }
            (None, Some(other)) => {
                found.extra += 1;
                found.differs(&other.key);
            }
            (None, None) => {}
        }
    }
}

/// A stored entry.
struct Row {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Row {
    fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// A walk through an engine, a chunk at a time.
struct Cursor<'e> {
    engine: &'e dyn Engine,
    /// Keys that are skipped.
    apart: &'e BTreeSet<Vec<u8>>,
    view: Option<Arc<dyn View>>,
    rows: VecDeque<Row>,
    next: Option<Vec<u8>>,
}

impl<'e> Cursor<'e> {
    fn new(engine: &'e dyn Engine, apart: &'e BTreeSet<Vec<u8>>) -> Self {
        Self { engine, apart, view: None, rows: VecDeque::new(), next: Some(key::all().start) }
    }

    /// Fetches a chunk if there is none; returns whether it did.
    async fn fill(&mut self) -> Result<bool, EngineError> {
        let mut fetched = false;
        while self.rows.is_empty() {
            let Some(next) = self.next.take() else { break };
            let view = match &self.view {
                Some(view) => view.clone(),
                None => self.view.insert(self.engine.view().await?).clone(),
            };
            match read(&*view, next.clone()..key::all().end, ROWS_MAX, BYTES_MAX).await {
                Err(EngineError::Expired) => {
                    self.view = None;
                    self.next = Some(next);
                }
                read => {
                    let (rows, rest) = read?;
                    self.next =
                        rows.last().filter(|_| rest).map(|last| [&last.key[..], &[0]].concat());
                    let is_compared = |row: &Row| {
                        !key::is_of_gateways(&row.key) && !self.apart.contains(&row.key)
                    };
                    self.rows.extend(rows.into_iter().filter(is_compared));
                    fetched = true;
                }
            }
        }
        Ok(fetched)
    }
}

/// The first entries of a range, and whether there are more.
async fn read(
    view: &dyn View,
    range: std::ops::Range<Vec<u8>>,
    rows_max: usize,
    bytes_max: usize,
) -> Result<(Vec<Row>, bool), EngineError> {
    let scan = Scan {
        range: key_range(range),
        direction: Direction::Forward,
        rows_max,
        bytes_max,
        rows_expected: rows_max,
    };
    let mut rows = Vec::new();
    let mut visit = |key: &[u8], value: &[u8], _| {
        rows.push(Row { key: key.to_vec(), value: value.to_vec() });
        Visit::Continue
    };
    let end = view.scan(scan, &mut visit).await?;
    Ok((rows, matches!(end, ScanEnd::More(_))))
}
