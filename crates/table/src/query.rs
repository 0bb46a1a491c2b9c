//! Reads entities: point reads, and queries.

use crate::error::TableError;
use crate::expiry::Judge;
use crate::explain::PlanReport;
use crate::index::IndexUse;
use crate::index::read::{Served, index_access, read_by_index};
use crate::page::{Page, fetch};
use crate::plan::{Plan, PlanKind, Reads};
use crate::scan::{join, walk_toward};
use crate::service::{OpenTable, TableService, TableView, timestamp};
use bytes::Bytes;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{Direction, Found, KeyRange};
use lazuli_layout::settings::TableSettings;
use lazuli_layout::{EntityRecord, TableId, key};
use lazuli_model::limits::{PAGE_ITEMS_MAX, QUERY_EXECUTION_MS_MAX};
use lazuli_model::{AccountName, EntityKey, Filter, TableName, Timestamp, ValueRef};
use std::ops::Bound;
use std::sync::OnceLock;

/// An entity as stored.
#[derive(Clone, Debug)]
pub struct StoredEntity {
    pub timestamp: Timestamp,
    value: Bytes,
}

impl StoredEntity {
    /// Bytes of the stored record.
    pub fn bytes(&self) -> u64 {
        self.value.len() as u64
    }

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
    /// Whether the end of the page reports the plan.
    pub explain: bool,
    /// Whether entities come in descending key order; a continuation then ends the query.
    pub reverse: bool,
    /// Whether entities are only counted, without any limit but time.
    pub count_only: bool,
    /// When the page ends, regardless of what it holds.
    pub ms_max: u64,
}

impl Default for EntityQuery {
    fn default() -> Self {
        Self {
            filter: None,
            top: PAGE_ITEMS_MAX,
            from: None,
            bounds: KeyBounds::default(),
            rows_read_max: u64::MAX,
            explain: false,
            reverse: false,
            count_only: false,
            ms_max: QUERY_EXECUTION_MS_MAX,
        }
    }
}

/// The first entity not yet examined, inclusive (T-4.60). It may no longer exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    pub partition: String,
    /// `None` means the start of the partition.
    pub row: Option<String>,
}

/// The entities that a shared access signature permits: both ends inclusive; an end without a row
/// key covers its whole partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyBounds {
    pub start: Option<(String, Option<String>)>,
    pub end: Option<(String, Option<String>)>,
}

impl KeyBounds {
    /// Whether they leave anything out.
    pub fn is_part(&self) -> bool {
        self.start.is_some() || self.end.is_some()
    }
}

/// How a page ended, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryEnd {
    /// `None` at the end of the query.
    pub next: Option<Continuation>,
    pub plan: PlanKind,
    /// The indexes that served the query.
    pub index: Option<IndexUse>,
    pub rows_read: u64,
    pub rows_returned: u64,
    /// Entities that the conditions rejected before accepting the first one.
    pub rows_skipped: u64,
    /// If the query requested it.
    pub report: Option<Box<PlanReport>>,
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
        let (table, settings) = view.table_to_get(account, table).await?;
        let found = view.entries.get(&key::entity(table, key)).await?;
        self.stored(found, settings.as_deref())
    }

    /// An entity that was read, if it exists and has not expired.
    fn stored(
        &self,
        found: Option<Found>,
        settings: Option<&TableSettings>,
    ) -> Result<StoredEntity, TableError> {
        stored(found, Judge::of(settings, || self.store.clock.now()))
    }

    /// Reads an entity together with the catalog record that verifies its table: one round trip.
    ///
    /// The two may be from different moments. The record must still have the revision that was cached,
    /// and no revision occurs twice, not even when new settings rewrite the record: so the table
    /// existed unchanged until the record was read. The entity was written before that, or
    /// concurrently with the table's drop.
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
                    return Attempt::Done(self.stored(entity, table.settings.as_deref()));
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
        if let Some(hint) = self.hint(account, table) {
            match self.query_hinted(&view, &hint, &query, sink).await? {
                Hinted::Page(end) => return Ok(end),
                Hinted::TooEarly => {}
                Hinted::Misled => self.forget(account, table),
            }
        }
        let (id, settings) = view.table(account, table).await?;
        let (end, _) =
            self.page(&view, (id, settings.as_deref()), None, &query, sink, None).await?;
        Ok(end)
    }

    /// Reads a page of a cached table, in parallel with the catalog record that verifies the table:
    /// one round trip for both (K-4.3). No entity is passed on before the record has arrived.
    async fn query_hinted(
        &self,
        view: &TableView<'_>,
        hint: &OpenTable,
        query: &EntityQuery,
        sink: &mut (dyn FnMut(EntityRef<'_>) + Send),
    ) -> Result<Hinted, TableError> {
        let lives = OnceLock::new();
        let look = async {
            let found = view.entries.get(hint.lives.key.as_slice()).await?;
            // Set once, here.
            let _ = lives.set(hint.is_proven_by(found.as_ref()));
            Ok::<_, TableError>(())
        };
        let table = (hint.id, hint.settings.as_deref());
        let (looked, page) =
            join(look, self.page(view, table, None, query, sink, Some(&lives))).await;
        looked?;
        Ok(match (lives.get(), page?) {
            (Some(true), (end, IsEarly(false))) => Hinted::Page(end),
            (Some(true), (_, IsEarly(true))) => Hinted::TooEarly,
            _ => Hinted::Misled,
        })
    }

    /// Reads a page, judging expiry as of `at`, or now. With `lives`, takes entities only once it says
    /// that the table exists.
    pub(crate) async fn page(
        &self,
        view: &TableView<'_>,
        (id, settings): (TableId, Option<&TableSettings>),
        at: Option<Timestamp>,
        query: &EntityQuery,
        sink: &mut (dyn FnMut(EntityRef<'_>) + Send),
        lives: Option<&OnceLock<bool>>,
    ) -> Result<(QueryEnd, IsEarly), TableError> {
        let plan = Plan::new(id, query.filter.as_ref(), &limits(id, query));
        let judge = Judge::of(settings, || at.unwrap_or_else(|| self.store.clock.now()));
        // Entries of an index come in ascending order.
        let settings = settings.filter(|_| !query.reverse);
        let access = index_access(id, settings, &plan, query.filter.as_ref());
        let report = query.explain.then(|| Box::new(self.report((id, settings), query, &plan)));
        let Plan { kind, mut reads, conditions } = plan;
        let direction = match query.reverse {
            true => Direction::Backward,
            false => Direction::Forward,
        };
        if query.reverse {
            reads.reverse();
        }
        let (mut used, mut fell_back) = (None, None);
        let page = Page::new(query, conditions, &*self.store.clock, sink, lives).judging(judge);
        let mut page = page.of_store(self.store.nature().writers);
        if page.top > 0 {
            match reads {
                Reads::Points(keys) => fetch(&*view.entries, &keys, &mut page).await?,
                Reads::Ranges(ranges) => {
                    if let Some(access) = access {
                        match read_by_index(&*view.entries, id, access, &ranges, &mut page).await? {
                            Served::By(indexes) => used = Some(indexes),
                            Served::NotBy(indexes) => fell_back = Some(indexes),
                        }
                    }
                    if used.is_none() {
                        walk_toward(&*view.entries, ranges, direction, &mut page).await?;
                    }
                }
            }
        }
        let is_early = IsEarly(page.is_early());
        let report = report.map(|report| Box::new(PlanReport { fell_back, ..*report }));
        let end = page.end(kind, used, report);
        if !is_early.0 {
            self.statistics.note(id, end.plan, end.rows_read, end.rows_returned);
        }
        Ok((end, is_early))
    }
}

/// The outcome of a query of a cached table.
enum Hinted {
    Page(QueryEnd),
    /// The entities arrived before the catalog record, and were discarded.
    TooEarly,
    /// The table is not the cached one.
    Misled,
}

/// Whether a page met an entity before its table was verified, and took none.
pub(crate) struct IsEarly(bool);

/// An entity that was read, if it exists and has not expired.
pub(crate) fn stored(
    found: Option<Found>,
    judge: Option<Judge<'_>>,
) -> Result<StoredEntity, TableError> {
    let found = found.ok_or(TableError::EntityNotFound)?;
    if let Some(judge) = judge
        && judge.is_expired(&found.value, found.revision)?
    {
        return Err(TableError::EntityNotFound);
    }
    Ok(StoredEntity { timestamp: timestamp(found.revision), value: found.value })
}

/// The entities that continuation and bounds allow.
pub(crate) fn limits(table: TableId, query: &EntityQuery) -> KeyRange {
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
    match &query.from {
        Some(Continuation { partition, row }) if query.reverse => {
            limits.end = limits.end.min(to(partition, row.as_deref()));
        }
        Some(Continuation { partition, row }) => {
            limits.start = limits.start.max(from(partition, row.as_deref()));
        }
        None => {}
    }
    if let Some((partition, row)) = &query.bounds.end {
        limits.end = limits.end.min(to(partition, row.as_deref()));
    }
    KeyRange::new(limits.start, limits.end)
}
