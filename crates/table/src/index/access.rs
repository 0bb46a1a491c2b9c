//! Which indexes serve a filter, and how.
//!
//! An entity that lacks a property of an index is not in it. A comparison with a missing
//! property is false, so an index can serve a filter only if the filter compares every one of its
//! properties: then it selects no entity that the index lacks.

use super::{IndexAccess, IndexUse};
use lazuli_layout::TableId;
use lazuli_layout::key::index::with_prefix;
use lazuli_layout::settings::{IndexState, TableIndex, TableSettings};
use lazuli_model::filter::{Case, Extended};
use lazuli_model::{Filter, IndexName, Operator, Property, Value, ValueRef};
use std::ops::Range;

/// How indexes serve a filter.
#[derive(Debug)]
pub(crate) enum Access<'s> {
    /// Entries in the order of their entities.
    Stream(Tree<'s>),
    /// Ranges of entries in other orders: to be collected and sorted.
    Collect(Vec<Ranged<'s>>),
}

/// Streams of entries, in the order of their entities.
#[derive(Debug)]
pub(crate) enum Tree<'s> {
    /// All entries of one value.
    Leaf(Leaf<'s>),
    /// The entities that are in every stream.
    And(Vec<Self>),
    /// The entities that are in any stream.
    Or(Vec<Self>),
}

/// All entries of an index with the same values: those that begin with `prefix`.
#[derive(Debug)]
pub(crate) struct Leaf<'s> {
    pub(crate) index: &'s TableIndex,
    pub(crate) prefix: Vec<u8>,
}

/// Entries of an index within a range of values.
#[derive(Debug)]
pub(crate) struct Ranged<'s> {
    pub(crate) index: &'s TableIndex,
    pub(crate) range: Range<Vec<u8>>,
}

/// How the ready indexes of a table serve `filter`; `None` if they do not.
pub(crate) fn find<'s>(
    table: TableId,
    settings: &'s TableSettings,
    filter: &Filter,
) -> Option<Access<'s>> {
    let indexes: Vec<_> =
        settings.indexes.iter().filter(|index| index.state == IndexState::Ready).collect();
    if indexes.is_empty() {
        return None;
    }
    Finder { table, indexes }.find(filter)
}

/// The names of indexes that would serve `filter` if they were ready.
pub(crate) fn candidates(
    table: TableId,
    settings: &TableSettings,
    filter: &Filter,
) -> Vec<IndexName> {
    let serves = |index: &&TableIndex| {
        index.state == IndexState::Building
            && Finder { table, indexes: vec![*index] }.find(filter).is_some()
    };
    settings.indexes.iter().filter(serves).map(|index| index.definition.name().clone()).collect()
}

impl<'s> Access<'s> {
    pub(crate) fn kind(&self) -> IndexAccess {
        match self {
            Self::Stream(Tree::Leaf(_)) => IndexAccess::Eq,
            Self::Stream(Tree::And(_)) => IndexAccess::Intersect,
            Self::Stream(Tree::Or(_)) => IndexAccess::Union,
            Self::Collect(_) => IndexAccess::Range,
        }
    }

    /// The indexes, each once.
    pub(crate) fn names(&self) -> Vec<IndexName> {
        let mut names = Vec::new();
        self.visit(&mut |index| {
            if !names.contains(index.definition.name()) {
                names.push(index.definition.name().clone());
            }
        });
        names
    }

    /// What a query that read `entries` this way reports.
    pub(crate) fn used(&self, entries: u64) -> IndexUse {
        let mut automatic = true;
        self.visit(&mut |index| automatic &= index.is_automatic);
        IndexUse { names: self.names(), access: self.kind(), entries, automatic }
    }

    fn visit(&self, found: &mut impl FnMut(&'s TableIndex)) {
        match self {
            Self::Stream(tree) => tree.visit(found),
            Self::Collect(ranges) => ranges.iter().for_each(|ranged| found(ranged.index)),
        }
    }

    /// The same entries as ranges.
    fn into_ranges(self) -> Vec<Ranged<'s>> {
        match self {
            Self::Collect(ranges) => ranges,
            Self::Stream(tree) => tree.into_ranges(),
        }
    }
}

impl<'s> Tree<'s> {
    fn visit(&self, found: &mut impl FnMut(&'s TableIndex)) {
        match self {
            Self::Leaf(leaf) => found(leaf.index),
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.visit(found)),
        }
    }

    /// Ranges that contain every entry of the stream; one part of an intersection is enough.
    fn into_ranges(self) -> Vec<Ranged<'s>> {
        match self {
            Self::Leaf(leaf) => {
                vec![Ranged { index: leaf.index, range: with_prefix(leaf.prefix) }]
            }
            Self::And(parts) => parts.into_iter().next().map(Self::into_ranges).unwrap_or_default(),
            Self::Or(parts) => parts.into_iter().flat_map(Self::into_ranges).collect(),
        }
    }
}

struct Finder<'s> {
    table: TableId,
    indexes: Vec<&'s TableIndex>,
}

impl<'s> Finder<'s> {
    fn find(&self, filter: &Filter) -> Option<Access<'s>> {
        match filter {
            Filter::Or(parts) => self.union(parts),
            Filter::And(parts) => self.intersection(parts),
            Filter::Extended(Extended::In { term, values }) if term.case == Case::AsIs => {
                self.one_of(&term.property, values)
            }
            other => self.intersection(std::slice::from_ref(other)),
        }
    }

    /// Every part must be served.
    fn union(&self, parts: &[Filter]) -> Option<Access<'s>> {
        self.any(parts.iter().map(|part| self.find(part)).collect::<Option<_>>()?)
    }

    fn any(&self, parts: Vec<Access<'s>>) -> Option<Access<'s>> {
        if !parts.iter().all(|part| matches!(part, Access::Stream(_))) {
            return Some(Access::Collect(
                parts.into_iter().flat_map(Access::into_ranges).collect(),
            ));
        }
        let trees = parts.into_iter().filter_map(|part| match part {
            Access::Stream(tree) => Some(tree),
            Access::Collect(_) => None,
        });
        Some(Access::Stream(Tree::Or(trees.collect())))
    }

    /// `in` is `or`.
    fn one_of(&self, property: &Property, values: &[Value<'static>]) -> Option<Access<'s>> {
        let equal = |value: &Value<'static>| {
            self.find(&Filter::compare(property.clone(), Operator::Eq, value.clone()))
        };
        self.any(values.iter().map(equal).collect::<Option<_>>()?)
    }

    /// One served part is enough; those in the order of entities reduce each other.
    fn intersection(&self, parts: &[Filter]) -> Option<Access<'s>> {
        let conditions = Conditions::of(parts);
        let mut trees: Vec<_> = self.exact(&conditions).into_iter().map(Tree::Leaf).collect();
        let mut collected = None;
        for part in parts {
            let access = match part {
                Filter::Or(parts) => self.union(parts),
                Filter::And(parts) => self.intersection(parts),
                Filter::Extended(Extended::In { .. }) if parts.len() > 1 => self.find(part),
                _ => None,
            };
            match access {
                Some(Access::Stream(tree)) => trees.push(tree),
                Some(Access::Collect(ranges)) => collected = Some(ranges),
                None => {}
            }
        }
        if trees.len() > 1 {
            return Some(Access::Stream(Tree::And(trees)));
        }
        if let Some(tree) = trees.pop() {
            return Some(Access::Stream(tree));
        }
        let ranged = self.ranged(&conditions).map(|ranged| vec![ranged]);
        ranged.or(collected).map(Access::Collect)
    }

    /// The indexes whose every property has a value, without those that another one covers.
    fn exact(&self, conditions: &Conditions<'_>) -> Vec<Leaf<'s>> {
        let mut served: Vec<(&'s TableIndex, Vec<ValueRef<'_>>)> = Vec::new();
        for index in &self.indexes {
            let values: Option<Vec<_>> =
                index.definition.on().iter().map(|on| conditions.equal(on)).collect();
            let Some(values) = values else { continue };
            let covers = |a: &TableIndex, b: &TableIndex| {
                b.definition.on().iter().all(|on| a.definition.on().contains(on))
            };
            if served.iter().any(|(other, _)| covers(other, index)) {
                continue;
            }
            served.retain(|(other, _)| !covers(index, other));
            served.push((index, values));
        }
        let leaf = |(index, values): (&'s TableIndex, Vec<ValueRef<'_>>)| Leaf {
            index,
            prefix: index.entries(self.table).prefix(values),
        };
        served.into_iter().map(leaf).collect()
    }

    /// The index of which the conditions leave the smallest part, as far as can be seen: most
    /// values given, then most bounds.
    fn ranged(&self, conditions: &Conditions<'_>) -> Option<Ranged<'s>> {
        let mut best: Option<((usize, usize), Ranged<'s>)> = None;
        for index in &self.indexes {
            let on = index.definition.on();
            if !on.iter().all(|on| conditions.compares(on)) {
                continue;
            }
            let values: Vec<_> = on.iter().map_while(|on| conditions.equal(on)).collect();
            let given = values.len();
            let entries = index.entries(self.table);
            let prefix = entries.prefix(values);
            let mut range = with_prefix(prefix.clone());
            let mut bounds = 0;
            if let Some(next) = on.get(given) {
                let compared = conditions
                    .bounds(next)
                    .map(|(operator, value)| entries.compared(prefix.clone(), operator, value));
                let begun = conditions
                    .beginnings(next)
                    .map(|beginning| entries.beginning_with(prefix.clone(), beginning));
                for part in compared.chain(begun) {
                    range = range.start.max(part.start)..range.end.min(part.end);
                    bounds += 1;
                }
            }
            if given + bounds == 0 {
                continue;
            }
            if best.as_ref().is_none_or(|(rank, _)| *rank < (given, bounds)) {
                best = Some(((given, bounds), Ranged { index, range }));
            }
        }
        best.map(|(_, ranged)| ranged)
    }
}

/// Conditions that must all hold.
struct Conditions<'f> {
    comparisons: Vec<(&'f Property, Operator, ValueRef<'f>)>,
    /// Those that only extensions have: all are false of a missing property.
    extended: Vec<&'f Extended>,
}

impl<'f> Conditions<'f> {
    fn of(parts: &'f [Filter]) -> Self {
        let comparison = |part: &'f Filter| match part {
            Filter::Compare { property, operator, value } => {
                Some((property, *operator, value.as_ref()))
            }
            Filter::IsTrue(property) => Some((property, Operator::Eq, ValueRef::Boolean(true))),
            _ => None,
        };
        let extended = |part: &'f Filter| match part {
            Filter::Extended(extended) => Some(extended),
            _ => None,
        };
        Self {
            comparisons: parts.iter().filter_map(comparison).collect(),
            extended: parts.iter().filter_map(extended).collect(),
        }
    }

    fn on<'a>(&'a self, on: &'a Property) -> impl Iterator<Item = (Operator, ValueRef<'f>)> + 'a {
        self.comparisons
            .iter()
            .filter(move |(property, ..)| *property == on)
            .map(|&(_, op, value)| (op, value))
    }

    /// Whether an entity that lacks the property fails.
    fn compares(&self, on: &Property) -> bool {
        *on == Property::PartitionKey
            || self.on(on).next().is_some()
            || self.extended.iter().any(|extended| extended.term().property == *on)
    }

    fn equal(&self, on: &Property) -> Option<ValueRef<'f>> {
        self.on(on).find(|(operator, _)| *operator == Operator::Eq).map(|(_, value)| value)
    }

    /// Texts with which the property begins.
    fn beginnings<'a>(&'a self, on: &'a Property) -> impl Iterator<Item = &'f str> + 'a {
        self.extended.iter().filter_map(move |extended| match extended {
            Extended::Text(test) if test.term.property == *on => {
                test.interval().map(|_| test.text())
            }
            _ => None,
        })
    }

    fn bounds<'a>(
        &'a self,
        on: &'a Property,
    ) -> impl Iterator<Item = (Operator, ValueRef<'f>)> + 'a {
        self.on(on).filter(|(operator, _)| !matches!(operator, Operator::Eq | Operator::Ne))
    }
}
