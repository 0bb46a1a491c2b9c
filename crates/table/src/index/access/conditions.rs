//! What the parts of a conjunction say of each property.

use lazuli_model::filter::{Case, Extended};
use lazuli_model::{Filter, Operator, Property, ValueRef};

/// Conditions that must all hold.
pub(super) struct Conditions<'f> {
    parts: &'f [Filter],
    comparisons: Vec<(&'f Property, Operator, ValueRef<'f>)>,
    /// The values of which a property must equal one.
    given: Vec<(&'f Property, Vec<ValueRef<'f>>)>,
}

impl<'f> Conditions<'f> {
    pub(super) fn of(parts: &'f [Filter]) -> Self {
        let comparison = |part: &'f Filter| match part {
            Filter::Compare { property, operator, value } => {
                Some((property, *operator, value.as_ref()))
            }
            _ => None,
        };
        Self {
            parts,
            comparisons: parts.iter().filter_map(comparison).collect(),
            given: parts.iter().filter_map(values_given).collect(),
        }
    }

    /// Whether an entity that lacks the property fails.
    pub(super) fn compares(&self, on: &Property) -> bool {
        *on == Property::PartitionKey || self.parts.iter().any(|part| requires(part, on))
    }

    /// The fewest values of which the property must equal one: `eq`, and `in`.
    pub(super) fn values(&self, on: &Property) -> Option<&[ValueRef<'f>]> {
        let given = self.given.iter().filter(|(property, _)| *property == on);
        given.map(|(_, values)| values.as_slice()).min_by_key(|values| values.len())
    }

    /// Texts with which the property begins.
    pub(super) fn beginnings<'a>(&'a self, on: &'a Property) -> impl Iterator<Item = &'f str> + 'a {
        self.parts.iter().filter_map(move |part| match part {
            Filter::Extended(Extended::Text(test)) if test.term.property == *on => {
                test.interval().map(|_| test.text())
            }
            _ => None,
        })
    }

    /// Comparisons that leave a range of values.
    pub(super) fn bounds<'a>(
        &'a self,
        on: &'a Property,
    ) -> impl Iterator<Item = (Operator, ValueRef<'f>)> + 'a {
        self.comparisons
            .iter()
            .filter(move |(property, ..)| *property == on)
            .map(|&(_, operator, value)| (operator, value))
            .filter(|(operator, _)| !matches!(operator, Operator::Eq | Operator::Ne))
    }
}

/// The values of which `filter` has one property equal one, if it says no more: `eq`, `in`, and `or`
/// of these.
pub(super) fn values_given(filter: &Filter) -> Option<(&Property, Vec<ValueRef<'_>>)> {
    match filter {
        Filter::Compare { property, operator: Operator::Eq, value } => {
            Some((property, vec![value.as_ref()]))
        }
        Filter::IsTrue(property) => Some((property, vec![ValueRef::Boolean(true)])),
        Filter::Extended(Extended::In { term, values }) if term.case == Case::AsIs => {
            Some((&term.property, values.iter().map(|value| value.as_ref()).collect()))
        }
        Filter::Or(parts) => {
            let mut parts = parts.iter().map(values_given);
            let (property, mut values) = parts.next()??;
            for part in parts {
                let (other, more) = part?;
                if other != property {
                    return None;
                }
                values.extend(more);
            }
            Some((property, values))
        }
        _ => None,
    }
}

/// Whether an entity that lacks the property does not satisfy `filter`.
fn requires(filter: &Filter, on: &Property) -> bool {
    match filter {
        Filter::Compare { property, .. } | Filter::IsTrue(property) => property == on,
        Filter::Extended(extended) => extended.term().property == *on,
        Filter::And(parts) => parts.iter().any(|part| requires(part, on)),
        Filter::Or(parts) => parts.iter().all(|part| requires(part, on)),
        Filter::Constant(_) | Filter::Not(_) => false,
    }
}
