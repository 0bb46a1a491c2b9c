//! Names of blob containers and blobs.

use super::QueueName;
use crate::limits::{BLOB_NAME_CHARS_MAX, BLOB_NAME_SEGMENTS_MAX};
use std::fmt;

/// Containers that the service names itself (B-1.16).
const RESERVED: [&str; 4] = ["$root", "$logs", "$web", "$blobchangefeed"];

/// Why a text is not a container name: the same two faults as for queues (B-1.17, Q-3.4).
pub type ContainerNameError = super::QueueNameError;

/// The name of a container: lower-case letters, digits and single dashes between them (B-1.15), or one
/// of the names that begin with `$` (B-1.16).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerName(Box<str>);

impl ContainerName {
    /// Parses `text`; the characters are checked before the length.
    pub fn parse(text: &str) -> Result<Self, ContainerNameError> {
        if !RESERVED.contains(&text) {
            // The rules are those of queues.
            QueueName::parse(text)?;
        }
        Ok(Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not a blob name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobNameError {
    #[error("the name is empty or has more than {BLOB_NAME_CHARS_MAX} characters")]
    Length,
    #[error("the name has more than {BLOB_NAME_SEGMENTS_MAX} segments")]
    Segments,
    #[error("the name contains a control character")]
    Characters,
}

/// The name of a blob: 1 to 1024 characters without control characters, in at most 254 segments (B-1.20,
/// B-1.22).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobName(Box<str>);

impl BlobName {
    pub fn parse(text: &str) -> Result<Self, BlobNameError> {
        if !(1..=BLOB_NAME_CHARS_MAX).contains(&text.encode_utf16().count()) {
            return Err(BlobNameError::Length);
        }
        if text.split('/').count() > BLOB_NAME_SEGMENTS_MAX {
            return Err(BlobNameError::Segments);
        }
        if text.chars().any(char::is_control) {
            return Err(BlobNameError::Characters);
        }
        Ok(Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_names_are_queue_names_or_the_services_own() {
        for good in ["pics", "a-1", "$root", "$logs", "$web"] {
            assert_eq!(ContainerName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["$other", "Pics", "a--b", "a b"] {
            assert_eq!(ContainerName::parse(bad), Err(ContainerNameError::Characters), "{bad}");
        }
        assert_eq!(ContainerName::parse("ab"), Err(ContainerNameError::Length));
    }

    #[test]
    fn blob_names_are_any_text_of_1_to_1024_characters_without_controls() {
        for good in ["a", "a//b", "/a", "a/../b", "é🦀", "a\\b.", &"a".repeat(1024)] {
            assert_eq!(BlobName::parse(good).unwrap().as_str(), good);
        }
        assert_eq!(BlobName::parse(""), Err(BlobNameError::Length));
        assert_eq!(BlobName::parse(&"a".repeat(1025)), Err(BlobNameError::Length));
        assert_eq!(BlobName::parse(&"🦀".repeat(513)), Err(BlobNameError::Length));
        assert_eq!(BlobName::parse("a\nb"), Err(BlobNameError::Characters));
        assert!(BlobName::parse(&"a/".repeat(253)).is_ok());
        assert_eq!(BlobName::parse(&"a/".repeat(254)), Err(BlobNameError::Segments));
    }
}
