//! The facts about a query's filter that advice needs.

use lazuli_model::{Filter, Operator, Property, Value};

/// Facts about a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterFacts {
    /// A property, not a key, that the filter compares.
    pub property: Option<String>,
    /// A property, not a key, that every match must equal a value in: an index could serve it.
    pub lookup: Option<String>,
    /// The partition, if there is one.
    pub partition: Option<String>,
    /// Whether it compares a time.
    pub is_on_time: bool,
    /// Whether there is an `or` of keys.
    pub has_or_of_keys: bool,
    /// Whether it compares a row key, but no partition key.
    pub has_row_alone: bool,
}

impl FilterFacts {
    /// The facts of a filter.
    pub fn of(filter: Option<&Filter>) -> Self {
        let mut facts = Self::default();
        let Some(filter) = filter else { return facts };
        let (mut has_row, mut has_partition) = (false, false);
        facts.add(filter, &mut has_row, &mut has_partition);
        facts.has_row_alone = has_row && !has_partition;
        facts.lookup = lookup(filter).map(str::to_owned);
        facts
    }

    fn add(&mut self, filter: &Filter, has_row: &mut bool, has_partition: &mut bool) {
        match filter {
            Filter::Compare { property, operator, value } => {
                self.is_on_time |= matches!(value, Value::DateTime(_));
                match (property, operator, value) {
                    (Property::PartitionKey, Operator::Eq, Value::String(key)) => {
                        *has_partition = true;
                        self.partition.get_or_insert_with(|| key.to_string());
                    }
                    (Property::PartitionKey, ..) => *has_partition = true,
                    (Property::RowKey, ..) => *has_row = true,
                    (property, ..) => self.compares(property),
                }
            }
            Filter::IsTrue(property) => self.compares(property),
            Filter::Extended(extended) => match &extended.term().property {
                Property::PartitionKey => *has_partition = true,
                Property::RowKey => *has_row = true,
                property => self.compares(property),
            },
            Filter::Not(inner) => self.add(inner, has_row, has_partition),
            Filter::And(parts) => {
                parts.iter().for_each(|part| self.add(part, has_row, has_partition));
            }
            Filter::Or(parts) => {
                self.has_or_of_keys |= parts.iter().any(names_a_key);
                parts.iter().for_each(|part| self.add(part, has_row, has_partition));
            }
            Filter::Constant(_) => {}
        }
    }

    fn compares(&mut self, property: &Property) {
        self.property.get_or_insert_with(|| property.name().to_owned());
    }
}

/// Whether a part of an `or` names a key, possibly both.
fn names_a_key(part: &Filter) -> bool {
    match part {
        Filter::Compare { property, operator: Operator::Eq, .. } => {
            matches!(property, Property::PartitionKey | Property::RowKey)
        }
        Filter::And(parts) => parts.iter().any(names_a_key),
        _ => false,
    }
}

fn lookup(filter: &Filter) -> Option<&str> {
    match filter {
        Filter::Compare { property, operator: Operator::Eq, .. } => match property {
            Property::PartitionKey | Property::RowKey | Property::Timestamp => None,
            property => Some(property.name()),
        },
        Filter::And(parts) => parts.iter().find_map(lookup),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(property: &str, text: &str) -> Filter {
        let property = match property {
            "PartitionKey" => Property::PartitionKey,
            "RowKey" => Property::RowKey,
            other => Property::Custom(other.into()),
        };
        Filter::compare(property, Operator::Eq, Value::String(text.to_owned().into()))
    }

    #[test]
    fn a_filter_tells_what_it_looks_for() {
        let by_name = is("PartitionKey", "p").and(is("Name", "n"));
        let facts = FilterFacts::of(Some(&by_name));
        assert_eq!(
            (facts.property.as_deref(), facts.lookup.as_deref()),
            (Some("Name"), Some("Name"))
        );
        assert_eq!(facts.partition.as_deref(), Some("p"));
        assert!(!facts.has_row_alone && !facts.has_or_of_keys);
        assert!(FilterFacts::of(Some(&is("RowKey", "r"))).has_row_alone);
        let either = Filter::Or(vec![is("Name", "a"), is("Name", "b")]);
        let facts = FilterFacts::of(Some(&either));
        assert_eq!((facts.lookup, facts.has_or_of_keys), (None, false));
        let keys = |row| is("PartitionKey", "p").and(is("RowKey", row));
        assert!(FilterFacts::of(Some(&Filter::Or(vec![keys("1"), keys("2")]))).has_or_of_keys);
    }
}
