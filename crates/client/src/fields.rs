//! Entities read field by field, for derived code.

use crate::chunks::Chunked;
use crate::entity::{ETag, Entity, TableEntity};
use crate::form::StoredAs;
use crate::key::KeyError;
use crate::kind::Kind;
use crate::property::{PropertyDef, Storage};
use crate::value::{DecodeError, Value, ValueError};
use lazuli_model::Timestamp;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A struct whose fields are stored as properties of the entity that contains it: `#[table(flatten)]`.
///
/// ```
/// use lazuli_client::prelude::*;
/// use lazuli_client::{DecodeError, EdmType, EncodeError, Fields, Properties, PropertyDef};
///
/// /// By hand, what `#[derive(TableFields)]` does for most structs.
/// struct Place { north: f64, east: Option<f64> }
///
/// impl TableFields for Place {
///     const PROPERTIES: &'static [PropertyDef] = &[
///         PropertyDef::new("north", "North", Some(EdmType::Double)),
///         PropertyDef::new("east", "East", Some(EdmType::Double)),
///     ];
///
///     fn write_fields(&self, prefix: &str, out: &mut Properties) -> Result<(), EncodeError> {
///         out.add(format!("{prefix}North"), &self.north)?;
///         if let Some(east) = &self.east {
///             out.add(format!("{prefix}East"), east)?;
///         }
///         Ok(())
///     }
///
///     fn read_fields(prefix: &str, fields: &mut Fields) -> Result<Self, DecodeError> {
///         Ok(Self {
///             north: fields.required::<Plain, _>(&format!("{prefix}North"))?,
///             east: fields.optional::<Plain, _>(&format!("{prefix}East"))?,
///         })
///     }
/// }
/// # use lazuli_client::form::Plain;
///
/// #[derive(TableEntity)]
/// #[table(partition = "{city}", row = "{id:06}")]
/// struct Shop {
///     city: String,
///     id: u32,
///     #[table(flatten)]
///     place: Place,
/// }
/// let shop = Shop { city: "Bath".into(), id: 1, place: Place { north: 51.38, east: None } };
/// let mut properties = Properties::default();
/// shop.write(&mut properties).unwrap();
/// assert_eq!(properties.values().next().unwrap().0, "place_North");
/// ```
pub trait TableFields: Sized {
    /// The properties.
    const PROPERTIES: &'static [PropertyDef];

    /// Appends the properties, with `prefix` before each name.
    fn write_fields(
        &self,
        prefix: &str,
        out: &mut crate::entity::Properties,
    ) -> Result<(), crate::value::EncodeError>;

    /// Reads what [`TableFields::write_fields`] wrote.
    fn read_fields(prefix: &str, fields: &mut Fields) -> Result<Self, DecodeError>;
}

/// An entity whose properties are taken out one by one.
pub struct Fields {
    entity: Entity,
    /// Where the next property is likely to be: services mostly answer in the order of the declaration.
    next: usize,
}

/// A name with a prefix, which is usually empty.
pub fn prefixed(prefix: &str, name: &'static str) -> Cow<'static, str> {
    match prefix {
        "" => Cow::Borrowed(name),
        prefix => Cow::Owned(format!("{prefix}{name}")),
    }
}

impl Fields {
    /// The fields of an entity.
    pub fn new(entity: Entity) -> Self {
        Self { entity, next: 0 }
    }

    /// Takes a property out, if it is present.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        let (found, value) = self.entity.take(name, self.next)?;
        self.next = found + 1;
        Some(value)
    }

    /// A property that must be present.
    pub fn required<F, T: StoredAs<F>>(&mut self, name: &str) -> Result<T, DecodeError> {
        match self.optional(name)? {
            Some(value) => Ok(value),
            None => Err(self.error(name, ValueError::Missing)),
        }
    }

    /// A property that may be absent.
    pub fn optional<F, T: StoredAs<F>>(&mut self, name: &str) -> Result<Option<T>, DecodeError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        T::restore(value).map(Some).map_err(|reason| self.error(name, reason))
    }

    /// A value stored in several properties (C-5.14).
    pub fn chunked<F, T: StoredAs<F>>(&mut self, name: &str) -> Result<Option<T>, DecodeError> {
        let Some(value) = self.chunks(name)? else { return Ok(None) };
        T::restore(value).map(Some).map_err(|reason| self.error(name, reason))
    }

    /// The same, in its stored form.
    pub(crate) fn chunks(&mut self, name: &str) -> Result<Option<Value>, DecodeError> {
        let Some(first) = self.take(name) else { return Ok(None) };
        let mut chunked = Chunked::new(first);
        while let Some(more) = self.take(&Chunked::name(name, chunked.count())) {
            chunked.push(more).map_err(|reason| self.error(name, reason))?;
        }
        Ok(Some(chunked.join()))
    }

    /// The partition key and the row key.
    pub fn keys(&self) -> (&str, &str) {
        (self.entity.partition_key(), self.entity.row_key())
    }

    /// The version of the entity, if it was read from a table.
    pub fn etag(&self) -> Option<ETag> {
        self.entity.read_etag().cloned()
    }

    /// The time of the entity's last write, if it was read from a table.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.entity.timestamp()
    }

    /// Checks the discriminator, if there is one, and upgrades an older version (C-6.1, C-6.4).
    pub fn check_kind(
        &mut self,
        kind: Kind,
        upgrades: &[(u32, Upgrade)],
    ) -> Result<(), DecodeError> {
        let Some(found) = self.entity.remove(kind.property) else { return Ok(()) };
        let version = match &found {
            Value::String(text) => kind.version_of(text),
            _ => None,
        };
        match version {
            Some(version) if version == kind.version => Ok(()),
            Some(version) if version < kind.version => {
                for (from, upgrade) in upgrades.iter().filter(|(from, _)| *from >= version) {
                    if *from < kind.version {
                        upgrade(&mut self.entity)?;
                    }
                }
                self.next = 0;
                Ok(())
            }
            Some(found) => {
                let reason = ValueError::NewerVersion { found, known: kind.version };
                Err(self.error(kind.property, reason))
            }
            None => {
                let found = match found {
                    Value::String(text) => text.into_owned(),
                    other => format!("{other:?}"),
                };
                let reason = ValueError::WrongKind { expected: kind.name, found };
                Err(self.error(kind.property, reason))
            }
        }
    }

    /// An error for a property that cannot be decoded.
    pub fn error(&self, property: &str, reason: ValueError) -> DecodeError {
        self.entity.decode_error(property, reason)
    }

    /// An error for a key that does not match the type's template.
    pub fn key_error(&self, error: KeyError) -> DecodeError {
        self.error("RowKey", ValueError::Key(Box::new(error)))
    }

    /// Whether any of these properties is present.
    #[doc(hidden)]
    pub fn has_any(&self, prefix: &str, properties: &[PropertyDef]) -> bool {
        properties.iter().any(|property| match property.storage {
            Storage::Flattened(inner) => self.has_any(&format!("{prefix}{}", property.name), inner),
            _ => self.entity.value(&prefixed(prefix, property.name)).is_some(),
        })
    }

    /// Checks that a value has the key it was read by: a field may be both in the key and a property (C-4.10).
    pub fn check_key<T: TableEntity>(&self, value: &T) -> Result<(), DecodeError> {
        let is_same =
            value.key().is_ok_and(|key| (key.partition.as_str(), key.row.as_str()) == self.keys());
        if is_same { Ok(()) } else { Err(self.error("RowKey", ValueError::KeyMismatch)) }
    }

    /// The properties that were not taken (C-5.5).
    pub fn rest(&mut self) -> BTreeMap<String, Value> {
        self.entity.take_rest()
    }

    /// Fails if any property is left.
    pub fn deny_unknown(&self) -> Result<(), DecodeError> {
        match self.entity.first_left() {
            Some(name) => Err(self.error(name, ValueError::Unknown)),
            None => Ok(()),
        }
    }
}

/// Upgrades an entity from one version of its type to the next.
pub type Upgrade = fn(&mut Entity) -> Result<(), DecodeError>;
