//! A page of a query being filled: which entities it takes, and where it ends.

use crate::error::TableError;
use crate::expiry::Judge;
use crate::explain::PlanReport;
use crate::index::IndexUse;
use crate::plan::PlanKind;
use crate::query::{Continuation, EntityQuery, EntityRef, QueryEnd};
use crate::scan::{FILTERED_ROWS_EXPECTED, Gather, Timer, rows_missing};
use crate::service::timestamp;
use lazuli_engine::retry::give_way;
use lazuli_engine::{Key, Revision, View, Visit, Writers};
use lazuli_layout::key::StoredEntityKey;
use lazuli_layout::{CorruptRecord, EntityRecord, key};
use lazuli_model::limits::{PAGE_BYTES_MAX, PAGE_ITEMS_MAX};
use lazuli_model::{Clock, Filter, Row, Timestamp, ValueRef};
use std::cell::OnceCell;
use std::sync::OnceLock;

/// Entities fetched by key at once, at most, and between two looks at the clock.
pub(crate) const FETCH_ROWS_MAX: usize = 32;

/// Entities fetched at once from a store in this process, where one at a time costs no more. With a page
/// they fit into what each query has of the memory for responses.
const NEAR_ROWS: usize = 2;
/// The same over a network, as long as no size is known.
const FIRST_FAR_ROWS: usize = 8;
/// Bytes fetched at once over a network, by the largest entity that the page has met.
const FAR_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How many entities a page fetches by key at once: it holds them beside what it has taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchSize {
    is_near: bool,
    /// The bytes of the largest entity met.
    largest: usize,
}

impl FetchSize {
    pub(crate) fn of(writers: Writers) -> Self {
        Self { is_near: writers == Writers::Sole, largest: 0 }
    }

    fn rows(self) -> usize {
        match (self.is_near, FAR_BYTES_MAX.checked_div(self.largest)) {
            (true, _) => NEAR_ROWS,
            (false, None) => FIRST_FAR_ROWS,
            (false, Some(rows)) => rows.clamp(NEAR_ROWS, FETCH_ROWS_MAX),
        }
    }
}

/// Reads entities by their keys, a few at a time.
pub(crate) async fn fetch(
    view: &dyn View,
    mut keys: &[Key],
    page: &mut Page<'_>,
) -> Result<(), TableError> {
    let mut rows_since_pause = 0;
    while !keys.is_empty() {
        let (now, rest) = keys.split_at(page.fetch_size.rows().min(keys.len()));
        let found = view.multi_get(now).await?;
        for (key, found) in now.iter().zip(found) {
            let Some(found) = found else { continue };
            if page.take(key.as_slice(), &found.value, found.revision)? == Visit::StopBefore {
                return Ok(());
            }
        }
        keys = rest;
        rows_since_pause += now.len();
        if rows_since_pause >= FETCH_ROWS_MAX && !keys.is_empty() {
            rows_since_pause = 0;
            page.pause();
            give_way().await;
        }
    }
    Ok(())
}

/// A page being filled.
pub(crate) struct Page<'q> {
    /// The conditions that an entity must satisfy.
    conditions: Vec<&'q Filter>,
    pub(crate) top: u64,
    reverse: bool,
    count_only: bool,
    rows_read_max: u64,
    pub(crate) timer: Timer<'q>,
    sink: &'q mut (dyn FnMut(EntityRef<'_>) + Send),
    rows_read: u64,
    pub(crate) rows_returned: u64,
    /// Entities rejected before the first that was taken.
    rows_skipped: u64,
    bytes: usize,
    /// Bytes of all entities examined.
    bytes_read: u64,
    pub(crate) next: Option<Continuation>,
    /// Whether the table exists, once that is known; `None` if it is certain.
    lives: Option<&'q OnceLock<bool>>,
    is_early: bool,
    /// Judges which entities are expired.
    judge: Option<Judge<'q>>,
    fetch_size: FetchSize,
}

impl<'q> Page<'q> {
    pub(crate) fn new(
        query: &EntityQuery,
        conditions: Vec<&'q Filter>,
        clock: &'q dyn Clock,
        sink: &'q mut (dyn FnMut(EntityRef<'_>) + Send),
        lives: Option<&'q OnceLock<bool>>,
    ) -> Self {
        Self {
            conditions,
            top: match query.count_only {
                true => u64::MAX,
                false => query.top.min(PAGE_ITEMS_MAX) as u64,
            },
            reverse: query.reverse,
            count_only: query.count_only,
            rows_read_max: query.rows_read_max,
            timer: Timer::of_ms(clock, query.ms_max),
            sink,
            rows_read: 0,
            rows_returned: 0,
            rows_skipped: 0,
            bytes: 0,
            bytes_read: 0,
            next: None,
            lives,
            is_early: false,
            judge: None,
            fetch_size: FetchSize::of(Writers::Sole),
        }
    }

    /// The same page, without expired entities.
    pub(crate) fn judging(self, judge: Option<Judge<'q>>) -> Self {
        Self { judge, ..self }
    }

    /// The same page of a store with these writers: one with many is reached over a network.
    pub(crate) fn of_store(self, writers: Writers) -> Self {
        Self { fetch_size: FetchSize::of(writers), ..self }
    }

    /// Whether an entity came before `lives` was known, so that the page took none.
    pub(crate) fn is_early(&self) -> bool {
        self.is_early
    }

    fn is_full(&self) -> bool {
        self.timer.is_over()
            || self.rows_returned >= self.top
            || self.rows_read >= self.rows_read_max
            || self.bytes >= PAGE_BYTES_MAX
    }

    pub(crate) fn end(
        self,
        plan: PlanKind,
        index: Option<IndexUse>,
        report: Option<Box<PlanReport>>,
    ) -> QueryEnd {
        QueryEnd {
            report: report.map(|report| {
                let micros = self.timer.elapsed_micros();
                let kind = if index.is_some() { PlanKind::Index } else { report.kind };
                let index = index.clone();
                Box::new(PlanReport { kind, index, bytes: self.bytes_read, micros, ..*report })
            }),
            next: self.next,
            plan: if index.is_some() { PlanKind::Index } else { plan },
            index,
            rows_read: self.rows_read,
            rows_returned: self.rows_returned,
            rows_skipped: self.rows_skipped,
        }
    }
}

impl Gather for Page<'_> {
    /// Takes one entity, or ends the page before it.
    ///
    /// A page is full only once an entity no longer fits: a page that ends exactly with the query
    /// has no continuation (T-4.62).
    fn take(
        &mut self,
        key: &[u8],
        value: &[u8],
        revision: Revision,
    ) -> Result<Visit, CorruptRecord> {
        if self.lives.is_some_and(|lives| lives.get() != Some(&true)) {
            self.is_early = true;
            return Ok(Visit::StopBefore);
        }
        if self.is_full() {
            let names = key::decode_entity(key)?;
            self.next = Some(match self.reverse {
                true => reverse_continuation(names),
                false => continuation(names),
            });
            return Ok(Visit::StopBefore);
        }
        self.rows_read += 1;
        self.bytes_read += (key.len() + value.len()) as u64;
        self.fetch_size.largest = self.fetch_size.largest.max(value.len());
        let met = MetEntity {
            key,
            names: OnceCell::new(),
            timestamp: timestamp(revision),
            record: EntityRecord::parse(value)?,
        };
        if self.judge.is_some_and(|judge| judge.has_expired(&met.record, revision)) {
            return Ok(Visit::Continue);
        }
        let selected = self.conditions.iter().all(|condition| condition.matches(&met));
        // With a corrupt key, conditions hold or fail by chance.
        met.is_sound()?;
        if selected && self.count_only {
            self.rows_returned += 1;
        } else if selected {
            let names = met.names()?;
            let properties = met.record.decode()?;
            if self.rows_returned == 0 {
                self.rows_skipped = self.rows_read - 1;
            }
            self.rows_returned += 1;
            self.bytes += key.len() + value.len();
            (self.sink)(EntityRef {
                partition_key: &names.partition,
                row_key: &names.row,
                timestamp: met.timestamp,
                properties: &properties,
            });
        }
        Ok(Visit::Continue)
    }

    fn rows_expected(&self) -> usize {
        match self.conditions.is_empty() {
            true => rows_missing(self.top, self.rows_returned),
            false => FILTERED_ROWS_EXPECTED,
        }
    }

    fn pause(&mut self) {
        self.timer.look();
    }
}

/// An entity under evaluation. Most fail a condition that names no key, and are skipped without
/// decoding their key.
struct MetEntity<'a> {
    key: &'a [u8],
    names: OnceCell<Result<StoredEntityKey<'a>, CorruptRecord>>,
    timestamp: Timestamp,
    record: EntityRecord<'a>,
}

impl<'a> MetEntity<'a> {
    fn names(&self) -> Result<&StoredEntityKey<'a>, CorruptRecord> {
        self.names.get_or_init(|| key::decode_entity(self.key)).as_ref().map_err(|error| *error)
    }

    /// Whether the key is valid, if it was decoded.
    fn is_sound(&self) -> Result<(), CorruptRecord> {
        match self.names.get() {
            Some(Err(error)) => Err(*error),
            _ => Ok(()),
        }
    }
}

impl Row for MetEntity<'_> {
    fn partition_key(&self) -> &str {
        self.names().map_or("", |names| &names.partition)
    }

    fn row_key(&self) -> &str {
        self.names().map_or("", |names| &names.row)
    }

    fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    fn custom(&self, name: &str) -> Option<ValueRef<'_>> {
        self.record.find(name)
    }
}

/// In reverse, even the empty row key is named: the rest of its partition has already been read.
fn reverse_continuation(stored: StoredEntityKey<'_>) -> Continuation {
    let (partition, row) = (stored.partition.into_owned(), stored.row.into_owned());
    Continuation { partition, row: Some(row) }
}

/// The empty row key becomes the start of its partition, because its token would be empty, which
/// the service refuses (T-4.55, T-4.58).
pub(crate) fn continuation(stored: StoredEntityKey<'_>) -> Continuation {
    let row = Some(stored.row.into_owned()).filter(|row| !row.is_empty());
    Continuation { partition: stored.partition.into_owned(), row }
}
