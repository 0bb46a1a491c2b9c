//! How a query will be run, decided from its filter alone (C-7.5).
//!
//! A filter that names rows, or several partitions, is cut into parts: disjoint key ranges in key order,
//! each a point read or a query of one partition. Their concatenated results are what the original filter
//! returns, in the same order.

use lazuli_model::key::compare;
use lazuli_model::{EntityKey, Filter, Operator, Property, Value};
use std::cmp::Ordering;
use std::fmt;

/// Alternatives of a filter that are examined one by one. A filter with more is sent unchanged.
const CASES_MAX: usize = 10_000;

/// Comparisons that the documentation allows in a filter. The service accepts more (T-4.26).
const COMPARISONS_DOCUMENTED: usize = 15;

/// What a query reads to find its entities, from the cheapest to the most expensive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum QueryClass {
    /// One entity by both keys.
    Point,
    /// Several entities, each by both keys.
    MultiPoint,
    /// A range of row keys in one partition, or in each of several.
    Range,
    /// One whole partition, or several.
    PartitionScan,
    /// A range of partitions.
    PartitionRange,
    /// The whole table.
    TableScan,
}

impl QueryClass {
    /// The name, as spans show it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::MultiPoint => "multi_point",
            Self::Range => "range",
            Self::PartitionScan => "partition_scan",
            Self::PartitionRange => "partition_range",
            Self::TableScan => "table_scan",
        }
    }
}

/// What a query will do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// What is read to find the entities.
    pub class: QueryClass,
    /// The original filter.
    pub filter_text: String,
    /// The selected properties; empty if all are.
    pub select: Vec<String>,
    /// The least number of requests. Paging adds to it.
    pub requests_min: usize,
    /// What could be improved.
    pub hints: Vec<Hint>,
}

/// Something that a query could do better, or that may surprise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// No key narrows the search: every entity of the table is read.
    ScansTable,
    /// Only the partition key narrows the search: every entity of the partition is read.
    ScansPartition,
    /// The service scans for an `or` of keys. Without `as_written` the filter is cut into parts.
    OrOfKeys,
    /// More comparisons than the documentation allows; the service accepts more (T-4.26).
    ManyComparisons(usize),
    /// `ne` does not find an entity without this property (T-4.35).
    NeNeedsProperty(String),
    /// No index serves Timestamp.
    TimestampHasNoIndex,
    /// All parts are in one partition, whose throughput they share: running them concurrently gains
    /// little.
    OnePartition,
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScansTable => f.write_str("every entity of the table is read: name a partition"),
            Self::ScansPartition => {
                f.write_str("every entity of the partition is read: name a range of row keys")
            }
            Self::OrOfKeys => f.write_str("the service scans for an `or` of keys: use get_many"),
            Self::ManyComparisons(count) => {
                write!(f, "{count} comparisons, the reference allows {COMPARISONS_DOCUMENTED}")
            }
            Self::NeNeedsProperty(name) => {
                write!(f, "entities without {name} are not found by `{name} ne`")
            }
            Self::TimestampHasNoIndex => f.write_str("no index serves Timestamp"),
            Self::OnePartition => {
                f.write_str("all requests go to one partition and share its throughput")
            }
        }
    }
}

/// A piece of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// One entity by both keys.
    Point(EntityKey),
    /// A query of its own; `None` for all entities.
    Query(Option<Filter>),
}

/// Cuts a filter into parts that are disjoint and in key order. A single part is the original filter, unless it
/// has to be rewritten to name its partition first.
pub(crate) fn parts(filter: &Filter) -> Vec<Part> {
    let whole = || vec![Part::Query(Some(filter.clone()))];
    let Some(mut cases) = cases(filter) else { return whole() };
    if cases.iter().any(|case| case.partition.is_none()) {
        return whole();
    }
    cases.sort_by(Case::compare_keys);
    let mut parts = Vec::new();
    for partition in cases.chunk_by(|a, b| a.partition == b.partition) {
        if partition.iter().all(|case| case.row.is_some()) {
            let rows = partition.chunk_by(|a, b| a.row == b.row);
            parts.extend(rows.map(Case::point));
        } else {
            parts.push(Part::Query(Case::joined(partition)));
        }
    }
    match (&*parts, filter) {
        ([_], Filter::And(_) | Filter::Compare { .. }) => whole(),
        _ => parts,
    }
}

/// What a query with this filter reads, if it is run in `parts` parts.
pub(crate) fn class(filter: Option<&Filter>, parts: usize) -> QueryClass {
    let Some(filter) = filter else { return QueryClass::TableScan };
    let Some(cases) = cases(filter) else { return QueryClass::TableScan };
    let bounded = |case: &Case, key| case.rest.iter().any(|part| is_bound(part, key));
    if cases.iter().all(|case| case.partition.is_some()) {
        let distinct = |part: fn(&Case) -> (&Option<String>, &Option<String>)| {
            let mut keys: Vec<_> = cases.iter().map(part).collect();
            keys.sort();
            keys.dedup();
            keys.len()
        };
        let rows = distinct(|case| (&case.partition, &case.row));
        let partitions = distinct(|case| (&case.partition, &None));
        let is_cut = parts > 1 || rows <= 1;
        let is_narrow = |case: &Case| case.row.is_some() || bounded(case, &Property::RowKey);
        return match () {
            () if partitions > 1 && !is_cut => QueryClass::TableScan,
            () if cases.iter().all(|case| case.row.is_some()) => match rows {
                0 | 1 => QueryClass::Point,
                _ if is_cut => QueryClass::MultiPoint,
                _ => QueryClass::PartitionScan,
            },
            () if cases.iter().all(is_narrow) => QueryClass::Range,
            () => QueryClass::PartitionScan,
        };
    }
    let is_ranged =
        |case: &Case| case.partition.is_some() || bounded(case, &Property::PartitionKey);
    if cases.iter().all(is_ranged) { QueryClass::PartitionRange } else { QueryClass::TableScan }
}

/// The hints for a query of a class.
pub(crate) fn hints(filter: Option<&Filter>, class: QueryClass, parts: &[Part]) -> Vec<Hint> {
    let mut hints = Vec::new();
    match class {
        QueryClass::TableScan | QueryClass::PartitionRange => hints.push(Hint::ScansTable),
        QueryClass::PartitionScan => hints.push(Hint::ScansPartition),
        _ => {}
    }
    let Some(filter) = filter else { return hints };
    if parts.len() <= 1 && cut(filter) > 1 {
        hints.push(Hint::OrOfKeys);
    }
    let in_one_partition = cases(filter).is_some_and(|cases| match &*cases {
        [first, rest @ ..] => rest.iter().all(|case| case.partition == first.partition),
        [] => false,
    });
    if parts.len() > 1 && in_one_partition {
        hints.push(Hint::OnePartition);
    }
    // Parts have fewer comparisons than the whole; a point read has none.
    let comparisons = |part: &Part| match part {
        Part::Point(_) => 0,
        Part::Query(filter) => filter.as_ref().map_or(0, Filter::comparisons),
    };
    let comparisons = parts.iter().map(comparisons).max().unwrap_or(0);
    if comparisons > COMPARISONS_DOCUMENTED {
        hints.push(Hint::ManyComparisons(comparisons));
    }
    visit(filter, &mut |property, operator| {
        let hint = match (property, operator) {
            (Property::Custom(name), Operator::Ne) => Hint::NeNeedsProperty((**name).to_owned()),
            (Property::Timestamp, _) => Hint::TimestampHasNoIndex,
            _ => return,
        };
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    });
    hints
}

fn cut(filter: &Filter) -> usize {
    parts(filter).len()
}

fn visit(filter: &Filter, comparison: &mut impl FnMut(&Property, Operator)) {
    match filter {
        Filter::Compare { property, operator, .. } => comparison(property, *operator),
        Filter::Not(inner) => visit(inner, comparison),
        Filter::And(parts) | Filter::Or(parts) => {
            parts.iter().for_each(|part| visit(part, comparison));
        }
        Filter::Constant(_) | Filter::IsTrue(_) | Filter::Extended(_) => {}
    }
}

/// An alternative of a filter: the keys it fixes, and its other conditions.
#[derive(Clone, Debug, Default)]
struct Case {
    partition: Option<String>,
    row: Option<String>,
    rest: Vec<Filter>,
}

impl Case {
    /// Both together; `None` if they need different keys.
    fn and(&self, other: &Self) -> Option<Self> {
        let key = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) if a != b => None,
            (a, b) => Some(a.clone().or_else(|| b.clone())),
        };
        Some(Self {
            partition: key(&self.partition, &other.partition)?,
            row: key(&self.row, &other.row)?,
            rest: self.rest.iter().chain(&other.rest).cloned().collect(),
        })
    }

    fn compare_keys(&self, other: &Self) -> Ordering {
        let key = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        key(&self.partition, &other.partition).then_with(|| key(&self.row, &other.row))
    }

    /// One row, under any of the conditions.
    fn point(cases: &[Self]) -> Part {
        let keys = cases.first().and_then(|case| {
            EntityKey::parse(case.partition.as_deref()?, case.row.as_deref()?).ok()
        });
        match keys {
            Some(key) if cases.iter().any(|case| case.rest.is_empty()) => Part::Point(key),
            // No entity can have such a key, or a condition is left.
            _ => Part::Query(Self::joined(cases)),
        }
    }

    /// One partition, under any of the conditions.
    fn joined(cases: &[Self]) -> Option<Filter> {
        let first = cases.first()?;
        let named = |property, key: &Option<String>| {
            key.as_ref().map(|key| {
                Filter::compare(property, Operator::Eq, Value::String(key.clone().into()))
            })
        };
        let partition = named(Property::PartitionKey, &first.partition)?;
        let same_row = cases.iter().all(|case| case.row == first.row);
        let front = match named(Property::RowKey, &first.row).filter(|_| same_row) {
            Some(row) => partition.and(row),
            None => partition,
        };
        let mut alternatives = Vec::new();
        for case in cases {
            let row = named(Property::RowKey, &case.row).filter(|_| !same_row);
            match row.into_iter().chain(case.rest.iter().cloned()).reduce(Filter::and) {
                Some(alternative) => alternatives.push(alternative),
                // It selects the whole partition, or the whole row.
                None => return Some(front),
            }
        }
        alternatives.into_iter().reduce(Filter::or).map(|either| front.and(either))
    }
}

/// The alternatives of a filter, as far as they are about keys; `None` if there are too many.
fn cases(filter: &Filter) -> Option<Vec<Case>> {
    let cases = match filter {
        Filter::Constant(true) => vec![Case::default()],
        Filter::Constant(false) => Vec::new(),
        Filter::And(parts) => {
            let mut all = vec![Case::default()];
            for part in parts {
                let these = cases(part)?;
                if all.len().saturating_mul(these.len()) > CASES_MAX {
                    return None;
                }
                all = all.iter().flat_map(|a| these.iter().filter_map(|b| a.and(b))).collect();
            }
            all
        }
        Filter::Or(parts) if names_keys(filter) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(cases(part)?);
            }
            all
        }
        other => match fixed_key(other) {
            Some((Property::PartitionKey, key)) => {
                vec![Case { partition: Some(key.to_owned()), ..Case::default() }]
            }
            Some((_, key)) => vec![Case { row: Some(key.to_owned()), ..Case::default() }],
            None => vec![Case { rest: vec![other.clone()], ..Case::default() }],
        },
    };
    (cases.len() <= CASES_MAX).then_some(cases)
}

/// Whether every alternative names a key.
fn names_keys(filter: &Filter) -> bool {
    match filter {
        Filter::Constant(value) => !value,
        Filter::And(parts) => parts.iter().any(names_keys),
        Filter::Or(parts) => parts.iter().all(names_keys),
        other => fixed_key(other).is_some(),
    }
}

/// The key that a comparison fixes.
fn fixed_key(filter: &Filter) -> Option<(&Property, &str)> {
    match filter {
        Filter::Compare {
            property: property @ (Property::PartitionKey | Property::RowKey),
            operator: Operator::Eq,
            value: Value::String(key),
        } => Some((property, key)),
        _ => None,
    }
}

/// Whether a comparison bounds a key from below or above.
fn is_bound(filter: &Filter, key: &Property) -> bool {
    use Operator::{Ge, Gt, Le, Lt};
    match filter {
        Filter::Compare { property, operator: Ge | Gt | Le | Lt, value: Value::String(_) } => {
            property == key
        }
        Filter::And(parts) => parts.iter().any(|part| is_bound(part, key)),
        Filter::Or(parts) => parts.iter().all(|part| is_bound(part, key)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
