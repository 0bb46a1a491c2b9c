//! Filters that cannot be injected: trees of typed comparisons, printed by one function (C-7.1).

mod text;

pub use text::{FilterValue, checked_filter};

use crate::value::{EncodeError, IntoValue, Value};
use lazuli_model::key_text::prefix_end;
use lazuli_model::{Operator, Property};
use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

/// A condition on entities.
///
/// ```
/// # use lazuli_client::{col, partition};
/// let typed = "x' or PartitionKey ne '";
/// let filter = partition("Sales").and(col("LastName").eq(typed));
/// assert_eq!(
///     filter.to_string(),
///     "PartitionKey eq 'Sales' and LastName eq 'x'' or PartitionKey ne '''"
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(
    pub(crate) lazuli_model::Filter,
    /// Set if a value in it cannot be sent; the query then fails with this error.
    pub(crate) Option<EncodeError>,
);

impl Filter {
    /// True where both are true.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let fault = self.1.clone().or_else(|| other.1.clone());
        Self(self.enclosed().and(other.enclosed()), fault)
    }

    /// True where either is true.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let fault = self.1.clone().or_else(|| other.1.clone());
        Self(self.enclosed().or(other.enclosed()), fault)
    }

    /// A comparison with a value; faulty if either cannot be sent.
    pub(crate) fn compare(
        property: Result<Property, EncodeError>,
        operator: Operator,
        value: Result<Value, EncodeError>,
    ) -> Self {
        match property.and_then(|property| Ok((property, value?))) {
            Ok((property, value)) => {
                Self(lazuli_model::Filter::compare(property, operator, value), None)
            }
            Err(fault) => Self::faulty(fault),
        }
    }

    /// A filter that cannot be sent.
    pub(crate) fn faulty(fault: EncodeError) -> Self {
        Self(lazuli_model::Filter::Constant(false), Some(fault))
    }

    /// Whether it names the partitions to search.
    pub(crate) fn names_partitions(&self) -> bool {
        names_partitions(&self.0)
    }
}

fn names_partitions(filter: &lazuli_model::Filter) -> bool {
    use lazuli_model::Filter as F;
    match filter {
        F::Compare { property: Property::PartitionKey, operator: Operator::Eq, .. } => true,
        F::Constant(value) => !value,
        F::And(parts) => parts.iter().any(names_partitions),
        F::Or(parts) => parts.iter().all(names_partitions),
        _ => false,
    }
}

impl From<lazuli_model::Filter> for Filter {
    /// A tree from elsewhere, such as a parser. Its names are checked.
    fn from(tree: lazuli_model::Filter) -> Self {
        let fault = text::strange_name(&tree).map(|name| EncodeError::Name { name: name.into() });
        Self(tree, fault)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&lazuli_wire::odata::filter::print(&self.0))
    }
}

impl BitAnd for Filter {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.and(other)
    }
}

impl BitOr for Filter {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl Not for Filter {
    type Output = Self;

    fn not(self) -> Self {
        let fault = self.1.clone();
        Self(!self.enclosed(), fault)
    }
}

/// A property to compare. If an entity lacks the property, every comparison is false, even `ne`.
///
/// ```
/// # use lazuli_client::col;
/// assert_eq!((!col("Active").is_true()).to_string(), "not (Active)");
/// assert_eq!(col("Age").one_of([30, 40]).to_string(), "Age eq 30 or Age eq 40");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column(Result<Property, EncodeError>);

/// The property called `name`. If that cannot be the name of a property (T-3.21), or is a word of the filter language,
/// a query with it fails before any request: neither names nor values can be injected (C-7.10).
///
/// ```
/// # use lazuli_client::prelude::*;
/// # async fn run(people: Table) {
/// let typed = "Age gt 0 or Name";
/// let found = people.query(partition("Sales").and(col(typed).eq("x"))).collect_at_most(10).await;
/// assert!(found.is_err(), "and nothing was sent");
/// # }
/// ```
pub fn col(name: &str) -> Column {
    Column(property(name))
}

/// A property that a filter can name.
pub(crate) fn property(name: &str) -> Result<Property, EncodeError> {
    match lazuli_wire::odata::filter::is_name(name) {
        true => Ok(Property::from_name(name)),
        false => Err(EncodeError::Name { name: name.to_owned() }),
    }
}

/// The row key.
pub fn row() -> Column {
    Column(Ok(Property::RowKey))
}

/// When the entity was last written. No index serves it.
pub fn timestamp() -> Column {
    Column(Ok(Property::Timestamp))
}

/// The entities of one partition.
pub fn partition(key: &str) -> Filter {
    Column(Ok(Property::PartitionKey)).eq(key)
}

/// The entities of several partitions.
pub(crate) fn partitions<'k>(keys: impl IntoIterator<Item = &'k str>) -> Filter {
    Column(Ok(Property::PartitionKey)).one_of(keys)
}

/// The six comparisons of a column with a value: what they take, and what is on both sides.
macro_rules! comparisons {
    (|$column:ident, $value:ident: $argument:ty| $property:expr, $operand:expr) => {
        comparisons! { @ $column, $value, $argument, $property, $operand;
            /// Equal to a value of the same type.
            eq: Eq;
            /// There, and different: an entity without the property is not found (C-7.14).
            ne: Ne;
            /// Less than a value.
            lt: Lt;
            /// At most a value.
            le: Le;
            /// Greater than a value.
            gt: Gt;
            /// At least a value.
            ge: Ge;
        }
    };
    (@ $column:ident, $value:ident, $argument:ty, $property:expr, $operand:expr;
        $($(#[$doc:meta])* $name:ident: $operator:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name($column, $value: $argument) -> Filter {
            Filter::compare($property, Operator::$operator, $operand)
        }
    )*};
}
pub(crate) use comparisons;

impl Column {
    comparisons!(|self, value: impl IntoValue| self.0, Ok(value.into_value()));

    /// The Boolean `true`.
    #[must_use]
    pub fn is_true(self) -> Filter {
        match self.0 {
            Ok(property) => Filter(lazuli_model::Filter::IsTrue(property), None),
            Err(fault) => Filter::faulty(fault),
        }
    }

    /// Equal to one of several values; never true if there are none. On keys it becomes point reads, or one query per
    /// partition: see [`Query::explain`](crate::Query::explain).
    #[must_use]
    pub fn one_of<V: IntoValue>(self, values: impl IntoIterator<Item = V>) -> Filter {
        let either = values.into_iter().map(|value| self.clone().eq(value)).reduce(Filter::or);
        either.unwrap_or(lazuli_model::Filter::Constant(false).into())
    }

    /// A string that begins with `prefix`: a range, which an index can serve (C-7.12).
    #[must_use]
    pub fn starts_with(self, prefix: &str) -> Filter {
        let from = self.clone().ge(prefix);
        match prefix_end(prefix) {
            Some(end) => from.and(self.lt(end)),
            None => from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_model::{Guid, Timestamp};
    use proptest::prelude::*;

    #[test]
    fn filters_print_as_the_protocol_spells_them() {
        // C-7.1.
        let guid = Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap();
        let time = Timestamp::parse("2014-08-22T00:50:32Z").unwrap();
        for (filter, text) in [
            (col("LastName").eq("O'Neill"), "LastName eq 'O''Neill'"),
            (col("Age").ge(30) & col("Age").lt(40), "Age ge 30 and Age lt 40"),
            (col("Age").lt(30) | col("Age").ge(60), "Age lt 30 or Age ge 60"),
            (
                partition("Sales").and(row().starts_with("B")),
                "PartitionKey eq 'Sales' and RowKey ge 'B' and RowKey lt 'C'",
            ),
            (col("Age").one_of([1, 2, 3]), "Age eq 1 or Age eq 2 or Age eq 3"),
            (col("Age").one_of([7]), "Age eq 7"),
            (col("Big").eq(1_i64 << 40), "Big eq 1099511627776L"),
            (col("Id").eq(guid), "Id eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'"),
            (timestamp().ge(time), "Timestamp ge datetime'2014-08-22T00:50:32Z'"),
        ] {
            assert_eq!(filter.to_string(), text);
        }
    }

    #[test]
    fn a_filter_that_names_no_partition_is_known() {
        // C-7.4.
        let named = partition("a").and(col("x").eq(1));
        assert!(named.names_partitions());
        assert!((named.clone() | partition("b")).names_partitions());
        assert!(!(named | col("x").eq(2)).names_partitions());
        assert!(!(!partition("a")).names_partitions());
        assert!(!col("PartitionKey").ge("a").names_partitions());
    }

    /// Names, words of the language, and attempts at injection.
    fn name() -> impl Strategy<Value = String> {
        let words = [
            "and",
            "or",
            "not",
            "eq",
            "true",
            "True",
            "TRUE",
            "false",
            "null",
            "NaN",
            "INF",
            "ge",
            "guid",
            "X",
            "in",
            "datetime",
            "a or b",
            "a eq 1 or PartitionKey",
            "a)",
            "(a",
            "tolower(a)",
            "a'",
            "",
            " ",
            "a\r\nb",
            "_a",
            "é",
            "9a",
            "a.b",
            "a,b",
            "*",
            "a\u{0}",
            "add",
            "substringof",
        ];
        prop_oneof![
            any::<String>(),
            "[a-zA-Z_][a-z0-9_ ]{0,5}",
            prop::sample::select(words.map(str::to_owned).to_vec())
        ]
    }

    #[test]
    fn a_strange_name_is_known_before_anything_is_sent() {
        // C-7.10.
        for name in ["a or true", "a eq 1 or PartitionKey", "", "true", "not", "a'", "1a", "a.b"] {
            let filter = partition("p") & col(name).eq(1);
            assert_eq!(filter.1, Some(EncodeError::Name { name: name.to_owned() }));
        }
        assert_eq!((partition("p") & col("Name").eq(1)).1, None);
    }

    proptest! {
        #[test]
        fn no_value_becomes_syntax(text in any::<String>(), number in any::<i64>()) {
            // C-7.10.
            let text = text.replace('\0', "");
            let filter = partition(&text) & (col("a").eq(&*text) | !col("b").gt(number));
            let parsed = lazuli_wire::odata::filter::parse(&filter.to_string());
            prop_assert_eq!(parsed, Ok(filter.0));
        }

        #[test]
        fn no_name_becomes_syntax(name in name()) {
            // C-7.10: the name is read back unchanged, or refused.
            for filter in [
                col(&name).eq("x"),
                col(&name).is_true(),
                !col(&name).is_true(),
                col(&name).one_of([1, 2]),
                col(&name).starts_with("x") | partition("p"),
                Filter::from(lazuli_model::Filter::IsTrue(Property::from_name(&name))),
            ] {
                let parsed = lazuli_wire::odata::filter::parse(&filter.to_string());
                prop_assert!(filter.1.is_some() || parsed == Ok(filter.0), "{name:?}");
            }
        }
    }
}
