//! Values that may be too large for an entity: stored in the entity if small, else in a blob (P-11).

use crate::chunks::push_chunked;
use crate::entity::Properties;
use crate::fields::{Fields, TableFields, prefixed};
use crate::form::Plain;
use crate::property::{PropertyDef, Storage};
use crate::value::{DecodeError, EncodeError, Value, ValueError, wrong_type};
use bytes::Bytes;
use lazuli_model::EdmType;
use std::borrow::Cow;
use std::fmt;

/// Suffix of the property with the length of the blob.
pub(crate) const LENGTH: &str = "_len";
/// Suffix of the property with the SHA-256 of the blob.
pub(crate) const DIGEST: &str = "_sha";

/// A value that is stored in a blob if it is large: a field with `#[table(large(container = ".."))]`.
///
/// It is written by a `LargeTable`, made by `Account::large` with the feature `patterns`; other writes
/// refuse the type.
#[derive(Clone, PartialEq, Eq)]
pub struct Large(Held);

#[derive(Clone, PartialEq, Eq)]
enum Held {
    Bytes(Bytes),
    Blob(BlobLink),
}

/// The properties of an entity that refer to a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobLink {
    pub(crate) address: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
}

impl Large {
    /// A value that is not stored yet.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(Held::Bytes(bytes.into()))
    }

    /// The value, if it did not come from a blob.
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.0 {
            Held::Bytes(bytes) => Some(bytes),
            Held::Blob(_) => None,
        }
    }

    /// The address of the blob that holds the value, without a signature; `None` if no blob does.
    pub fn address(&self) -> Option<&str> {
        self.link().map(|link| &*link.address)
    }

    /// The length of the value in bytes, according to the entity.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Held::Bytes(bytes) => bytes.len() as u64,
            Held::Blob(link) => link.bytes,
        }
    }

    /// Whether it has length zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn link(&self) -> Option<&BlobLink> {
        match &self.0 {
            Held::Bytes(_) => None,
            Held::Blob(link) => Some(link),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Large {
    fn from(bytes: T) -> Self {
        Self::new(bytes)
    }
}

impl fmt::Debug for Large {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Held::Bytes(bytes) => write!(f, "Large({} bytes)", bytes.len()),
            Held::Blob(link) => write!(f, "Large({} bytes in {})", link.bytes, link.address),
        }
    }
}

impl BlobLink {
    /// Appends the three properties that refer to a blob.
    pub(crate) fn write(&self, name: &str, out: &mut Properties) {
        out.push(name.to_owned(), Value::String(Cow::Owned(self.address.clone())));
        let bytes = i64::try_from(self.bytes).unwrap_or(i64::MAX);
        out.push(format!("{name}{LENGTH}"), Value::Int64(bytes));
        out.push(format!("{name}{DIGEST}"), Value::Binary(Cow::Owned(self.sha256.to_vec())));
    }
}

impl TableFields for Large {
    const PROPERTIES: &'static [PropertyDef] = &[
        PropertyDef::new("", "", None),
        PropertyDef::new("", LENGTH, Some(EdmType::Int64)),
        PropertyDef::new("", DIGEST, Some(EdmType::Binary)),
    ];

    /// Writes bytes that are not stored yet as they are, in as many properties as they need: the writer of the
    /// entity replaces them by a blob.
    fn write_fields(&self, prefix: &str, out: &mut Properties) -> Result<(), EncodeError> {
        match &self.0 {
            Held::Bytes(bytes) => {
                let value = Value::Binary(Cow::Owned(bytes.to_vec()));
                push_chunked(out, Cow::Owned(prefix.to_owned()), value);
            }
            Held::Blob(link) => link.write(prefix, out),
        }
        Ok(())
    }

    fn read_fields(prefix: &str, fields: &mut Fields) -> Result<Self, DecodeError> {
        let Some(value) = fields.chunks(prefix)? else {
            return Err(fields.error(prefix, ValueError::Missing));
        };
        match value {
            Value::Binary(bytes) => Ok(Self::new(bytes.into_owned())),
            Value::String(address) => {
                let length: i64 = fields.required::<Plain, _>(&prefixed(prefix, LENGTH))?;
                let digest: Vec<u8> = fields.required::<Plain, _>(&prefixed(prefix, DIGEST))?;
                let expected = ValueError::OutOfRange { expected: "a SHA-256 of 32 bytes" };
                let sha256 = digest
                    .try_into()
                    .map_err(|_| fields.error(&prefixed(prefix, DIGEST), expected))?;
                let bytes = u64::try_from(length).map_err(|_| {
                    let expected = ValueError::OutOfRange { expected: "a length" };
                    fields.error(&prefixed(prefix, LENGTH), expected)
                })?;
                Ok(Self(Held::Blob(BlobLink { address: address.into_owned(), bytes, sha256 })))
            }
            other => Err(fields.error(prefix, wrong_type(EdmType::Binary, &other))),
        }
    }
}

/// Where values of a given size are stored (P-11.1).
///
/// ```
/// use lazuli_client::prelude::*;
/// use lazuli_client::{Large, Storage};
///
/// #[derive(TableEntity)]
/// #[table(partition = "{user}", row = "{id:08}", rename_all = "PascalCase")]
/// struct Mail {
///     user: String,
///     id: u32,
///     #[table(large(container = "mails", inline_max = 8192))]
///     body: Large,
/// }
///
/// let body = Mail::PROPERTIES.iter().find(|property| property.name == "Body").unwrap();
/// let Storage::Large(rule) = body.storage else { panic!() };
/// assert_eq!((rule.container, rule.inline_bytes_max), ("mails", Some(8192)));
/// assert!(body.holds("Body") && !body.holds("Subject"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeRule {
    /// The container of the blobs.
    pub container: &'static str,
    /// Values of at most this size are one property; `None` if all go to blobs.
    pub inline_bytes_max: Option<usize>,
    /// Values of at most this size are several properties.
    pub chunked_bytes_max: usize,
}

impl LargeRule {
    /// Up to 64 KiB in the entity, unless `inline_bytes_max` says otherwise.
    pub const fn new(
        container: &'static str,
        inline_bytes_max: Option<usize>,
        chunked_bytes_max: usize,
    ) -> Self {
        Self { container, inline_bytes_max, chunked_bytes_max }
    }

    /// Whether a value of this size stays in the entity.
    #[cfg(feature = "patterns")]
    pub(crate) fn keeps(&self, bytes: usize) -> bool {
        self.inline_bytes_max.is_some_and(|max| bytes <= max.max(self.chunked_bytes_max))
    }
}

/// Whether some of these properties may be in blobs.
pub(crate) const fn has_large(properties: &[PropertyDef]) -> bool {
    let mut rest = properties;
    while let [first, others @ ..] = rest {
        let is_large = match first.storage {
            Storage::Large(_) => true,
            Storage::Flattened(inner) => has_large(inner),
            _ => false,
        };
        if is_large {
            return true;
        }
        rest = others;
    }
    false
}

/// The names of the properties that may be in blobs, with their rules.
pub(crate) fn large_properties(properties: &[PropertyDef]) -> Vec<(String, LargeRule)> {
    let mut found = Vec::new();
    add_large(properties, "", &mut found);
    found
}

fn add_large(properties: &[PropertyDef], prefix: &str, found: &mut Vec<(String, LargeRule)>) {
    for property in properties {
        let name = format!("{prefix}{}", property.name);
        match property.storage {
            Storage::Large(rule) => found.push((name, rule)),
            Storage::Flattened(inner) => add_large(inner, &name, found),
            _ => {}
        }
    }
}
