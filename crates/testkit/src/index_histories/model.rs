//! What a table contains, kept in the simplest way.

use super::random::{Change, Effect, Pairs};
use lazuli_model::{Filter, IndexDefinition, Operator, Property, Row, Timestamp, ValueRef};
use std::collections::BTreeMap;

/// Entities by PartitionKey and RowKey. The keys of the tests are ASCII, so their order is that of
/// the service.
#[derive(Clone, Debug, Default)]
pub(super) struct Model(BTreeMap<(String, String), Pairs>);

struct Entity<'m> {
    key: &'m (String, String),
    pairs: &'m Pairs,
}

impl Row for Entity<'_> {
    fn partition_key(&self) -> &str {
        &self.key.0
    }

    fn row_key(&self) -> &str {
        &self.key.1
    }

    fn timestamp(&self) -> Timestamp {
        // No filter of the tests names it.
        Timestamp::UNIX_EPOCH
    }

    fn custom(&self, name: &str) -> Option<ValueRef<'_>> {
        let (_, value) = self.pairs.iter().find(|(known, _)| *known == name)?;
        Some(value.as_ref())
    }
}

impl Model {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The state that `changes` leave; `None` if one deletes what does not exist.
    pub(super) fn after(&self, changes: &[Change]) -> Option<Self> {
        let mut after = self.clone();
        for Change { partition, row, effect } in changes {
            let key = (partition.clone(), row.clone());
            match effect {
                Effect::Put(pairs) => {
                    after.0.insert(key, pairs.clone());
                }
                Effect::Merge(pairs) => {
                    let stored = after.0.entry(key).or_default();
                    for (name, value) in pairs {
                        stored.retain(|(known, _)| known != name);
                        stored.push((name, value.clone()));
                    }
                }
                Effect::Delete => drop(after.0.remove(&key)?),
            }
        }
        Some(after)
    }

    /// The keys of the entities that a filter selects.
    pub(super) fn selected(&self, filter: &Filter) -> Vec<(String, String)> {
        let selected = self.entities().filter(|entity| filter.matches(entity));
        selected.map(|entity| entity.key.clone()).collect()
    }

    /// Whether two entities are equal in every property of `index`, according to `eq`.
    pub(super) fn shares_values(&self, index: &IndexDefinition) -> bool {
        let is_equal = |a: &Entity<'_>, b: &Entity<'_>, property: &Property| {
            let values = a.value(property).zip(b.value(property));
            values.is_some_and(|(a, b)| Operator::Eq.holds(a, b))
        };
        self.entities().enumerate().any(|(place, a)| {
            let mut others = self.entities().skip(place + 1);
            others.any(|b| index.on().iter().all(|property| is_equal(&a, &b, property)))
        })
    }

    fn entities(&self) -> impl Iterator<Item = Entity<'_>> {
        self.0.iter().map(|(key, pairs)| Entity { key, pairs })
    }
}
