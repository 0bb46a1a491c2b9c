//! `Filter` → `Plan`: which keys to read so that no selected entity is missed.
//!
//! A filter restricts the two keys to a set of *blocks*, each an interval of partition keys times
//! an interval of row keys. Comparisons with a key are exact; anything else restricts nothing;
//! `and` intersects, `or` unites, and `not` is pushed down to the comparisons. The plan may read
//! too much, never too little; conditions that the reads do not ensure are evaluated for each
//! entity.

use crate::explain::{KeyInterval, ReadKeys};
use lazuli_engine::{Key, KeyRange};
use lazuli_layout::{TableId, key};
use lazuli_model::filter::{Case, Extended};
use lazuli_model::key::compare;
use lazuli_model::{Filter, Operator, Property, Row, Timestamp, Value, ValueRef};
use std::cmp::Ordering;
use std::ops::Bound;

/// Maximum number of blocks in a plan. Beyond it the plan restricts less.
const BLOCKS_MAX: usize = 4096;

/// How a query reads, from cheapest to most expensive; a query that reads in several ways has the
/// most expensive kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanKind {
    /// One entity by its keys.
    Point,
    /// Several entities by their keys; none if the filter is contradictory.
    MultiPoint,
    /// Ranges of row keys within partitions.
    RowRange,
    /// Whole partitions.
    Partition,
    /// Ranges of partitions.
    PartitionRange,
    /// The whole table.
    Table,
    /// Entities that an index names.
    Index,
}

impl PlanKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Point => "Point",
            Self::MultiPoint => "MultiPoint",
            Self::RowRange => "RowRange",
            Self::Partition => "Partition",
            Self::PartitionRange => "PartitionRange",
            Self::Table => "Table",
            Self::Index => "Index",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan<'f> {
    pub(crate) kind: PlanKind,
    pub(crate) reads: Reads,
    /// The conditions that each entity read must still satisfy.
    pub(crate) conditions: Vec<&'f Filter>,
}

/// What to read, in key order, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Points(Vec<Key>),
    Ranges(Vec<KeyRange>),
}

impl Reads {
    /// The same in descending key order.
    pub(crate) fn reverse(&mut self) {
        match self {
            Self::Points(keys) => keys.reverse(),
            Self::Ranges(ranges) => ranges.reverse(),
        }
    }
}

impl<'f> Plan<'f> {
    /// Plans a query of `table` within `limits`.
    pub(crate) fn new(table: TableId, filter: Option<&'f Filter>, limits: &KeyRange) -> Self {
        let conditions = filter.map(conjuncts).unwrap_or_default();
        let blocks = filter.map_or_else(|| vec![Block::ALL], |filter| confine(filter, false));
        if blocks.iter().all(Block::is_point) {
            // Conditions on keys alone are decided here, for each of the points.
            let (of_keys, conditions): (Vec<_>, Vec<_>) =
                conditions.into_iter().partition(|condition| condition.names_keys_only());
            let selected = |block: &&Block<'_>| of_keys.iter().all(|c| c.matches(*block));
            let points = blocks.iter().filter(selected);
            let mut keys: Vec<Key> = points.filter_map(|block| block.point(table)).collect();
            keys.sort_unstable();
            keys.dedup();
            let kind = match keys.len() {
                1 => PlanKind::Point,
                _ => PlanKind::MultiPoint,
            };
            keys.retain(|key| limits.contains(key.as_slice()));
            return Self { kind, reads: Reads::Points(keys), conditions };
        }
        let kind = blocks.iter().map(Block::kind).max();
        let ranges = blocks.iter().map(|block| block.range(table).intersect(limits.clone()));
        let open = |condition: &&Filter| !blocks_ensure(&blocks, condition);
        Self {
            kind: kind.unwrap_or(PlanKind::Table),
            reads: Reads::Ranges(disjoint(ranges.collect())),
            conditions: conditions.into_iter().filter(open).collect(),
        }
    }

    /// The reads of a query in readable form, each with its keys, in key order; they may overlap.
    pub(crate) fn blocks(table: TableId, filter: Option<&Filter>) -> Vec<(KeyRange, ReadKeys)> {
        let mut blocks = filter.map_or_else(|| vec![Block::ALL], |filter| confine(filter, false));
        if let (true, Some(filter)) = (blocks.iter().all(Block::is_point), filter) {
            let conditions = conjuncts(filter);
            let of_keys = || conditions.iter().filter(|condition| condition.names_keys_only());
            blocks.retain(|block| of_keys().all(|condition| condition.matches(block)));
        }
        let read = |block: &Block<'_>| {
            let keys = ReadKeys::new(block.partition.to_owned(), block.row.to_owned());
            (block.range(table), keys)
        };
        let mut reads: Vec<_> = blocks.iter().map(read).collect();
        reads.sort_by(|(a, _), (b, _)| a.start.cmp(&b.start));
        reads
    }
}

/// The kind of the same query on Azure, which reads one range: only conditions joined by `and` at
/// the top level restrict it, so an `or` of keys is a scan.
pub(crate) fn azure_kind(filter: Option<&Filter>) -> PlanKind {
    let conditions = filter.map(conjuncts).unwrap_or_default();
    let plain = conditions.into_iter().filter(|c| matches!(c, Filter::Compare { .. }));
    let mut confined = plain.flat_map(|condition| confine(condition, false));
    let block = confined.try_fold(Block::ALL, Block::intersect);
    block.map_or(PlanKind::MultiPoint, |block| block.kind())
}

/// The conditions that `filter` joins by `and`.
pub(crate) fn conjuncts(filter: &Filter) -> Vec<&Filter> {
    match filter {
        Filter::And(parts) => parts.iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// Whether every key within the range of the only block satisfies `condition`, one of those that
/// produced it.
fn blocks_ensure(blocks: &[Block<'_>], condition: &Filter) -> bool {
    let [block] = blocks else { return false };
    let property = match condition {
        Filter::Compare { property, operator, value: Value::String(_) }
            if *operator != Operator::Ne =>
        {
            property
        }
        Filter::Extended(Extended::Text(test)) if test.interval().is_some() => &test.term.property,
        _ => return false,
    };
    match property {
        Property::PartitionKey => true,
        // Ranges that span partitions include other rows between the ends of the block.
        Property::RowKey => block.partition.point().is_some(),
        Property::Timestamp | Property::Custom(_) => false,
    }
}

/// The ranges to which `filter` restricts the partition key, for a store keyed by a single text.
pub(crate) fn partition_ranges(filter: &Filter) -> Vec<(Bound<&str>, Bound<&str>)> {
    let blocks = confine(filter, false);
    blocks.iter().map(|block| (block.partition.low, block.partition.high)).collect()
}

/// The same keys as sorted, non-empty, disjoint ranges.
pub(crate) fn disjoint(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by(|a, b| a.start.cmp(&b.start));
    ranges.dedup_by(|later, earlier| {
        let touch = later.start <= earlier.end;
        if touch && later.end > earlier.end {
            std::mem::swap(&mut earlier.end, &mut later.end);
        }
        touch
    });
    ranges
}

/// The entities whose keys both lie in an interval.
#[derive(Clone, Copy, Debug)]
struct Block<'f> {
    partition: Interval<'f>,
    row: Interval<'f>,
}

impl<'f> Block<'f> {
    const ALL: Self = Self { partition: Interval::ALL, row: Interval::ALL };

    fn intersect(self, other: Self) -> Option<Self> {
        Some(Self {
            partition: self.partition.intersect(other.partition)?,
            row: self.row.intersect(other.row)?,
        })
    }

    fn is_point(&self) -> bool {
        self.partition.point().is_some() && self.row.point().is_some()
    }

    fn point(&self, table: TableId) -> Option<Key> {
        let (partition, row) = (self.partition.point()?, self.row);
        row.point()?;
        Some(key::row_range(table, partition, row.low, row.high).start.into())
    }

    fn kind(&self) -> PlanKind {
        match (self.partition.point(), self.row.point()) {
            (Some(_), Some(_)) => PlanKind::Point,
            (Some(_), None) if self.row.is_all() => PlanKind::Partition,
            (Some(_), None) => PlanKind::RowRange,
            (None, _) if self.partition.is_all() => PlanKind::Table,
            (None, _) => PlanKind::PartitionRange,
        }
    }

    /// The keys of the block; if it spans partitions, also other rows between its ends.
    fn range(&self, table: TableId) -> KeyRange {
        let (partition, row) = (self.partition, self.row);
        let range = match partition.point() {
            Some(text) => key::row_range(table, text, row.low, row.high),
            None => key::partition_range(table, partition.low, partition.high),
        };
        KeyRange::new(range.start, range.end)
    }
}

/// A block of one point is an entity with only its keys known.
impl Row for Block<'_> {
    fn partition_key(&self) -> &str {
        self.partition.point().unwrap_or_default()
    }

    fn row_key(&self) -> &str {
        self.row.point().unwrap_or_default()
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn custom(&self, _: &str) -> Option<ValueRef<'_>> {
        None
    }
}

/// Texts from `low` to `high`, by UTF-16 code unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval<'f> {
    low: Bound<&'f str>,
    high: Bound<&'f str>,
}

impl<'f> Interval<'f> {
    const ALL: Self = Self { low: Bound::Unbounded, high: Bound::Unbounded };

    /// The interval that `operator text` selects. `ne` would need two and is not restricted.
    fn of(operator: Operator, text: &'f str) -> Self {
        use Bound::{Excluded, Included, Unbounded};
        let (low, high) = match operator {
            Operator::Eq => (Included(text), Included(text)),
            Operator::Ne => (Unbounded, Unbounded),
            Operator::Gt => (Excluded(text), Unbounded),
            Operator::Ge => (Included(text), Unbounded),
            Operator::Lt => (Unbounded, Excluded(text)),
            Operator::Le => (Unbounded, Included(text)),
        };
        Self { low, high }
    }

    /// The intersection; `None` if it is empty.
    fn intersect(self, other: Self) -> Option<Self> {
        let low = tighter(self.low, other.low, Ordering::Greater);
        let high = tighter(self.high, other.high, Ordering::Less);
        let (Some(from), Some(to)) = (text_of(low), text_of(high)) else {
            return Some(Self { low, high });
        };
        let is_empty = match compare(from, to) {
            Ordering::Less => false,
            Ordering::Equal => low != Bound::Included(from) || high != Bound::Included(to),
            Ordering::Greater => true,
        };
        (!is_empty).then_some(Self { low, high })
    }

    /// The one text of the interval.
    fn point(self) -> Option<&'f str> {
        match (self.low, self.high) {
            (Bound::Included(low), Bound::Included(high)) if low == high => Some(low),
            _ => None,
        }
    }

    fn is_all(self) -> bool {
        self == Self::ALL
    }

    fn to_owned(self) -> KeyInterval {
        let (low, high) = (self.low.map(str::to_owned), self.high.map(str::to_owned));
        KeyInterval { low, high }
    }
}

/// The tighter bound; `toward` is the direction in which bounds get tighter.
fn tighter<'f>(a: Bound<&'f str>, b: Bound<&'f str>, toward: Ordering) -> Bound<&'f str> {
    match (text_of(a), text_of(b)) {
        (None, _) => b,
        (_, None) => a,
        (Some(x), Some(y)) => match compare(x, y) {
            Ordering::Equal if matches!(a, Bound::Excluded(_)) => a,
            Ordering::Equal => b,
            order if order == toward => a,
            _ => b,
        },
    }
}

fn text_of(bound: Bound<&str>) -> Option<&str> {
    match bound {
        Bound::Included(text) | Bound::Excluded(text) => Some(text),
        Bound::Unbounded => None,
    }
}

/// Blocks that contain every entity that satisfies `filter`, or with `negated` every one that does
/// not.
fn confine(filter: &Filter, negated: bool) -> Vec<Block<'_>> {
    match filter {
        Filter::Constant(value) if *value == negated => Vec::new(),
        Filter::Compare { property, operator, value: Value::String(text) } => {
            let operator = if negated { opposite(*operator) } else { *operator };
            vec![confine_key(property, Interval::of(operator, text))]
        }
        Filter::Extended(extended) if !negated => confine_extended(extended),
        // A comparison of a key with anything but text is left to the filter itself.
        Filter::Constant(_) | Filter::Compare { .. } | Filter::IsTrue(_) | Filter::Extended(_) => {
            vec![Block::ALL]
        }
        Filter::Not(inner) => confine(inner, !negated),
        Filter::And(parts) if negated => union(parts, negated),
        Filter::And(parts) => intersection(parts, negated),
        Filter::Or(parts) if negated => intersection(parts, negated),
        Filter::Or(parts) => union(parts, negated),
    }
}

/// `startswith` is an interval, and `in` one key for each literal.
fn confine_extended(extended: &Extended) -> Vec<Block<'_>> {
    match extended {
        Extended::Text(test) => {
            let interval = test.interval().map(|(low, high)| Interval { low, high });
            vec![confine_key(&test.term.property, interval.unwrap_or(Interval::ALL))]
        }
        Extended::In { term, values } if term.case == Case::AsIs => match term.property {
            Property::PartitionKey | Property::RowKey => {
                let block = |value| confine_key(&term.property, only(value));
                values.iter().map(block).collect()
            }
            Property::Timestamp | Property::Custom(_) => vec![Block::ALL],
        },
        Extended::In { .. } | Extended::Compare { .. } => vec![Block::ALL],
    }
}

/// The interval of one literal, if it is text.
fn only<'f>(value: &'f Value<'static>) -> Interval<'f> {
    match value {
        Value::String(text) => Interval::of(Operator::Eq, text),
        _ => Interval::ALL,
    }
}

fn confine_key<'f>(property: &Property, interval: Interval<'f>) -> Block<'f> {
    let mut block = Block::ALL;
    match property {
        Property::PartitionKey => block.partition = interval,
        Property::RowKey => block.row = interval,
        Property::Timestamp | Property::Custom(_) => {}
    }
    block
}

/// Small sets come first, so that they reduce the large ones. A set that would produce too many
/// blocks is skipped: the plan then restricts less, which is allowed.
fn intersection(parts: &[Filter], negated: bool) -> Vec<Block<'_>> {
    let mut sets: Vec<_> = parts.iter().map(|part| confine(part, negated)).collect();
    sets.sort_by_key(Vec::len);
    sets.into_iter().fold(vec![Block::ALL], |blocks, set| {
        if blocks.len() * set.len() > BLOCKS_MAX {
            return blocks;
        }
        let pairs = blocks.iter().flat_map(|a| set.iter().map(move |b| (a, b)));
        pairs.filter_map(|(a, b)| a.intersect(*b)).collect()
    })
}

fn union(parts: &[Filter], negated: bool) -> Vec<Block<'_>> {
    let blocks: Vec<_> = parts.iter().flat_map(|part| confine(part, negated)).collect();
    if blocks.len() > BLOCKS_MAX {
        return vec![Block::ALL];
    }
    blocks
}

/// The operator that holds for a key exactly when `operator` does not: keys are never missing.
const fn opposite(operator: Operator) -> Operator {
    match operator {
        Operator::Eq => Operator::Ne,
        Operator::Ne => Operator::Eq,
        Operator::Gt => Operator::Le,
        Operator::Ge => Operator::Lt,
        Operator::Lt => Operator::Ge,
        Operator::Le => Operator::Gt,
    }
}

#[cfg(test)]
mod tests;
