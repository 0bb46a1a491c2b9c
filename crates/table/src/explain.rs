//! What a query reads, in readable form, and what it would read on Azure.

use crate::index::IndexUse;
use crate::index::access::candidates;
use crate::index::read::index_access;
use crate::plan::{Plan, PlanKind, Reads, azure_kind};
use crate::query::{EntityQuery, limits};
use crate::service::TableService;
use crate::statistics::Estimate;
use crate::{Continuation, TableError};
use lazuli_engine::KeyRange;
use lazuli_layout::TableId;
use lazuli_layout::settings::TableSettings;
use lazuli_model::{AccountName, Filter, IndexName, TableName};
use std::cmp::Ordering;
use std::ops::Bound;

/// The plan of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanReport {
    pub kind: PlanKind,
    pub reads: Vec<ReadKeys>,
    /// The conditions that each entity read must still satisfy.
    pub conditions: Vec<Filter>,
    /// The indexes that serve it; zero entries before it runs.
    pub index: Option<IndexUse>,
    /// The indexes that would have served it if the range of the page had not been too long.
    pub fell_back: Option<IndexUse>,
    /// Indexes that would serve it if they were built.
    pub candidates: Vec<IndexName>,
    /// The parts of the filter that use extensions, which Azure refuses.
    pub extended: Vec<Filter>,
    /// The kind of the same query on Azure, which reads one range.
    pub azure: PlanKind,
    /// Bytes of the entities examined; zero before the query runs.
    pub bytes: u64,
    /// Microseconds that it took; zero before it runs.
    pub micros: u64,
    /// What a page of this kind, and one of Azure's kind, is likely to examine and return here.
    pub estimate: Option<Estimate>,
    pub azure_estimate: Option<Estimate>,
    /// Whether the client may read only part of the table. What others have read of it is not shown.
    pub is_part: bool,
}

/// The keys of one read: those in both intervals, between two positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadKeys {
    pub partition: KeyInterval,
    pub row: KeyInterval,
    /// The first position, inclusive: a continuation or the start of a permitted range.
    pub from: Option<(String, Option<String>)>,
    /// The last position, inclusive: the end of a permitted range.
    pub to: Option<(String, Option<String>)>,
}

/// Keys from `low` to `high`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInterval {
    pub low: Bound<String>,
    pub high: Bound<String>,
}

impl KeyInterval {
    pub const ALL: Self = Self { low: Bound::Unbounded, high: Bound::Unbounded };

    /// The only key of the interval, if it has one.
    pub fn point(&self) -> Option<&str> {
        match (&self.low, &self.high) {
            (Bound::Included(low), Bound::Included(high)) if low == high => Some(low),
            _ => None,
        }
    }
}

impl TableService {
    /// The plan of a query. Reads no entity.
    pub async fn explain(
        &self,
        account: &AccountName,
        table: &TableName,
        query: &EntityQuery,
    ) -> Result<PlanReport, TableError> {
        let view = self.view().await?;
        let (id, settings) = view.table(account, table).await?;
        let settings = settings.as_deref().filter(|_| !query.reverse);
        let plan = Plan::new(id, query.filter.as_ref(), &limits(id, query));
        let report = self.report((id, settings), query, &plan);
        Ok(match index_access(id, settings, &plan, query.filter.as_ref()) {
            Some(access) => PlanReport {
                kind: PlanKind::Index,
                index: Some(access.used(0)),
                estimate: self.estimate(id, PlanKind::Index, query),
                ..report
            },
            None => report,
        })
    }

    /// The plan of a query by its keys alone.
    pub(crate) fn report(
        &self,
        (id, settings): (TableId, Option<&TableSettings>),
        query: &EntityQuery,
        plan: &Plan<'_>,
    ) -> PlanReport {
        let azure = azure_kind(query.filter.as_ref());
        let keys = match &plan.reads {
            Reads::Points(keys) => Some(keys.len() as u64),
            Reads::Ranges(_) => None,
        };
        let candidates = match (settings, &query.filter) {
            (Some(settings), Some(filter)) if plan.kind >= PlanKind::Partition => {
                candidates(id, settings, filter)
            }
            _ => Vec::new(),
        };
        PlanReport {
            kind: plan.kind,
            index: None,
            fell_back: None,
            candidates,
            reads: reads(id, query, plan),
            conditions: plan.conditions.iter().map(|condition| (*condition).clone()).collect(),
            extended: extended(query.filter.as_ref()),
            azure,
            bytes: 0,
            micros: 0,
            estimate: match keys {
                Some(keys) => Some(Estimate::of_keys(keys)),
                None => self.estimate(id, plan.kind, query),
            },
            azure_estimate: self.estimate(id, azure, query),
            is_part: query.bounds.is_part(),
        }
    }

    /// What pages of this kind have read of the table, for clients that may read all of it.
    fn estimate(&self, id: TableId, kind: PlanKind, query: &EntityQuery) -> Option<Estimate> {
        self.statistics.estimate(id, kind).filter(|_| !query.bounds.is_part())
    }
}

fn extended(filter: Option<&Filter>) -> Vec<Filter> {
    let found = filter.map(Filter::extended).unwrap_or_default();
    found.into_iter().cloned().map(Filter::Extended).collect()
}

/// The reads of a plan, in key order.
fn reads(id: TableId, query: &EntityQuery, plan: &Plan<'_>) -> Vec<ReadKeys> {
    let (start, end) = ends(query);
    let all = limits(id, &EntityQuery::default());
    let limits = limits(id, query);
    let blocks = Plan::blocks(id, query.filter.as_ref());
    let is_points = matches!(plan.reads, Reads::Points(_));
    let mut reads: Vec<(KeyRange, ReadKeys)> = Vec::new();
    for (range, read) in blocks {
        let inside = range.clone().intersect(limits.clone());
        if inside.is_empty() {
            continue;
        }
        match reads.last_mut() {
            Some((last, known)) if range.start <= last.end && !is_points => {
                known.extend(&read, range.end > last.end);
                last.end = last.end.clone().max(range.end);
            }
            Some((last, _)) if is_points && last.start == range.start => {}
            _ => reads.push((range, read)),
        }
    }
    for (range, read) in &mut reads {
        if limits.start > all.start && limits.start > range.start && !is_points {
            read.from = start.clone();
        }
        if limits.end < all.end && limits.end < range.end && !is_points {
            read.to = end.clone();
        }
    }
    reads.into_iter().map(|(_, read)| read).collect()
}

type Place = Option<(String, Option<String>)>;

/// The positions between which continuation and bounds let the query read.
fn ends(query: &EntityQuery) -> (Place, Place) {
    let continued = query.from.as_ref().map(|Continuation { partition, row }| {
        // The start of a partition.
        (partition.clone(), row.clone())
    });
    let (start, end) = (query.bounds.start.clone(), query.bounds.end.clone());
    match (continued, query.reverse) {
        (continued, false) => (tighter(continued, start, Ordering::Greater), end),
        (continued, true) => (start, tighter(continued, end, Ordering::Less)),
    }
}

/// The position further along in one direction.
fn tighter(a: Place, b: Place, toward: Ordering) -> Place {
    match (a, b) {
        (Some(a), Some(b)) => Some(if place_order(&a, &b) == toward { a } else { b }),
        (a, b) => a.or(b),
    }
}

fn place_order(a: &(String, Option<String>), b: &(String, Option<String>)) -> Ordering {
    use lazuli_model::key::compare;
    let row = |place: &(String, Option<String>)| place.1.clone().unwrap_or_default();
    compare(&a.0, &b.0).then_with(|| compare(&row(a), &row(b)))
}

impl ReadKeys {
    pub(crate) fn new(partition: KeyInterval, row: KeyInterval) -> Self {
        Self { partition, row, from: None, to: None }
    }

    /// Extends this read by the keys of one that begins where this one ends, or earlier;
    /// `is_longer` says that it also ends later.
    fn extend(&mut self, other: &Self, is_longer: bool) {
        if !is_longer {
            return;
        }
        if self.partition == other.partition && self.partition.point().is_some() {
            self.row.high = other.row.high.clone();
            return;
        }
        // Rows of the two ends: everything in between is read.
        let place = |partition: Option<&str>, row: &Bound<String>| match (partition, row) {
            (Some(partition), Bound::Included(row) | Bound::Excluded(row)) => {
                Some((partition.to_owned(), Some(row.clone())))
            }
            _ => None,
        };
        self.from = self.from.take().or(place(self.partition.point(), &self.row.low));
        self.to = place(other.partition.point(), &other.row.high);
        self.partition.high = other.partition.high.clone();
        self.row = KeyInterval::ALL;
    }
}

#[cfg(test)]
mod tests;
