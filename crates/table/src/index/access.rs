//! Which indexes serve a filter, and how.
//!
//! An entity that lacks a property of an index is not in it. A comparison with a missing
//! property is false, so an index can serve a filter only if the filter compares every one of its
//! properties: then it selects no entity that the index lacks.

use super::{IndexAccess, IndexUse};
use crate::plan::conjuncts;
use lazuli_layout::TableId;
use lazuli_layout::key::index::with_prefix;
use lazuli_layout::settings::{IndexState, TableIndex, TableSettings};
use lazuli_model::{Filter, IndexName};
use std::cmp::Reverse;
use std::ops::Range;

mod conditions;

use conditions::{Around, Conditions};

/// Maximum streams that one query merges, and combinations of values of several properties. Beyond
/// it, entries are collected.
const STREAMS_MAX: usize = 1024;

/// Conditions around an `or` that its branches may use: an index has at most four properties, and a
/// filter may have thousands of `in`.
const AROUND_MAX: usize = 32;

/// How indexes serve a filter.
#[derive(Debug)]
pub(crate) enum Access<'s> {
    /// Entries in the order of their entities.
    Stream(Tree<'s>),
    /// Ranges of entries in other orders, to be collected and sorted.
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

    /// The names of the indexes, without duplicates.
    pub(crate) fn names(&self) -> Vec<IndexName> {
        let mut names = Vec::new();
        self.visit(&mut |index| {
            if !names.contains(index.definition.name()) {
                names.push(index.definition.name().clone());
            }
        });
        names
    }

    /// What a query reports that read `entries` entries this way.
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

    /// The number of streams read.
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

fn are_of_one_index(whole: &[Ranged<'_>], parts: &[Ranged<'_>]) -> bool {
    let index = |ranged: &Ranged<'_>| ranged.index.definition.name().clone();
    let name = whole.first().map(index);
    parts.iter().all(|part| Some(index(part)) == name)
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
        match self.intersection(&conjuncts(filter), &Around::new(Vec::new(), STREAMS_MAX))? {
            Access::Stream(tree) if tree.leaves() > STREAMS_MAX => {
                Some(Access::Collect(tree.into_ranges()))
            }
            access => Some(access),
        }
    }

    /// Every part must be served, by itself or together with what holds for all of them.
    fn union(&self, parts: &[Filter], around: &Around<'_>) -> Option<Access<'s>> {
        let part = |part| self.intersection(&conjuncts(part), around);
        let parts: Vec<_> = parts.iter().map(part).collect::<Option<_>>()?;
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

    /// One served part is enough; those in the order of entities reduce each other. What is `around`
    /// holds too, and is served elsewhere.
    fn intersection(&self, parts: &[&Filter], around: &Around<'_>) -> Option<Access<'s>> {
        let conditions = Conditions::new(parts, around);
        let mut trees = self.exact(&conditions);
        let mut collected = None;
        for (place, part) in parts.iter().enumerate() {
            let Filter::Or(branches) = part else { continue };
            // One that only gives values to a property is among the conditions.
            if conditions::values_given(part).is_some() {
                continue;
            }
            let others = parts.iter().enumerate().filter(|(other, _)| *other != place);
            let others = others.map(|(_, part)| part).chain(&around.parts).copied();
            let values_max = around.values_max / branches.len().max(1);
            let around = Around::new(others.take(AROUND_MAX).collect(), values_max.max(1));
            match self.union(branches, &around) {
                Some(Access::Stream(tree)) => trees.push(tree),
                Some(Access::Collect(ranges)) => collected = Some(ranges),
                None => {}
            }
        }
        // Trees with few streams come first; those beyond the limit are left out.
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
        let ranges = match (self.ranged(&conditions), collected) {
            // Within one index, branches that use what is around them leave less than that alone.
            (Some(whole), Some(parts)) if are_of_one_index(&whole, &parts) => Some(parts),
            (whole, parts) => whole.or(parts),
        };
        ranges.map(Access::Collect)
    }

    /// The indexes all of whose properties have values, except those that another one covers.
    fn exact(&self, conditions: &Conditions<'_>) -> Vec<Tree<'s>> {
        let mut served: Vec<(&'s TableIndex, Vec<Vec<u8>>)> = Vec::new();
        for index in &self.indexes {
            let (given, prefixes) = self.prefixes(index, conditions);
            let on = index.definition.on();
            if given < on.len() || !on.iter().any(|on| conditions.narrows(on)) {
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

    /// How many of the first properties of an index have given values, and the prefixes of the
    /// entries with every combination of these, sorted, without duplicates.
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

    /// The index that the conditions narrow the most, as far as can be seen: most values given,
    /// then most bounds, then fewest ranges.
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
            if given + bounds == 0 || !on.iter().take(given + 1).any(|on| conditions.narrows(on)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_model::{IndexDefinition, Operator, Property, Timestamp, Value};

    fn settings(on: [[&str; 2]; 2]) -> TableSettings {
        let index = |(number, on): (u32, [&str; 2])| TableIndex {
            number,
            definition: IndexDefinition::new(&format!("index{number}"), &on, false).unwrap(),
            state: IndexState::Ready,
            since: Timestamp::UNIX_EPOCH,
            examined: 0,
            is_automatic: false,
            is_cut_short: false,
        };
        TableSettings { indexes: (0..).zip(on).map(index).collect(), ..TableSettings::default() }
    }

    fn eq(name: &str, value: Value<'static>) -> Filter {
        let property = Property::from_name(name);
        Filter::Compare { property, operator: Operator::Eq, value }
    }

    /// what many branches use of what is around them does not multiply.
    #[test]
    fn branches_and_what_is_around_them_stay_within_bounds() {
        let value = |number: i32| eq("C", number.into());
        let branch = |number: i32| {
            let name = if number % 2 == 0 { "A" } else { "B" };
            eq(name, number.into())
        };
        let filter = |values, branches| {
            let values = Filter::Or((0..values).map(value).collect());
            Filter::And(vec![values, Filter::Or((0..branches).map(branch).collect())])
        };
        let [first, last] =
            [settings([["C", "A"], ["C", "B"]]), settings([["A", "C"], ["B", "C"]])];
        for settings in [&first, &last] {
            let ranges = |values, branches| {
                let access = find(TableId(1), settings, &filter(values, branches));
                access.map(|access| access.into_ranges().len())
            };
            assert_eq!(ranges(1, 1500), Some(1500));
            assert_eq!(ranges(16, 64), Some(1024));
            let many = ranges(1000, 1500).unwrap_or_default();
            assert!(many <= 4 * STREAMS_MAX, "{many} ranges");
        }
    }
}
