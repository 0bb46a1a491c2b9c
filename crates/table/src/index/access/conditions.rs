//! What the parts of a conjunction say about each property.

use lazuli_model::filter::{Case, Extended};
use lazuli_model::{Filter, Operator, Property, ValueRef};

/// What holds for all branches of an `or`.
pub(super) struct Around<'f> {
    pub(super) parts: Vec<&'f Filter>,
    /// The values that a property may equal: lists of at most `values_max`, because each branch has the entries
    /// of each of them.
    given: Vec<(&'f Property, Vec<ValueRef<'f>>)>,
    pub(super) values_max: usize,
}

impl<'f> Around<'f> {
    pub(super) fn new(parts: Vec<&'f Filter>, values_max: usize) -> Self {
        let given = parts.iter().filter_map(|part| values_given(part));
        let given = given.filter(|(_, values)| values.len() <= values_max).collect();
        Self { parts, given, values_max }
    }
}

/// Conditions that must all hold.
pub(super) struct Conditions<'f> {
    parts: Vec<&'f Filter>,
    /// How many of the parts, the first, are those to be served; the others hold besides.
    own: usize,
    comparisons: Vec<(&'f Property, Operator, ValueRef<'f>)>,
    /// The values that a property may equal; one must hold.
    given: Vec<(&'f Property, Vec<ValueRef<'f>>)>,
}

impl<'f> Conditions<'f> {
    pub(super) fn new(own: &[&'f Filter], around: &Around<'f>) -> Self {
        let comparison = |part: &&'f Filter| match part {
            Filter::Compare { property, operator, value } => {
                Some((property, *operator, value.as_ref()))
            }
            _ => None,
        };
        let parts = [own, &around.parts].concat();
        let given = own.iter().filter_map(|part| values_given(part));
        Self {
            own: own.len(),
            comparisons: parts.iter().filter_map(comparison).collect(),
            given: given.chain(around.given.iter().cloned()).collect(),
            parts,
        }
    }

    /// Whether a part that is to be served leaves only some values of the property.
    pub(super) fn narrows(&self, on: &Property) -> bool {
        let own = self.parts.iter().take(self.own);
        own.filter_map(|part| narrowed(part)).any(|property| property == on)
    }

    /// Whether an entity that lacks the property fails.
    pub(super) fn compares(&self, on: &Property) -> bool {
        *on == Property::PartitionKey || self.parts.iter().any(|part| requires(part, on))
    }

    /// The shortest list of values, one of which the property must equal: from `eq` or `in`
    ///
    pub(super) fn values(&self, on: &Property) -> Option<&[ValueRef<'f>]> {
        let given = self.given.iter().filter(|(property, _)| *property == on);
        given.map(|(_, values)| values.as_slice()).min_by_key(|values| values.len())
    }

    /// Texts that the property must start with.
    pub(super) fn beginnings<'a>(&'a self, on: &'a Property) -> impl Iterator<Item = &'f str> + 'a {
        self.parts.iter().filter_map(move |part| match part {
            Filter::Extended(Extended::Text(test)) if test.term.property == *on => {
                test.interval().map(|_| test.text())
            }
            _ => None,
        })
    }

    /// Comparisons that restrict it to a range of values.
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

/// The values, one of which a property must equal, if `filter` says nothing else: `eq`, `in`, and
/// `or` of these.
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

/// The property of which `filter` leaves some values, if it is about one.
fn narrowed(filter: &Filter) -> Option<&Property> {
    match filter {
        Filter::Compare { property, operator, .. } if *operator != Operator::Ne => Some(property),
        Filter::Extended(Extended::Text(test)) => test.interval().map(|_| &test.term.property),
        other => values_given(other).map(|(property, _)| property),
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
