//! Partition keys and row keys, and the one documented key order.
//!
//! Keys compare by UTF-16 code unit, case-sensitively, as the service's own strings do (T-3.19).
//! This differs from the order of `str` only between surrogate pairs and U+E000 to U+FFFF.

use crate::byte_set::{ByteSet, byte_set};
use crate::limits::KEY_UTF16_UNITS_MAX;
use std::cmp::Ordering;
use std::fmt;

/// Why a text cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("the key has {units} UTF-16 code units, more than 512")]
    TooLarge { units: usize },
    #[error("the key holds a character that keys may not hold")]
    ForbiddenCharacter,
}

macro_rules! key_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            pub fn parse(text: impl Into<Box<str>>) -> Result<Self, KeyError> {
                let text = text.into();
                check(&text)?;
                Ok(Self(text))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                compare(&self.0, &other.0)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
    };
}

key_type! {
    /// Names a partition: the entities that one transaction may span.
    PartitionKey
}
key_type! {
    /// Names an entity within its partition.
    RowKey
}

/// Identifies an entity within its table. Sorted by partition key, then row key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityKey {
    pub partition: PartitionKey,
    pub row: RowKey,
}

impl EntityKey {
    pub fn new(partition: PartitionKey, row: RowKey) -> Self {
        Self { partition, row }
    }

    pub fn parse(partition: &str, row: &str) -> Result<Self, KeyError> {
        Ok(Self::new(PartitionKey::parse(partition)?, RowKey::parse(row)?))
    }
}

/// Compares two texts by UTF-16 code unit.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let differing = a.iter().zip(b).find(|(x, y)| x != y);
    match differing {
        None => a.len().cmp(&b.len()),
        Some((&x, &y)) => utf16_rank(x).cmp(&utf16_rank(y)),
    }
}

/// Maps a byte of UTF-8 so that comparing mapped bytes compares UTF-16 code units.
///
/// UTF-8 orders by code point: U+E000 to U+FFFF (lead bytes EE and EF) before the supplementary
/// planes (lead bytes F0 to F4). UTF-16 writes the latter with surrogates D800 to DFFF and so
/// orders them first. Lifting the two lead bytes above F4 is all it takes: neither occurs as a
/// continuation byte, and F5 to FF do not occur in UTF-8 at all.
pub const fn utf16_rank(utf8: u8) -> u8 {
    match utf8 {
        0xEE => 0xF5,
        0xEF => 0xF6,
        other => other,
    }
}

/// The inverse of [`utf16_rank`].
pub const fn from_utf16_rank(rank: u8) -> u8 {
    match rank {
        0xF5 => 0xEE,
        0xF6 => 0xEF,
        other => other,
    }
}

/// UTF-16 code units of `text`; the service counts all string lengths in them.
pub fn utf16_units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// Whether `c` is forbidden in keys (T-3.15).
pub const fn is_forbidden(c: char) -> bool {
    matches!(c, '/' | '\\' | '#' | '?' | '\0'..='\u{1F}' | '\u{7F}'..='\u{9F}')
}

fn check(text: &str) -> Result<(), KeyError> {
    // No text has more UTF-16 code units than bytes.
    if text.len() > KEY_UTF16_UNITS_MAX {
        let units = utf16_units(text);
        if units > KEY_UTF16_UNITS_MAX {
            return Err(KeyError::TooLarge { units });
        }
    }
    if !text.bytes().all(is_plain) && text.chars().any(is_forbidden) {
        return Err(KeyError::ForbiddenCharacter);
    }
    Ok(())
}

/// Whether `byte` is an ASCII character that keys may contain. Most keys have no others.
fn is_plain(byte: u8) -> bool {
    const PLAIN: ByteSet = byte_set!(|byte| byte.is_ascii() && !is_forbidden(byte as char));
    PLAIN.contains(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn compare_is_the_order_of_utf16(a in any::<String>(), b in any::<String>()) {
            prop_assert_eq!(compare(&a, &b), a.encode_utf16().cmp(b.encode_utf16()));
        }

        #[test]
        fn compare_is_the_order_of_utf16_around_the_surrogates(
            a in "[\u{D000}-\u{D7FF}\u{E000}-\u{10FFFF}]{0,3}",
            b in "[\u{D000}-\u{D7FF}\u{E000}-\u{10FFFF}]{0,3}",
        ) {
            prop_assert_eq!(compare(&a, &b), a.encode_utf16().cmp(b.encode_utf16()));
        }
    }

    #[test]
    fn forbidden_characters_are_refused() {
        for c in ['/', '\\', '#', '?', '\0', '\t', '\n', '\r', '\u{1F}', '\u{7F}', '\u{9F}'] {
            let text = format!("a{c}b");
            assert_eq!(RowKey::parse(text), Err(KeyError::ForbiddenCharacter), "{c:?}");
        }
        for text in ["", "'", "\"%+,:@=&$~() ", "ô", "\u{A0}", "🦀"] {
            assert!(RowKey::parse(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn plain_bytes_are_the_allowed_ones_of_ascii() {
        for byte in 0..=u8::MAX {
            let allowed = byte.is_ascii() && !is_forbidden(char::from(byte));
            assert_eq!(is_plain(byte), allowed, "{byte}");
        }
    }

    #[test]
    fn a_key_holds_512_utf16_units() {
        assert!(PartitionKey::parse("é".repeat(512)).is_ok());
        assert!(PartitionKey::parse("🦀".repeat(256)).is_ok());
        assert_eq!(
            PartitionKey::parse("🦀".repeat(256) + "a"),
            Err(KeyError::TooLarge { units: 513 })
        );
    }
}
