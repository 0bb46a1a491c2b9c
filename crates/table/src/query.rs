//! Reads entities: point reads, and pages of a query.

use crate::error::TableError;
use crate::plan::{Plan, PlanKind, Reads};
use crate::scan::{FILTERED_ROWS_EXPECTED, Gather, Timer, rows_missing, walk};
use crate::service::{TableService, timestamp};
use bytes::Bytes;
use lazuli_engine::retry::{Attempt, give_way};
use lazuli_engine::{Found, Key, KeyRange, Revision, View, Visit};
use lazuli_layout::key::StoredEntityKey;
use lazuli_layout::{CorruptRecord, EntityRecord, TableId, key};
use lazuli_model::limits::{PAGE_BYTES_MAX, PAGE_ITEMS_MAX};
use lazuli_model::{AccountName, Clock, EntityKey, Filter, Row, TableName, Timestamp, ValueRef};
use std::cell::OnceCell;
use std::ops::Bound;

/// Entities fetched by key per step; each may be larger than 1 MiB.
const FETCH_ROWS_MAX: usize = 32;

/// An entity as stored.
#[derive(Clone, Debug)]
pub struct StoredEntity {
    pub timestamp: Timestamp,
    value: Bytes,
}

impl StoredEntity {
    /// The properties, in the order stored.
    pub fn properties(&self) -> Result<Vec<(&str, ValueRef<'_>)>, TableError> {
        Ok(EntityRecord::parse(&self.value)?.decode()?)
    }
}

/// An entity that a query found, borrowed in place.
#[derive(Clone, Copy, Debug)]
pub struct EntityRef<'a> {
    pub partition_key: &'a str,
    pub row_key: &'a str,
    pub timestamp: Timestamp,
    /// In the order stored.
    pub properties: &'a [(&'a str, ValueRef<'a>)],
}

/// Which entities to read.
#[derive(Clone, Debug)]
pub struct EntityQuery {
    pub filter: Option<Filter>,
    /// Entities in the page; capped at [`PAGE_ITEMS_MAX`].
    pub top: usize,
    pub from: Option<Continuation>,
    pub bounds: KeyBounds,
    /// Entities that the page may examine, including those that the filter rejects.
    pub rows_read_max: u64,
}

impl Default for EntityQuery {
    fn default() -> Self {
        Self {
            filter: None,
            top: PAGE_ITEMS_MAX,
            from: None,
            bounds: KeyBounds::default(),
            rows_read_max: u64::MAX,
        }
    }
}

/// The first entity not yet examined, inclusive (T-4.60). It may no longer exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    pub partition: String,
    /// `None` is the beginning of the partition.
    pub row: Option<String>,
}

/// The entities that a shared access signature permits: both ends inclusive; an end without a row
/// key covers its whole partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyBounds {
    pub start: Option<(String, Option<String>)>,
    pub end: Option<(String, Option<String>)>,
}

/// How a page ended, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryEnd {
    /// `None` at the end of the query.
    pub next: Option<Continuation>,
    pub plan: PlanKind,
    pub rows_read: u64,
    pub rows_returned: u64,
}

impl TableService {
    /// Reads one entity.
    pub async fn get(
        &self,
        account: &AccountName,
        table: &TableName,
        key: &EntityKey,
    ) -> Result<StoredEntity, TableError> {
        if !self.remembers_facts() {
            return self.retry(|| self.try_to_get(account, table, key)).await?;
        }
        let view = self.view().await?;
        let table = view.table_id(account, table).await?;
        stored(view.entries.get(&key::entity(table, key)).await?)
    }

    /// Reads an entity together with the catalog record that verifies its table: one round trip.
    ///
    /// The two may be from different moments. Ids are never reused and a catalog record is never
    /// rewritten, so a table that exists at one moment existed at every earlier one since its
    /// creation: the entity is from a moment at which the table existed, or from a write concurrent
    /// with its drop.
    async fn try_to_get(
        &self,
        account: &AccountName,
        name: &TableName,
        key: &EntityKey,
    ) -> Attempt<Result<StoredEntity, TableError>> {
        let table = match self.open_to_prove(account, name).await {
            Ok(table) => table,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let keys = [table.lives.key.clone(), key::entity(table.id, key).into()];
        match self.store.engine.read(&keys).await {
            Err(error) => Attempt::Done(Err(error.into())),
            Ok(mut found) => {
                let entity = found.pop().flatten();
                if table.is_proven_by(found.pop().flatten().as_ref()) {
                    return Attempt::Done(stored(entity));
                }
                self.forget(account, name);
                Attempt::Again
            }
        }
    }

    /// Query Entities: passes one page to `sink`, in key order, each entity borrowed in place.
    ///
    /// The page is one snapshot. It ends after `top` entities, after [`PAGE_BYTES_MAX`] bytes or
    /// after five seconds, and returns a continuation unless nothing is left.
    pub async fn query(
        &self,
        account: &AccountName,
        table: &TableName,
        query: EntityQuery,
        sink: &mut (dyn FnMut(EntityRef<'_>) + Send),
    ) -> Result<QueryEnd, TableError> {
        let view = self.view().await?;
        let id = view.table_id(account, table).await?;
        let plan = Plan::new(id, query.filter.as_ref(), &limits(id, &query));
        let Plan { kind, reads, conditions } = plan;
        let mut page = Page::new(&query, conditions, &*self.store.clock, sink);
        if page.top > 0 {
            match reads {
                Reads::Points(keys) => fetch(&*view.entries, &keys, &mut page).await?,
                Reads::Ranges(ranges) => walk(&*view.entries, ranges, &mut page).await?,
            }
        }
        Ok(page.end(kind))
    }
}

fn stored(found: Option<Found>) -> Result<StoredEntity, TableError> {
    let found = found.ok_or(TableError::EntityNotFound)?;
    Ok(StoredEntity { timestamp: timestamp(found.revision), value: found.value })
}

/// Reads entities by their keys, a few at a time.
async fn fetch(view: &dyn View, keys: &[Key], page: &mut Page<'_>) -> Result<(), TableError> {
    let mut chunks = keys.chunks(FETCH_ROWS_MAX);
    while let Some(keys) = chunks.next() {
        let found = view.multi_get(keys).await?;
        for (key, found) in keys.iter().zip(found) {
            let Some(found) = found else { continue };
            if page.take(key.as_slice(), &found.value, found.revision)? == Visit::StopBefore {
                return Ok(());
            }
        }
        if chunks.len() > 0 {
            page.pause();
            give_way().await;
        }
    }
    Ok(())
}

/// The entities that continuation and bounds allow.
fn limits(table: TableId, query: &EntityQuery) -> KeyRange {
    let from = |partition: &str, row: Option<&str>| {
        let low = row.map_or(Bound::Unbounded, Bound::Included);
        key::row_range(table, partition, low, Bound::Unbounded).start
    };
    let to = |partition: &str, row: Option<&str>| {
        let high = row.map_or(Bound::Unbounded, Bound::Included);
        key::row_range(table, partition, Bound::Unbounded, high).end
    };
    let mut limits = key::table_range(table);
    if let Some((partition, row)) = &query.bounds.start {
        limits.start = limits.start.max(from(partition, row.as_deref()));
    }
    if let Some(Continuation { partition, row }) = &query.from {
        limits.start = limits.start.max(from(partition, row.as_deref()));
    }
    if let Some((partition, row)) = &query.bounds.end {
        limits.end = limits.end.min(to(partition, row.as_deref()));
    }
    KeyRange::new(limits.start, limits.end)
}

/// A page being filled.
struct Page<'q> {
    /// The conditions that an entity must satisfy.
    conditions: Vec<&'q Filter>,
    top: u64,
    rows_read_max: u64,
    timer: Timer<'q>,
    sink: &'q mut (dyn FnMut(EntityRef<'_>) + Send),
    rows_read: u64,
    rows_returned: u64,
    bytes: usize,
    next: Option<Continuation>,
}

impl<'q> Page<'q> {
    fn new(
        query: &EntityQuery,
        conditions: Vec<&'q Filter>,
        clock: &'q dyn Clock,
        sink: &'q mut (dyn FnMut(EntityRef<'_>) + Send),
    ) -> Self {
        Self {
            conditions,
            top: query.top.min(PAGE_ITEMS_MAX) as u64,
            rows_read_max: query.rows_read_max,
            timer: Timer::start(clock),
            sink,
            rows_read: 0,
            rows_returned: 0,
            bytes: 0,
            next: None,
        }
    }

    fn is_full(&self) -> bool {
        self.timer.is_over()
            || self.rows_returned >= self.top
            || self.rows_read >= self.rows_read_max
            || self.bytes >= PAGE_BYTES_MAX
    }

    fn end(self, plan: PlanKind) -> QueryEnd {
        QueryEnd {
            next: self.next,
            plan,
            rows_read: self.rows_read,
            rows_returned: self.rows_returned,
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
        if self.is_full() {
            self.next = Some(continuation(key::decode_entity(key)?));
            return Ok(Visit::StopBefore);
        }
        self.rows_read += 1;
        let met = MetEntity {
            key,
            names: OnceCell::new(),
            timestamp: timestamp(revision),
            record: EntityRecord::parse(value)?,
        };
        let selected = self.conditions.iter().all(|condition| condition.matches(&met));
        // A corrupt key satisfies or fails a condition by chance.
        met.is_sound()?;
        if selected {
            let names = met.names()?;
            let properties = met.record.decode()?;
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

/// The empty row key is expressed as the beginning of its partition: its token would be empty,
/// which the service refuses (T-4.55, T-4.58).
fn continuation(stored: StoredEntityKey<'_>) -> Continuation {
    let row = Some(stored.row.into_owned()).filter(|row| !row.is_empty());
    Continuation { partition: stored.partition.into_owned(), row }
}
