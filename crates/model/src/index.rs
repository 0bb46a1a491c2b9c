//! Declared secondary indexes of a table.

use crate::entity::{EntityError, PropertyLimits};
use crate::filter::Property;
use crate::limits::{
    INDEX_NAME_CHARS_MAX, INDEX_NAME_CHARS_MIN, INDEX_PROPERTIES_MAX, PROPERTY_NAME_CHARS_MAX,
    TABLE_INDEXES_MAX,
};
use std::fmt;

/// The name of an index: a letter, then letters and digits. Names that differ only in case are
/// equal; the given case is kept for display.
#[derive(Clone, Debug)]
pub struct IndexName(Box<str>);

impl IndexName {
    pub fn parse(text: &str) -> Result<Self, IndexError> {
        let is_valid = (INDEX_NAME_CHARS_MIN..=INDEX_NAME_CHARS_MAX).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|b| b.is_ascii_alphanumeric());
        if is_valid { Ok(Self(text.into())) } else { Err(IndexError::Name(text.into())) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for IndexName {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for IndexName {}

impl fmt::Display for IndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an index is on: its name, one to four properties, and whether their values are unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDefinition {
    name: IndexName,
    on: Box<[Property]>,
    unique: bool,
}

impl IndexDefinition {
    /// An index on `on`, in that order. `PartitionKey` may come first, followed by others, each of
    /// which an entity can have.
    pub fn new(name: &str, on: &[impl AsRef<str>], unique: bool) -> Result<Self, IndexError> {
        let definition = Self::stored(name, on, unique)?;
        for property in &definition.on {
            if let Property::Custom(custom) = property
                && let Err(reason) = PropertyLimits::Service.check_name(custom)
            {
                let (index, property) = (definition.name, custom.clone());
                return Err(match reason {
                    EntityError::PropertyNameTooLong => {
                        IndexError::PropertyTooLong { index, property }
                    }
                    _ => IndexError::PropertyInvalid { index, property },
                });
            }
        }
        Ok(definition)
    }

    /// The same with names that no entity can have, which earlier versions accepted.
    pub fn stored(name: &str, on: &[impl AsRef<str>], unique: bool) -> Result<Self, IndexError> {
        let name = IndexName::parse(name)?;
        if !(1..=INDEX_PROPERTIES_MAX).contains(&on.len()) {
            return Err(IndexError::PropertyCount { index: name });
        }
        let on: Box<[Property]> =
            on.iter().map(|property| Property::from_name(property.as_ref())).collect();
        for (place, property) in on.iter().enumerate() {
            let is_allowed = match property {
                Property::PartitionKey => place == 0 && on.len() > 1,
                Property::RowKey | Property::Timestamp => false,
                Property::Custom(custom) => !custom.is_empty(),
            };
            if !is_allowed {
                let property = property.name().into();
                return Err(IndexError::Property { index: name, property });
            }
            if on.iter().take(place).any(|earlier| earlier == property) {
                let property = property.name().into();
                return Err(IndexError::PropertyTwice { index: name, property });
            }
        }
        Ok(Self { name, on, unique })
    }

    pub fn name(&self) -> &IndexName {
        &self.name
    }

    /// The properties, in the order in which entries sort.
    pub fn on(&self) -> &[Property] {
        &self.on
    }

    pub fn is_unique(&self) -> bool {
        self.unique
    }
}

/// All indexes of a table, with different names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexDefinitions(Vec<IndexDefinition>);

impl IndexDefinitions {
    pub fn new(definitions: Vec<IndexDefinition>) -> Result<Self, IndexError> {
        if definitions.len() > TABLE_INDEXES_MAX {
            return Err(IndexError::TooMany(definitions.len()));
        }
        for (place, definition) in definitions.iter().enumerate() {
            if definitions.iter().take(place).any(|earlier| earlier.name == definition.name) {
                return Err(IndexError::NameTwice(definition.name.clone()));
            }
        }
        Ok(Self(definitions))
    }

    pub fn iter(&self) -> impl Iterator<Item = &IndexDefinition> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why a declaration of indexes is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    #[error(
        "'{0}' is not the name of an index: it has {INDEX_NAME_CHARS_MIN} to {INDEX_NAME_CHARS_MAX} letters and digits, a letter first"
    )]
    Name(Box<str>),
    #[error("two indexes are called '{0}'; names differ by more than case")]
    NameTwice(IndexName),
    #[error("index '{index}' is on one to {INDEX_PROPERTIES_MAX} properties")]
    PropertyCount { index: IndexName },
    #[error(
        "index '{index}' cannot be on '{property}': PartitionKey may only come first, followed by other properties; RowKey and Timestamp cannot be indexed"
    )]
    Property { index: IndexName, property: Box<str> },
    #[error(
        "index '{index}' cannot be on '{property}': no entity has such a property, whose name begins with a letter or an underscore and goes on with letters, digits and underscores"
    )]
    PropertyInvalid { index: IndexName, property: Box<str> },
    #[error(
        "index '{index}' cannot be on '{property}': that is too long for the name of a property, which has at most {PROPERTY_NAME_CHARS_MAX} characters"
    )]
    PropertyTooLong { index: IndexName, property: Box<str> },
    #[error("index '{index}' names '{property}' twice")]
    PropertyTwice { index: IndexName, property: Box<str> },
    #[error("a table has at most {TABLE_INDEXES_MAX} indexes, not {0}")]
    TooMany(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, on: &[&str]) -> Result<IndexDefinition, IndexError> {
        IndexDefinition::new(name, on, false)
    }

    #[test]
    fn names_are_letters_and_digits_with_a_letter_first() {
        //
        for good in ["abc", "byEmail", "A12", &"x".repeat(63)] {
            assert_eq!(IndexName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "ab", "1ab", "by-email", "byÉmail", &"x".repeat(64)] {
            assert_eq!(IndexName::parse(bad), Err(IndexError::Name(bad.into())), "{bad}");
        }
        assert_eq!(IndexName::parse("byEmail"), IndexName::parse("BYEMAIL"));
    }

    #[test]
    fn an_index_is_on_one_to_four_properties() {
        //
        definition("abc", &["A"]).unwrap();
        definition("abc", &["PartitionKey", "A", "B", "C"]).unwrap();
        let refused = |on: &[&str]| definition("abc", on).unwrap_err();
        assert!(matches!(refused(&[]), IndexError::PropertyCount { .. }));
        assert!(matches!(refused(&["A", "B", "C", "D", "E"]), IndexError::PropertyCount { .. }));
        for on in
            [&["PartitionKey"][..], &["A", "PartitionKey"], &["RowKey"], &["Timestamp"], &[""]]
        {
            assert!(matches!(refused(on), IndexError::Property { .. }), "{on:?}");
        }
        assert!(matches!(refused(&["A", "B", "A"]), IndexError::PropertyTwice { .. }));
        // Properties are case-sensitive.
        definition("abc", &["A", "a"]).unwrap();
    }

    #[test]
    fn an_index_is_on_properties_that_an_entity_can_have() {
        // What was accepted before is still read.
        for name in ["odata.etag", "a b", "a-b", "1a", "Größe.x", "'"] {
            let refused = definition("abc", &[name]);
            assert!(matches!(refused, Err(IndexError::PropertyInvalid { .. })), "{name}");
            IndexDefinition::stored("abc", &[name], false).unwrap();
        }
        let refused = definition("abc", &["A", &"é".repeat(256)]);
        assert!(matches!(refused, Err(IndexError::PropertyTooLong { .. })));
        definition("abc", &[&"é".repeat(255), "_a1", "Größe"]).unwrap();
    }

    #[test]
    fn a_table_has_at_most_16_indexes_of_different_names() {
        //
        let many = |count: usize| (0..count).map(|n| definition(&format!("by{n:02}"), &["A"]));
        let make = |count| IndexDefinitions::new(many(count).collect::<Result<_, _>>().unwrap());
        assert_eq!(make(16).unwrap().iter().count(), 16);
        assert_eq!(make(17), Err(IndexError::TooMany(17)));
        let twice = [definition("byEmail", &["A"]), definition("BYEMAIL", &["B"])];
        let twice = IndexDefinitions::new(twice.into_iter().map(Result::unwrap).collect());
        assert!(matches!(twice, Err(IndexError::NameTwice(_))));
    }
}
