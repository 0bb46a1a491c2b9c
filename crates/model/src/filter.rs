//! `$filter` as a tree, without its text, and what it means for one row.

mod extended;

pub use extended::{Case, Extended, Term, TextFunction, TextTest};

use crate::time::Timestamp;
use crate::value::{Value, ValueRef};
use std::cmp::Ordering;

/// A condition on rows. Its text is parsed and printed by `lazuli-wire`.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// `true` or `false`.
    Constant(bool),
    /// `property operator value`; a literal on the left has been swapped.
    Compare {
        property: Property,
        operator: Operator,
        value: Value<'static>,
    },
    /// A bare property: true where it is the Boolean `true`.
    IsTrue(Property),
    /// A condition that exists only as an extension.
    Extended(Extended),
    Not(Box<Self>),
    /// True when every part is; the parts are at least two.
    And(Vec<Self>),
    /// True when any part is; the parts are at least two.
    Or(Vec<Self>),
}

/// The left side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    PartitionKey,
    RowKey,
    Timestamp,
    Custom(Box<str>),
}

impl Property {
    pub fn from_name(name: &str) -> Self {
        match name {
            "PartitionKey" => Self::PartitionKey,
            "RowKey" => Self::RowKey,
            "Timestamp" => Self::Timestamp,
            other => Self::Custom(other.into()),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::PartitionKey => "PartitionKey",
            Self::RowKey => "RowKey",
            Self::Timestamp => "Timestamp",
            Self::Custom(name) => name,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

impl Operator {
    pub const ALL: [Self; 6] = [Self::Eq, Self::Ne, Self::Gt, Self::Ge, Self::Lt, Self::Le];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Gt => "gt",
            Self::Ge => "ge",
            Self::Lt => "lt",
            Self::Le => "le",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// The equivalent operator with swapped sides.
    pub const fn flipped(self) -> Self {
        match self {
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            same => same,
        }
    }

    /// Whether the operator holds for `left` against `right`.
    pub fn holds(self, left: ValueRef<'_>, right: ValueRef<'_>) -> bool {
        let order = || left.compare(right);
        match self {
            Self::Eq => left.equals(right),
            Self::Ne => !left.equals(right),
            Self::Gt => order() == Some(Ordering::Greater),
            Self::Ge => matches!(order(), Some(Ordering::Greater | Ordering::Equal)),
            Self::Lt => order() == Some(Ordering::Less),
            Self::Le => matches!(order(), Some(Ordering::Less | Ordering::Equal)),
        }
    }
}

/// What a filter is evaluated on.
pub trait Row {
    fn partition_key(&self) -> &str;
    fn row_key(&self) -> &str;
    fn timestamp(&self) -> Timestamp;
    fn custom(&self, name: &str) -> Option<ValueRef<'_>>;

    fn value(&self, property: &Property) -> Option<ValueRef<'_>> {
        match property {
            Property::PartitionKey => Some(ValueRef::String(self.partition_key())),
            Property::RowKey => Some(ValueRef::String(self.row_key())),
            Property::Timestamp => Some(ValueRef::DateTime(self.timestamp())),
            Property::Custom(name) => self.custom(name),
        }
    }
}

impl Filter {
    /// `property operator value`.
    pub fn compare(
        property: Property,
        operator: Operator,
        value: impl Into<Value<'static>>,
    ) -> Self {
        Self::Compare { property, operator, value: value.into() }
    }

    /// True where both are. Parts that are conjunctions themselves are joined, as the parser does.
    pub fn and(self, other: Self) -> Self {
        Self::And(joined(self, other, |filter| match filter {
            Self::And(parts) => Ok(parts),
            other => Err(other),
        }))
    }

    /// True where either is.
    pub fn or(self, other: Self) -> Self {
        Self::Or(joined(self, other, |filter| match filter {
            Self::Or(parts) => Ok(parts),
            other => Err(other),
        }))
    }

    /// The number of comparisons, including bare properties and functions. `in` counts as none
    /// (X-4.1).
    pub fn comparisons(&self) -> usize {
        match self {
            Self::Constant(_) | Self::Extended(Extended::In { .. }) => 0,
            Self::Compare { .. } | Self::IsTrue(_) | Self::Extended(_) => 1,
            Self::Not(inner) => inner.comparisons(),
            Self::And(parts) | Self::Or(parts) => parts.iter().map(Self::comparisons).sum(),
        }
    }

    /// The conditions in it that exist only as extensions.
    pub fn extended(&self) -> Vec<&Extended> {
        match self {
            Self::Extended(extended) => vec![extended],
            Self::Constant(_) | Self::Compare { .. } | Self::IsTrue(_) => Vec::new(),
            Self::Not(inner) => inner.extended(),
            Self::And(parts) | Self::Or(parts) => parts.iter().flat_map(Self::extended).collect(),
        }
    }

    /// Whether it names no property but the two keys.
    pub fn names_keys_only(&self) -> bool {
        let is_key =
            |property: &Property| matches!(property, Property::PartitionKey | Property::RowKey);
        match self {
            Self::Constant(_) => true,
            Self::Compare { property, .. } | Self::IsTrue(property) => is_key(property),
            Self::Extended(extended) => is_key(&extended.term().property),
            Self::Not(inner) => inner.names_keys_only(),
            Self::And(parts) | Self::Or(parts) => parts.iter().all(Self::names_keys_only),
        }
    }

    /// Whether `row` satisfies the filter.
    ///
    /// A row that lacks the property satisfies no comparison, `ne` included (T-4.35), and therefore
    /// every negated one (T-4.36).
    pub fn matches(&self, row: &impl Row) -> bool {
        match self {
            Self::Constant(value) => *value,
            Self::Compare { property, operator, value } => {
                row.value(property).is_some_and(|found| operator.holds(found, value.as_ref()))
            }
            Self::IsTrue(property) => row.value(property) == Some(ValueRef::Boolean(true)),
            Self::Extended(extended) => extended.matches(row),
            Self::Not(inner) => !inner.matches(row),
            Self::And(parts) => parts.iter().all(|part| part.matches(row)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(row)),
        }
    }
}

impl std::ops::Not for Filter {
    type Output = Self;

    fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}

/// The parts of `left` and `right`, in order.
fn joined(
    left: Filter,
    right: Filter,
    parts_of: impl Fn(Filter) -> Result<Vec<Filter>, Filter>,
) -> Vec<Filter> {
    let mut parts = parts_of(left).unwrap_or_else(|whole| vec![whole]);
    match parts_of(right) {
        Ok(more) => parts.extend(more),
        Err(whole) => parts.push(whole),
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    struct OneProperty(&'static str, ValueRef<'static>);

    impl Row for OneProperty {
        fn partition_key(&self) -> &str {
            "p"
        }
        fn row_key(&self) -> &str {
            "r"
        }
        fn timestamp(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
        fn custom(&self, name: &str) -> Option<ValueRef<'_>> {
            (name == self.0).then_some(self.1)
        }
    }

    fn compare(name: &str, operator: Operator, value: Value<'static>) -> Filter {
        Filter::Compare { property: Property::from_name(name), operator, value }
    }

    #[test]
    fn conjunctions_and_disjunctions_are_flat() {
        let part = |n| compare("Foo", Operator::Eq, Value::Int32(n));
        let and = part(1).and(part(2)).and(part(3).and(part(4)));
        assert_eq!(and, Filter::And((1..=4).map(part).collect()));
        let or = part(1).or(part(2)).or(!part(3));
        assert_eq!(or, Filter::Or(vec![part(1), part(2), Filter::Not(Box::new(part(3)))]));
        assert_eq!(or.clone().and(part(4)), Filter::And(vec![or, part(4)]));
    }

    #[test]
    fn a_missing_property_satisfies_no_comparison() {
        // TR-1: `Foo ne ''` must not return entities without Foo.
        let row = OneProperty("Bar", ValueRef::Int32(1));
        for operator in Operator::ALL {
            let filter = compare("Foo", operator, "".into());
            assert!(!filter.matches(&row), "{operator:?}");
            assert!(Filter::Not(Box::new(filter)).matches(&row), "{operator:?}");
        }
    }

    #[test]
    fn values_of_another_type_are_unequal_and_below_strings() {
        // TR-2, TR-12.
        let row = OneProperty("Foo", ValueRef::Double(1.5));
        let holds = |operator| compare("Foo", operator, "".into()).matches(&row);
        assert!(holds(Operator::Ne) && holds(Operator::Lt) && holds(Operator::Le));
        assert!(!holds(Operator::Eq) && !holds(Operator::Gt) && !holds(Operator::Ge));
    }

    #[test]
    fn nan_is_unequal_to_everything() {
        let row = OneProperty("Foo", ValueRef::Double(f64::NAN));
        for operator in Operator::ALL {
            let filter = compare("Foo", operator, Value::Double(f64::NAN));
            assert_eq!(filter.matches(&row), operator == Operator::Ne, "{operator:?}");
        }
    }

    #[test]
    fn a_bare_property_is_true_only_as_the_boolean() {
        let is_true = Filter::IsTrue(Property::from_name("Foo"));
        assert!(is_true.matches(&OneProperty("Foo", ValueRef::Boolean(true))));
        assert!(!is_true.matches(&OneProperty("Foo", ValueRef::Boolean(false))));
        assert!(!is_true.matches(&OneProperty("Foo", ValueRef::String("true"))));
        assert!(!is_true.matches(&OneProperty("Bar", ValueRef::Boolean(true))));
    }
}
