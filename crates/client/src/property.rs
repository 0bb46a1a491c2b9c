//! A type's declarations about its properties.

use crate::fields::TableFields;
use crate::kind::Kind;
use crate::large::{DIGEST, LENGTH, Large, LargeRule};
use crate::layout::same;
use crate::series::point_of;
use lazuli_model::EdmType;

/// A property of a type. Declarations are checked at compile time (C-5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PropertyDef {
    /// The field of the type.
    pub field: &'static str,
    /// The name in the table. Properties of a flattened field begin with it.
    pub name: &'static str,
    /// The stored type; `None` if that depends on the value, and for a flattened field.
    pub edm_type: Option<EdmType>,
    /// How it is stored.
    pub storage: Storage,
    /// Whether it is encrypted before it is sent (C-15.2).
    pub is_encrypted: bool,
    /// Whether an encrypted property can still be found by equality (E-46).
    pub is_blind_indexed: bool,
    /// Encrypted texts are padded to a multiple of this many bytes, so that their length reveals less; 0 for none
    /// (E-45).
    pub pad: u16,
    /// The part of a wide entity that holds it, from 1; 0 if it is assigned automatically (P-10.1).
    pub part: u8,
}

/// How a field is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Storage {
    /// One property.
    Single,
    /// A property, and further ones for the rest of a large value (C-5.14).
    Chunked,
    /// This many properties, numbered from 1 (P-10).
    Series {
        /// The number of properties.
        points: usize,
    },
    /// A property with the address of a blob, or the value itself if it is small (P-11).
    Large(LargeRule),
    /// The properties of another type.
    Flattened(&'static [PropertyDef]),
    /// In the key only: no property.
    Key,
}

impl PropertyDef {
    /// A property that holds one field.
    pub const fn new(field: &'static str, name: &'static str, edm_type: Option<EdmType>) -> Self {
        Self {
            field,
            name,
            edm_type,
            storage: Storage::Single,
            is_encrypted: false,
            is_blind_indexed: false,
            pad: 0,
            part: 0,
        }
    }

    /// Whether a stored property belongs to this one.
    pub fn holds(&self, name: &str) -> bool {
        let rest = || name.strip_prefix(self.name);
        match self.storage {
            Storage::Flattened(inner) => {
                rest().is_some_and(|rest| inner.iter().any(|property| property.holds(rest)))
            }
            Storage::Chunked => rest().is_some_and(|rest| {
                let number = rest.strip_prefix('_').map(str::parse::<u16>);
                rest.is_empty() || matches!(number, Some(Ok(_)))
            }),
            Storage::Series { points } => point_of(name, self.name, points).is_some(),
            Storage::Large(_) => rest().is_some_and(|rest| {
                let is_part =
                    rest.strip_prefix('_').is_some_and(|part| part.parse::<u16>().is_ok());
                rest.is_empty() || is_part || matches!(rest, LENGTH | DIGEST)
            }),
            Storage::Single | Storage::Key => name == self.name,
        }
    }

    /// Sets how it is stored.
    #[doc(hidden)]
    #[must_use]
    pub const fn stored(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// Has it encrypted before it is sent.
    #[doc(hidden)]
    #[must_use]
    pub const fn encrypted(self, is_blind_indexed: bool) -> Self {
        Self { is_encrypted: true, is_blind_indexed, ..self }
    }

    /// Puts it into this part of a wide entity.
    #[doc(hidden)]
    #[must_use]
    pub const fn in_part(self, part: u8) -> Self {
        Self { part, ..self }
    }

    /// Has it padded before it is encrypted.
    #[doc(hidden)]
    #[must_use]
    pub const fn padded(self, pad: u16) -> Self {
        Self { pad, ..self }
    }
}

/// Properties that an entity may have in addition to its keys and Timestamp (T-3.9).
const PROPERTIES_MAX: usize = lazuli_model::limits::CUSTOM_PROPERTIES_MAX;

/// Checks what depends on the types of all fields: the number of properties, and that no property of a flattened
/// field has the name of another one (C-5.3).
pub const fn check_properties(properties: &[PropertyDef], kind: Option<Kind>) {
    let own = if kind.is_some() { 1 } else { 0 };
    assert!(count(properties) + own <= PROPERTIES_MAX, "an entity has at most 252 properties");
    check_names(properties);
}

/// The properties that the library writes itself (P-0.2).
const BOOKKEEPING: [&str; 12] = [
    "_ix",
    "_pk",
    "_rk",
    "_src",
    "_st",
    "_seen",
    "_WriteIds",
    "_blob",
    "_gen",
    "_parts",
    "_v",
    "_fence",
];

/// Checks that no two fields have a property of the same name, and none has one of the library's.
pub const fn check_names(properties: &[PropertyDef]) {
    let mut rest = properties;
    while let [first, others @ ..] = rest {
        let mut reserved: &[&str] = &BOOKKEEPING;
        while let [name, more @ ..] = reserved {
            assert!(!has(first, "", name), "a property that the library writes itself");
            reserved = more;
        }
        let mut others_left = others;
        while let [other, more @ ..] = others_left {
            assert!(!clash(first, other), "two properties have the same name");
            others_left = more;
        }
        rest = others;
    }
}

const fn count(properties: &[PropertyDef]) -> usize {
    let (mut total, mut rest) = (0, properties);
    while let [property, more @ ..] = rest {
        total += match property.storage {
            Storage::Flattened(inner) => count(inner),
            Storage::Large(_) => Large::PROPERTIES.len(),
            Storage::Key => 0,
            Storage::Series { points } => points,
            _ => 1,
        };
        rest = more;
    }
    total
}

/// The properties of a field with several.
const fn parts(property: &PropertyDef) -> Option<&'static [PropertyDef]> {
    match property.storage {
        Storage::Flattened(inner) => Some(inner),
        Storage::Large(_) => Some(Large::PROPERTIES),
        _ => None,
    }
}

/// Whether two fields have a property of the same name.
const fn clash(a: &PropertyDef, b: &PropertyDef) -> bool {
    match (a.storage, b.storage) {
        (Storage::Series { .. }, _) if is_numbered(b.name, a.name) => return true,
        (_, Storage::Series { .. }) if is_numbered(a.name, b.name) => return true,
        _ => {}
    }
    match (parts(a), parts(b)) {
        (Some(inner), _) => {
            let mut rest = inner;
            while let [property, more @ ..] = rest {
                if has(b, a.name, property.name) {
                    return true;
                }
                rest = more;
            }
            false
        }
        (_, Some(_)) => has(b, a.name, ""),
        _ => same(a.name, b.name),
    }
}

/// Whether `name` is `prefix` followed by digits, like the names of a series.
const fn is_numbered(name: &str, prefix: &str) -> bool {
    if !crate::layout::begins_with(name, prefix) {
        return false;
    }
    let (mut rest, mut skip) = (name.as_bytes(), prefix.len());
    while let [byte, more @ ..] = rest {
        if skip > 0 {
            skip -= 1;
        } else if !byte.is_ascii_digit() {
            return false;
        }
        rest = more;
    }
    true
}

/// Whether a field has the property `prefix` + `name`.
const fn has(property: &PropertyDef, prefix: &str, name: &str) -> bool {
    match parts(property) {
        Some(inner) => {
            let mut rest = inner;
            while let [found, more @ ..] = rest {
                if same_joined((property.name, found.name), (prefix, name)) {
                    return true;
                }
                rest = more;
            }
            false
        }
        _ => same_joined((property.name, ""), (prefix, name)),
    }
}

/// Whether two texts, each given in two parts, are equal.
const fn same_joined(a: (&str, &str), b: (&str, &str)) -> bool {
    let (a0, a1, b0, b1) = (a.0.as_bytes(), a.1.as_bytes(), b.0.as_bytes(), b.1.as_bytes());
    let length = a0.len() + a1.len();
    if length != b0.len() + b1.len() {
        return false;
    }
    let mut at = 0;
    while at < length {
        if byte_at(a0, a1, at) != byte_at(b0, b1, at) {
            return false;
        }
        at += 1;
    }
    true
}

#[expect(clippy::indexing_slicing, reason = "the caller counts; and it runs while compiling")]
const fn byte_at(first: &[u8], second: &[u8], at: usize) -> u8 {
    if at < first.len() { first[at] } else { second[at - first.len()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_has_a_property_that_the_library_writes() {
        // P-0.2: also as part of a flattened field.
        const INNER: &[PropertyDef] = &[PropertyDef::new("v", "v", None)];
        let is_refused =
            |property: PropertyDef| std::panic::catch_unwind(|| check_names(&[property])).is_err();
        for name in BOOKKEEPING {
            assert!(is_refused(PropertyDef::new("field", name, None)), "{name}");
        }
        assert!(is_refused(PropertyDef::new("field", "_", None).stored(Storage::Flattened(INNER))));
        assert!(!is_refused(PropertyDef::new("field", "_version", None)));
    }
}
