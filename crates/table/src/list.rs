//! Query Tables: one page of an account's tables.

use crate::error::TableError;
use crate::plan;
use crate::scan::{FILTERED_ROWS_EXPECTED, Gather, Timer, rows_missing, walk};
use crate::service::TableService;
use lazuli_engine::{KeyRange, Revision, Visit};
use lazuli_layout::table::CatalogRecord;
use lazuli_layout::{CorruptRecord, key};
use lazuli_model::filter::{Case, Extended, Term, TextTest};
use lazuli_model::limits::PAGE_ITEMS_MAX;
use lazuli_model::{AccountName, Filter, Property, Row, TableName, Timestamp, Value, ValueRef};
use std::ops::Bound;

/// What Query Tables returns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// In the case given at creation.
    pub name: TableName,
    pub created: Timestamp,
}

/// Which tables to list.
#[derive(Clone, Debug)]
pub struct TablesQuery {
    /// A condition on `TableName`, ignoring case (T-4.74).
    pub filter: Option<Filter>,
    /// Tables in the page; capped at [`PAGE_ITEMS_MAX`].
    pub top: usize,
    /// The lower-case name to begin at, inclusive.
    pub from: Option<String>,
    /// Tables that the page may examine, including those that the filter rejects.
    pub rows_read_max: u64,
}

impl Default for TablesQuery {
    fn default() -> Self {
        Self { filter: None, top: PAGE_ITEMS_MAX, from: None, rows_read_max: u64::MAX }
    }
}

/// How a page of tables ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TablesEnd {
    /// The first table not yet examined; `None` at the end of the list.
    pub next: Option<TableInfo>,
    pub rows_read: u64,
    pub rows_returned: u64,
}

impl From<CatalogRecord> for TableInfo {
    fn from(record: CatalogRecord) -> Self {
        Self { name: record.name, created: record.created }
    }
}

impl TableService {
    /// Query Tables: passes one page of tables to `sink`, sorted by lower-case name.
    pub async fn query_tables(
        &self,
        account: &AccountName,
        query: TablesQuery,
        sink: &mut (dyn FnMut(&TableInfo) + Send),
    ) -> Result<TablesEnd, TableError> {
        let filter = query.filter.as_ref().map_or(Filter::Constant(true), by_lower_name);
        let mut page = TablesPage {
            filter: &filter,
            top: query.top.min(PAGE_ITEMS_MAX) as u64,
            rows_read_max: query.rows_read_max,
            timer: Timer::start(&*self.store.clock),
            sink,
            end: TablesEnd::default(),
        };
        if page.top > 0 {
            let view = self.store.engine.view().await?;
            let ranges = catalog_ranges(account, &filter, query.from.as_deref());
            walk(&*view, ranges, &mut page).await?;
        }
        Ok(page.end)
    }
}

/// The filter with the lower-case name in place of the partition key, so that the entity planner
/// works for tables too. A property that tables do not have satisfies no comparison (T-4.35).
fn by_lower_name(filter: &Filter) -> Filter {
    let all = |parts: &[Filter]| parts.iter().map(by_lower_name).collect();
    match filter {
        Filter::Compare { property: Property::Custom(name), operator, value }
            if &**name == "TableName" =>
        {
            Filter::Compare {
                property: Property::PartitionKey,
                operator: *operator,
                value: match value {
                    Value::String(text) => Value::String(text.to_ascii_lowercase().into()),
                    other => other.clone(),
                },
            }
        }
        Filter::Extended(extended) => extended_by_lower_name(extended),
        Filter::Compare { .. } | Filter::IsTrue(_) => Filter::Constant(false),
        Filter::Constant(value) => Filter::Constant(*value),
        Filter::Not(inner) => Filter::Not(Box::new(by_lower_name(inner))),
        Filter::And(parts) => Filter::And(all(parts)),
        Filter::Or(parts) => Filter::Or(all(parts)),
    }
}

/// Names are compared without case, so a condition on case also gets the lower-case name.
fn extended_by_lower_name(extended: &Extended) -> Filter {
    if !matches!(&extended.term().property, Property::Custom(name) if &**name == "TableName") {
        return Filter::Constant(false);
    }
    let term = Term::new(Property::PartitionKey, Case::AsIs);
    Filter::Extended(match extended {
        Extended::Text(test) => {
            let text = test.text().to_ascii_lowercase();
            Extended::Text(TextTest::new(test.function, term, text))
        }
        Extended::In { values, .. } => {
            let lower = |value: &Value<'static>| match value {
                Value::String(text) => Value::String(text.to_ascii_lowercase().into()),
                other => other.clone(),
            };
            Extended::In { term, values: values.iter().map(lower).collect() }
        }
        Extended::Compare { operator, text, .. } => {
            let text = text.to_ascii_lowercase().into();
            Extended::Compare { term, operator: *operator, text }
        }
    })
}

/// Names of analytics tables sort before those of clients, which begin with a letter, and are not
/// listed (T-4.76).
const FIRST_LISTED: &str = "a";

/// The part of the catalog that `filter` and `from` select.
fn catalog_ranges(account: &AccountName, filter: &Filter, from: Option<&str>) -> Vec<KeyRange> {
    let range = |low, high| {
        let range = key::catalog_range(account, low, high);
        KeyRange::new(range.start, range.end)
    };
    let from = from.unwrap_or_default().max(FIRST_LISTED);
    let rest = range(Bound::Included(from), Bound::Unbounded);
    let ranges = plan::partition_ranges(filter).into_iter();
    plan::disjoint(ranges.map(|(low, high)| range(low, high).intersect(rest.clone())).collect())
}

/// A page being filled.
struct TablesPage<'q> {
    /// Like [`by_lower_name`] made it.
    filter: &'q Filter,
    top: u64,
    rows_read_max: u64,
    timer: Timer<'q>,
    sink: &'q mut (dyn FnMut(&TableInfo) + Send),
    end: TablesEnd,
}

impl Gather for TablesPage<'_> {
    fn take(&mut self, _: &[u8], value: &[u8], _: Revision) -> Result<Visit, CorruptRecord> {
        let info = TableInfo::from(CatalogRecord::decode(value)?);
        let is_full =
            self.end.rows_returned >= self.top || self.end.rows_read >= self.rows_read_max;
        if is_full || self.timer.is_over() {
            self.end.next = Some(info);
            return Ok(Visit::StopBefore);
        }
        self.end.rows_read += 1;
        if self.filter.matches(&LowerName(info.name.lower())) {
            self.end.rows_returned += 1;
            (self.sink)(&info);
        }
        Ok(Visit::Continue)
    }

    fn rows_expected(&self) -> usize {
        match self.filter {
            Filter::Constant(true) => rows_missing(self.top, self.end.rows_returned),
            _ => FILTERED_ROWS_EXPECTED,
        }
    }

    fn pause(&mut self) {
        self.timer.look();
    }
}

/// A table as its filter sees it.
struct LowerName<'a>(&'a str);

impl Row for LowerName<'_> {
    fn partition_key(&self) -> &str {
        self.0
    }

    fn row_key(&self) -> &str {
        ""
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::MIN
    }

    fn custom(&self, _: &str) -> Option<ValueRef<'_>> {
        None
    }
}
