//! Which indexes serve a filter, and how.
//!
//! An entity that lacks a property of an index is not in it. A comparison with a missing
//! property is false, so an index can serve a filter only if the filter compares every one of its
//! properties: then it selects no entity that the index lacks.

use super::{IndexAccess, IndexUse};
use lazuli_layout::TableId;
use lazuli_layout::key::index::with_prefix;
use lazuli_layout::settings::{IndexState, TableIndex, TableSettings};
use lazuli_model::{Filter, IndexName};
use std::cmp::Reverse;
use std::ops::Range;

mod conditions;

use conditions::Conditions;

/// Streams that one query merges, and combinations of the values of several properties. With more,
/// entries are collected.
const STREAMS_MAX: usize = 1024;

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

    /// How many streams are read.
    pub(crate) fn leaves(&self) -> usize {
        match self {
            Self::Leaf(_) => 1,
            Self::And(parts) | Self::Or(parts) => parts.iter().map(Self::leaves).sum(),
        }
    }

    /// Ranges that contain every entry of the stream; one part of an intersection is enough.
    fn into_ranges(self) -> Vec<Ranged<'s>> {
        match self {
            Self::Leaf(leaf) => {
                vec![Ranged { index: leaf.index, range: with_prefix(leaf.prefix) }]
            }
            Self::And(parts) => {
                let least = parts.into_iter().min_by_key(Self::leaves);
                least.map(Self::into_ranges).unwrap_or_default()
            }
            Self::Or(parts) => parts.into_iter().flat_map(Self::into_ranges).collect(),
        }
    }
}

/// How much of an index the conditions leave: values given, bounds, and ranges, of which fewer are
/// better.
type Score = (usize, usize, Reverse<usize>);

struct Finder<'s> {
    table: TableId,
    indexes: Vec<&'s TableIndex>,
}

impl<'s> Finder<'s> {
    fn find(&self, filter: &Filter) -> Option<Access<'s>> {
        match self.conjunction(filter)? {
            Access::Stream(tree) if tree.leaves() > STREAMS_MAX => {
                Some(Access::Collect(tree.into_ranges()))
            }
            access => Some(access),
        }
    }

    fn conjunction(&self, filter: &Filter) -> Option<Access<'s>> {
        match filter {
            Filter::And(parts) => self.intersection(parts),
            other => self.intersection(std::slice::from_ref(other)),
        }
    }

    /// Every part must be served.
    fn union(&self, parts: &[Filter]) -> Option<Access<'s>> {
        let parts: Vec<_> =
            parts.iter().map(|part| self.conjunction(part)).collect::<Option<_>>()?;
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

    /// One served part is enough; those in the order of entities reduce each other.
    fn intersection(&self, parts: &[Filter]) -> Option<Access<'s>> {
        let conditions = Conditions::of(parts);
        let mut trees = self.exact(&conditions);
        let mut collected = None;
        for part in parts {
            let access = match part {
                // One that only gives values to a property is among the conditions.
                Filter::Or(_) if conditions::values_given(part).is_some() => None,
                Filter::Or(parts) => self.union(parts),
                Filter::And(parts) => self.intersection(parts),
                _ => None,
            };
            match access {
                Some(Access::Stream(tree)) => trees.push(tree),
                Some(Access::Collect(ranges)) => collected = Some(ranges),
                None => {}
            }
        }
        // What one stream costs is worth the reading of those that are too many.
        trees.sort_by_key(Tree::leaves);
        let mut leaves = 0;
        trees.retain(|tree| {
            let is_first = leaves == 0;
            leaves += tree.leaves();
            is_first || leaves <= STREAMS_MAX
        });
        if trees.len() > 1 {
            return Some(Access::Stream(Tree::And(trees)));
        }
        if let Some(tree) = trees.pop() {
            return Some(Access::Stream(tree));
        }
        self.ranged(&conditions).or(collected).map(Access::Collect)
    }

    /// The indexes whose every property has values, without those that another one covers.
    fn exact(&self, conditions: &Conditions<'_>) -> Vec<Tree<'s>> {
        let mut served: Vec<(&'s TableIndex, Vec<Vec<u8>>)> = Vec::new();
        for index in &self.indexes {
            let (given, prefixes) = self.prefixes(index, conditions);
            if given < index.definition.on().len() {
                continue;
            }
            let covers = |a: &TableIndex, b: &TableIndex| {
                b.definition.on().iter().all(|on| a.definition.on().contains(on))
            };
            if served.iter().any(|(other, _)| covers(other, index)) {
                continue;
            }
            served.retain(|(other, _)| !covers(index, other));
            served.push((index, prefixes));
        }
        let tree = |(index, prefixes): (&'s TableIndex, Vec<Vec<u8>>)| {
            let leaf = |prefix| Tree::Leaf(Leaf { index, prefix });
            let mut leaves: Vec<Tree<'s>> = prefixes.into_iter().map(leaf).collect();
            match leaves.len() {
                1 => leaves.remove(0),
                _ => Tree::Or(leaves),
            }
        };
        served.into_iter().map(tree).collect()
    }

    /// How many of the first properties of an index are given values, and the beginnings of the
    /// entries with every combination of these, sorted, none twice.
    fn prefixes(&self, index: &TableIndex, conditions: &Conditions<'_>) -> (usize, Vec<Vec<u8>>) {
        let mut combinations = vec![Vec::new()];
        let mut given = 0;
        for on in index.definition.on() {
            let Some(values) = conditions.values(on) else { break };
            let combined = combinations.len() * values.len();
            if given > 0 && combined > STREAMS_MAX {
                break;
            }
            let longer = |known: &Vec<_>| {
                let known = known.clone();
                values.iter().map(move |value| [known.as_slice(), &[*value]].concat())
            };
            combinations = combinations.iter().flat_map(longer).collect();
            given += 1;
        }
        let entries = index.entries(self.table);
        let mut prefixes: Vec<_> =
            combinations.into_iter().map(|values| entries.prefix(values)).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        (given, prefixes)
    }

    /// The index of which the conditions leave the smallest part, as far as can be seen: most
    /// values given, then most bounds, then fewest ranges.
    fn ranged(&self, conditions: &Conditions<'_>) -> Option<Vec<Ranged<'s>>> {
        let mut best: Option<(Score, Vec<Ranged<'s>>)> = None;
        for &index in &self.indexes {
            let on = index.definition.on();
            if !on.iter().all(|on| conditions.compares(on)) {
                continue;
            }
            let (given, prefixes) = self.prefixes(index, conditions);
            let entries = index.entries(self.table);
            let next = on.get(given);
            let bounds = next.map_or(0, |next| {
                conditions.bounds(next).count() + conditions.beginnings(next).count()
            });
            if given + bounds == 0 {
                continue;
            }
            let range = |prefix: Vec<u8>| {
                let mut range = with_prefix(prefix.clone());
                if let Some(next) = next {
                    let compared = conditions
                        .bounds(next)
                        .map(|(operator, value)| entries.compared(prefix.clone(), operator, value));
                    let begun = conditions
                        .beginnings(next)
                        .map(|beginning| entries.beginning_with(prefix.clone(), beginning));
                    for part in compared.chain(begun) {
                        range = range.start.max(part.start)..range.end.min(part.end);
                    }
                }
                Ranged { index, range }
            };
            let score = (given, bounds, Reverse(prefixes.len()));
            if best.as_ref().is_none_or(|(known, _)| score > *known) {
                best = Some((score, prefixes.into_iter().map(range).collect()));
            }
        }
        best.map(|(_, ranges)| ranges)
    }
}
