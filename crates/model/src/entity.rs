//! The properties of an entity, the limits on them, and what merge means.

use crate::byte_set::{ByteSet, byte_set};
use crate::key::{EntityKey, utf16_units};
use crate::limits::{
    BINARY_BYTES_MAX, CUSTOM_PROPERTIES_MAX, ENTITY_BYTES_MAX, PROPERTY_NAME_CHARS_MAX,
    STORED_NAME_BYTES_MAX, STORED_PROPERTIES_MAX, STRING_UTF16_UNITS_MAX,
};
use crate::time::Timestamp;
use crate::value::{Value, ValueRef};
use std::borrow::Cow;

/// Why properties cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntityError {
    #[error("the entity has more than 252 properties")]
    TooManyProperties,
    #[error("a property name is longer than 255 characters")]
    PropertyNameTooLong,
    #[error("a property name is not an identifier")]
    PropertyNameInvalid,
    #[error("a property is given twice")]
    DuplicateProperty,
    #[error("a property value is larger than 64 KiB")]
    PropertyValueTooLarge,
    #[error("the date of property {name} lies before 1601")]
    DateOutOfRange { name: String, value: Timestamp },
    #[error("the entity is larger than 1 MiB")]
    EntityTooLarge,
}

/// Which limits apply to properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PropertyLimits {
    /// Those of the service.
    #[default]
    Service,
    /// Arbitrary names, as many as our records can hold, and dates before 1601: what emulators
    /// accept.
    Storage,
}

impl PropertyLimits {
    /// Checks what does not depend on the key.
    pub fn check(self, pairs: &[(Cow<'_, str>, Value<'_>)]) -> Result<(), EntityError> {
        for (name, value) in pairs {
            self.check_name(name)?;
            self.check_value(name, value.as_ref()).map_err(|error| match error {
                // A value over 1 MiB is reported as an entity too large: the tests of the .NET and Java
                // clients insert one (T-5.31). The keys, a few KiB at most, are not counted here.
                EntityError::PropertyValueTooLarge
                    if custom_bytes(borrowed(pairs)) > ENTITY_BYTES_MAX =>
                {
                    EntityError::EntityTooLarge
                }
                error => error,
            })?;
        }
        if has_duplicate(pairs) {
            return Err(EntityError::DuplicateProperty);
        }
        self.check_count(pairs.len())
    }

    fn check_count(self, count: usize) -> Result<(), EntityError> {
        let max = match self {
            Self::Service => CUSTOM_PROPERTIES_MAX,
            Self::Storage => STORED_PROPERTIES_MAX,
        };
        if count > max { Err(EntityError::TooManyProperties) } else { Ok(()) }
    }

    /// Checks the name of a custom property.
    pub fn check_name(self, name: &str) -> Result<(), EntityError> {
        let (too_long, valid) = match self {
            Self::Service => (
                name.len() > PROPERTY_NAME_CHARS_MAX && utf16_units(name) > PROPERTY_NAME_CHARS_MAX,
                is_identifier(name),
            ),
            Self::Storage => (name.len() > STORED_NAME_BYTES_MAX, !name.is_empty()),
        };
        if too_long {
            return Err(EntityError::PropertyNameTooLong);
        }
        if !valid {
            return Err(EntityError::PropertyNameInvalid);
        }
        Ok(())
    }

    fn check_value(self, name: &str, value: ValueRef<'_>) -> Result<(), EntityError> {
        let too_large = match value {
            ValueRef::String(v) => {
                v.len() > STRING_UTF16_UNITS_MAX && utf16_units(v) > STRING_UTF16_UNITS_MAX
            }
            ValueRef::Binary(v) => v.len() > BINARY_BYTES_MAX,
            ValueRef::DateTime(v) if self == Self::Service && v < Timestamp::EDM_MIN => {
                return Err(EntityError::DateOutOfRange { name: name.into(), value: v });
            }
            _ => false,
        };
        if too_large { Err(EntityError::PropertyValueTooLarge) } else { Ok(()) }
    }
}

/// The custom properties of one entity, in the order given: each name and value within its limits,
/// without duplicate names, at most 252.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties<'a> {
    pairs: Vec<(Cow<'a, str>, Value<'a>)>,
    limits: PropertyLimits,
}

impl<'a> Properties<'a> {
    /// Takes `pairs` after checking the service's limits that do not depend on the key.
    pub fn new(pairs: Vec<(Cow<'a, str>, Value<'a>)>) -> Result<Self, EntityError> {
        Self::within(PropertyLimits::Service, pairs)
    }

    /// Takes `pairs` after checking against `limits`.
    pub fn within(
        limits: PropertyLimits,
        pairs: Vec<(Cow<'a, str>, Value<'a>)>,
    ) -> Result<Self, EntityError> {
        limits.check(&pairs)?;
        Ok(Self { pairs, limits })
    }

    /// The same, with a merge limited only by storage.
    pub fn relaxed(self) -> Self {
        Self { limits: PropertyLimits::Storage, ..self }
    }

    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, ValueRef<'_>)> + Clone {
        borrowed(&self.pairs)
    }

    /// Sorts by name, ordinally: how the service returns properties after any update (T-2.34).
    pub fn sort(&mut self) {
        self.pairs.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    }

    pub fn into_owned(self) -> Properties<'static> {
        let own = |(name, value): (Cow<'a, str>, Value<'a>)| {
            (Cow::Owned(name.into_owned()), value.into_owned())
        };
        Properties { pairs: self.pairs.into_iter().map(own).collect(), limits: self.limits }
    }
}

/// What an entity holds after `patch` is merged into `stored`: every stored property that the patch
/// does not name, and every property of the patch, sorted by name (T-5.36, T-2.34).
pub fn merge<'a>(
    stored: impl Iterator<Item = (&'a str, ValueRef<'a>)>,
    patch: &'a Properties<'_>,
) -> Result<Vec<(&'a str, ValueRef<'a>)>, EntityError> {
    let mut merged: Vec<_> = patch.iter().chain(stored).collect();
    // The sort is stable, so a patched property precedes the stored one of the same name.
    merged.sort_by_key(|(a, _)| *a);
    merged.dedup_by(|(later, _), (earlier, _)| later == earlier);
    patch.limits.check_count(merged.len())?;
    Ok(merged)
}

/// Checks the size limit of the entity, which applies to every write (T-3.12).
pub fn check_size<'a>(
    key: &EntityKey,
    properties: impl Iterator<Item = (&'a str, ValueRef<'a>)> + Clone,
) -> Result<(), EntityError> {
    let too_large = size_bytes_at_most(key, properties.clone()) > ENTITY_BYTES_MAX
        && size_bytes(key, properties) > ENTITY_BYTES_MAX;
    if too_large { Err(EntityError::EntityTooLarge) } else { Ok(()) }
}

/// An upper bound on [`size_bytes`], computed without reading any text: no text has more UTF-16
/// code units than bytes.
fn size_bytes_at_most<'a>(
    key: &EntityKey,
    properties: impl Iterator<Item = (&'a str, ValueRef<'a>)>,
) -> usize {
    let value_bytes = |value| match value {
        ValueRef::String(text) => 2 * text.len() + 4,
        other => other.size_bytes(),
    };
    let keys = key.partition.as_str().len() + key.row.as_str().len();
    let custom = properties.map(|(name, value)| 8 + 2 * name.len() + value_bytes(value));
    4 + 2 * keys + custom.sum::<usize>()
}

/// The size of an entity by the service's formula (T-3.10), in which text counts as UTF-16.
pub fn size_bytes<'a>(
    key: &EntityKey,
    properties: impl Iterator<Item = (&'a str, ValueRef<'a>)>,
) -> usize {
    let keys = utf16_units(key.partition.as_str()) + utf16_units(key.row.as_str());
    4 + 2 * keys + custom_bytes(properties)
}

fn custom_bytes<'a>(properties: impl Iterator<Item = (&'a str, ValueRef<'a>)>) -> usize {
    properties.map(|(name, value)| 8 + 2 * utf16_units(name) + value.size_bytes()).sum()
}

fn borrowed<'p>(
    pairs: &'p [(Cow<'_, str>, Value<'_>)],
) -> impl Iterator<Item = (&'p str, ValueRef<'p>)> + Clone {
    pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
}

/// Whether the service accepts `name` as a property name: its shape and its length (T-3.21).
pub fn is_property_name(name: &str) -> bool {
    PropertyLimits::Service.check_name(name).is_ok()
}

/// Whether `name` has the shape of a C# identifier (T-3.21). ASCII is decided without tables.
fn is_identifier(name: &str) -> bool {
    // Looking at every byte takes fewer instructions than stopping at the first that fails.
    if name.bytes().fold(true, |all, byte| all & is_word(byte)) {
        return name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    }
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c == '_' || c.is_alphabetic());
    // Combining marks, allowed after the first character, are neither alphabetic nor numeric to
    // `char`; outside ASCII only characters that cannot be part of a word are refused.
    starts && chars.all(|c| c == '_' || c.is_alphanumeric() || (!c.is_ascii() && is_mark(c)))
}

/// Whether `byte` is an ASCII character that identifiers may contain.
fn is_word(byte: u8) -> bool {
    const WORD: ByteSet = byte_set!(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    WORD.contains(byte)
}

fn is_mark(c: char) -> bool {
    !(c.is_alphanumeric() || c.is_whitespace() || c.is_control())
}

/// Small entities are compared pair by pair; large ones sort references to their names.
fn has_duplicate(pairs: &[(Cow<'_, str>, Value<'_>)]) -> bool {
    if pairs.len() <= 16 {
        let mut rest = pairs;
        while let Some(((name, _), tail)) = rest.split_first() {
            if tail.iter().any(|(other, _)| other == name) {
                return true;
            }
            rest = tail;
        }
        return false;
    }
    let mut names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_ref()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| matches!(pair, [a, b] if a == b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<(Cow<'a, str>, Value<'a>)> {
        pairs.iter().map(|&(name, value)| (Cow::Borrowed(name), value.into())).collect()
    }

    #[track_caller]
    fn check(pairs: Vec<(Cow<'_, str>, Value<'_>)>, expect: Result<(), EntityError>) {
        assert_eq!(Properties::new(pairs).map(|_| ()), expect);
    }

    #[test]
    fn size_is_the_formula_of_the_documentation() {
        // The vector of T-3.11.
        let key = EntityKey::parse("p", "r").unwrap();
        let properties = Properties::new(strings(&[("Name", "abc")])).unwrap();
        assert_eq!(size_bytes(&key, properties.iter()), 34);
    }

    #[test]
    fn names_are_identifiers() {
        for name in ["a", "_", "a1", "ꀕ", "é\u{301}", "क्ष"] {
            check(strings(&[(name, "")]), Ok(()));
        }
        for name in ["", "1a", "a-b", "a b", "a.b", "a@b", "$a", "a\u{A0}b"] {
            check(strings(&[(name, "")]), Err(EntityError::PropertyNameInvalid));
        }
        let long = "n".repeat(256);
        check(strings(&[(&long, "")]), Err(EntityError::PropertyNameTooLong));
        check(strings(&[(&long[..255], "")]), Ok(()));
    }

    #[test]
    fn duplicates_are_found_in_small_and_large_entities() {
        check(strings(&[("a", "1"), ("A", "2"), ("a", "3")]), Err(EntityError::DuplicateProperty));
        let names: Vec<String> = (0..253).map(|i| format!("p{i}")).collect();
        let mut pairs: Vec<_> = names.iter().map(|n| (n.as_str(), "")).collect();
        check(strings(&pairs), Err(EntityError::TooManyProperties));
        pairs.truncate(252);
        check(strings(&pairs), Ok(()));
        pairs[200].0 = "p3";
        check(strings(&pairs), Err(EntityError::DuplicateProperty));
    }

    #[test]
    fn values_are_limited_in_utf16_and_bytes() {
        let fits = "é".repeat(32 * 1024);
        check(strings(&[("a", &fits)]), Ok(()));
        let over = fits + "x";
        check(strings(&[("a", &over)]), Err(EntityError::PropertyValueTooLarge));
        let binary = |n| vec![(Cow::Borrowed("b"), Value::Binary(Cow::Owned(vec![0; n])))];
        check(binary(65_536), Ok(()));
        check(binary(65_537), Err(EntityError::PropertyValueTooLarge));
        check(binary(1 << 20), Err(EntityError::EntityTooLarge));
        let many: Vec<_> = (0..17).flat_map(|_| binary(65_537)).collect();
        check(many, Err(EntityError::EntityTooLarge));
    }

    #[test]
    fn dates_begin_in_1601() {
        let date = |t| vec![(Cow::Borrowed("d"), Value::DateTime(t))];
        check(date(Timestamp::EDM_MIN), Ok(()));
        let value = Timestamp::MIN;
        check(date(value), Err(EntityError::DateOutOfRange { name: "d".into(), value }));
    }

    #[test]
    fn limits_of_storage_are_wider() {
        let within = |pairs: Vec<_>| PropertyLimits::Storage.check(&pairs);
        for name in ["1a", "a-b", "a b", "a\"<>"] {
            assert_eq!(within(strings(&[(name, "")])), Ok(()));
        }
        let invalid = Err(EntityError::PropertyNameInvalid);
        assert_eq!(within(strings(&[("", "")])), invalid);
        let long = "n".repeat(4096);
        let too_long = Err(EntityError::PropertyNameTooLong);
        assert_eq!(within(strings(&[(&long, "")])), too_long);
        let twice = strings(&[("a-b", ""), ("a-b", "")]);
        assert_eq!(within(twice), Err(EntityError::DuplicateProperty));
        let date = vec![(Cow::Borrowed("d"), Value::DateTime(Timestamp::MIN))];
        assert_eq!(within(date), Ok(()));
    }

    #[test]
    fn a_merge_keeps_the_limits_of_its_patch() {
        let names: Vec<String> = (0..252).map(|i| format!("p{i}")).collect();
        let stored = || names.iter().map(|name| (name.as_str(), ValueRef::Int32(1)));
        let strict = Properties::new(strings(&[("q", "")])).unwrap();
        let over = Err(EntityError::TooManyProperties);
        assert_eq!(merge(stored(), &strict).map(|merged| merged.len()), over);
        let relaxed = strict.clone().relaxed();
        assert_eq!(merge(stored(), &relaxed).map(|merged| merged.len()), Ok(253));
    }

    #[test]
    fn merge_keeps_absent_properties_and_sorts() {
        let stored = [("z", ValueRef::Int32(1)), ("a", ValueRef::Int32(2))];
        let patch = Properties::new(strings(&[("m", "new"), ("a", "changed")])).unwrap();
        let merged = merge(stored.into_iter(), &patch).unwrap();
        let expect = [
            ("a", ValueRef::String("changed")),
            ("m", ValueRef::String("new")),
            ("z", ValueRef::Int32(1)),
        ];
        assert_eq!(merged, expect);
    }
}
