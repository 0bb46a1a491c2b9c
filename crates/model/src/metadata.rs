//! Metadata of a queue: names and texts from request headers.

use crate::limits::METADATA_BYTES_MAX;

/// Why pairs are not valid metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// A pair has no name.
    #[error("the key for one of the metadata key-value pairs is empty")]
    EmptyName { value: String },
    /// A name is not an identifier.
    #[error("a metadata name has characters that are not permitted")]
    Name,
    /// Two names differ only in case.
    #[error("a metadata name is given twice")]
    Duplicate,
    /// All names and values together are too long.
    #[error("the metadata has more than {METADATA_BYTES_MAX} bytes")]
    TooLarge,
}

/// The metadata of a queue: identifiers, unique ignoring case, each with a text.
///
/// Two sets are equal when they hold the same pairs in any order, names without regard to case
/// . Names keep their case and order.
#[derive(Clone, Debug, Default)]
pub struct Metadata(Vec<(Box<str>, Box<str>)>);

impl Metadata {
    /// Parses pairs; white space around values is trimmed.
    pub fn parse<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, MetadataError> {
        let mut parsed: Vec<(Box<str>, Box<str>)> = Vec::new();
        let mut bytes = 0;
        for (name, value) in pairs {
            let value = value.trim();
            check_name(name, value)?;
            bytes += name.len() + value.len();
            if bytes > METADATA_BYTES_MAX {
                return Err(MetadataError::TooLarge);
            }
            parsed.push((name.into(), value.into()));
        }
        let metadata = Self(parsed);
        let has_repeated_name =
            metadata.sorted().windows(2).any(|pair| matches!(pair, [a, b] if a.0 == b.0));
        if has_repeated_name { Err(MetadataError::Duplicate) } else { Ok(metadata) }
    }

    /// Name and value of each pair, in the order given.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lower-case names with their values, in the order of the names.
    fn sorted(&self) -> Vec<(String, &str)> {
        let mut pairs: Vec<_> =
            self.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        pairs.sort_unstable();
        pairs
    }
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.sorted() == other.sorted()
    }
}

impl Eq for Metadata {}

/// A name is a letter or `_`, then letters, digits and `_`: an identifier of C# that a header can
/// carry.
fn check_name(name: &str, value: &str) -> Result<(), MetadataError> {
    let Some(first) = name.bytes().next() else {
        return Err(MetadataError::EmptyName { value: value.to_owned() });
    };
    let is_identifier = !first.is_ascii_digit()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_identifier { Ok(()) } else { Err(MetadataError::Name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Metadata, MetadataError> {
        Metadata::parse(pairs.iter().copied())
    }

    /// TQ-15: names that are not identifiers are refused.
    #[test]
    fn names_are_identifiers() {
        for good in ["a", "_", "Val1", "snake_case", "_9"] {
            assert!(parse(&[(good, "x")]).is_ok(), "{good}");
        }
        for bad in ["invalid-meta", "12345", "1a", "a b", "é", "a.b"] {
            assert_eq!(parse(&[(bad, "x")]), Err(MetadataError::Name), "{bad}");
        }
    }

    /// TQ-16: an empty name is refused, and the error shows the value.
    #[test]
    fn an_empty_name_is_reported_with_its_value() {
        let error = MetadataError::EmptyName { value: "test".into() };
        assert_eq!(parse(&[("a", "1"), ("", "test")]), Err(error));
    }

    #[test]
    fn names_that_differ_in_case_only_are_refused() {
        assert_eq!(parse(&[("Key", "1"), ("b", "2"), ("kEY", "1")]), Err(MetadataError::Duplicate));
    }

    #[test]
    fn metadata_is_equal_in_any_order_and_case_of_names() {
        let ab = parse(&[("A", "1"), ("b", "2")]).unwrap();
        assert_eq!(ab, parse(&[("B", "2"), ("a", "1")]).unwrap());
        assert_ne!(ab, parse(&[("a", "1")]).unwrap());
        assert_ne!(ab, parse(&[("a", "1"), ("b", "3")]).unwrap());
        assert_ne!(ab, parse(&[("a", "1"), ("c", "2")]).unwrap());
    }

    #[test]
    fn values_are_trimmed_and_names_keep_their_case() {
        let metadata = parse(&[("CamelCase", " \tsome text ")]).unwrap();
        assert_eq!(metadata.iter().collect::<Vec<_>>(), [("CamelCase", "some text")]);
    }

    #[test]
    fn names_and_values_together_have_at_most_8_kib() {
        let fits = "v".repeat(METADATA_BYTES_MAX - 1);
        assert!(parse(&[("n", &fits)]).is_ok());
        assert_eq!(parse(&[("nn", &fits)]), Err(MetadataError::TooLarge));
    }
}
