//! Entities: of any shape, and of a type's own (C-5).

use crate::codec::Decoded;
use crate::encryption::{CryptoError, declares_secrets};
use crate::error::Error;
use crate::form::StoredAs;
use crate::index::{CopyRow, IndexDef};
use crate::key::KeyError;
use crate::kind::Kind;
use crate::layout::Layout;
use crate::property::PropertyDef;
use crate::value::{DecodeError, EncodeError, IntoValue, TableValue, Value, ValueError};
use crate::write_ids::{WRITE_IDS, WriteIds};
use lazuli_model::{EntityKey, PropertyLimits, Timestamp};
use lazuli_wire::odata::json::AnsweredEntity;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A type whose values are entities of a table.
pub trait TableEntity: Sized + Send + 'static {
    /// The table that holds them, if the type names one.
    const TABLE: Option<&'static str> = None;

    /// What tells the entities of this type from those of others in the same table.
    const KIND: Option<Kind> = None;

    /// The form of the keys.
    const LAYOUT: Layout = Layout::UNKNOWN;

    /// The properties that values have, as far as the type declares them.
    const PROPERTIES: &'static [PropertyDef] = &[];

    /// Whether values take any entity, index copies too.
    const IS_DYNAMIC: bool = false;

    /// How many ids of writes the entities keep (C-13.6); none unless it is asked for.
    const WRITE_IDS: usize = 0;

    /// The indexes: copies of its entities under other keys (P-1, P-2).
    const INDEXES: &'static [IndexDef] = &[];

    /// Whether values keep properties that the type does not declare (C-5.5).
    const KEEPS_UNKNOWN: bool = false;

    /// The keys of this value.
    fn key(&self) -> Result<EntityKey, KeyError>;

    /// Appends the properties of this value.
    fn write(&self, out: &mut Properties) -> Result<(), EncodeError>;

    /// The value that an entity holds.
    fn read(entity: Entity) -> Result<Self, DecodeError>;

    /// Whether it was said that this type drops what it does not know.
    #[doc(hidden)]
    fn warned() -> Option<&'static AtomicBool> {
        None
    }

    /// The key of the copy that an index keeps of this value, by the number of the index; `None` if it keeps
    /// none.
    fn index_key(&self, index: usize) -> Result<Option<EntityKey>, KeyError> {
        let _ = index;
        Ok(None)
    }
}

/// Properties on their way out: names and values, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties(Vec<(Cow<'static, str>, Value)>, Secrecy);

/// What is to be encrypted before properties are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Secrecy {
    /// What the account says.
    #[default]
    Untold,
    /// Some of what the type declares.
    Declared(&'static [PropertyDef]),
    /// Nothing: it is encrypted.
    Sealed,
}

impl Properties {
    /// Adds a property.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: Value) {
        self.0.push((name.into(), value));
    }

    /// Adds a property of any type.
    pub fn add<T: TableValue>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: &T,
    ) -> Result<(), EncodeError> {
        self.push(name, value.to_value()?);
        Ok(())
    }

    /// Adds a property in a form that its type does not have by itself.
    pub fn store<F, T: StoredAs<F>>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: &T,
    ) -> Result<(), EncodeError> {
        self.push(name, value.store()?);
        Ok(())
    }

    /// Adds a text.
    pub fn push_text(&mut self, name: impl Into<Cow<'static, str>>, text: Cow<'static, str>) {
        self.push(name, Value::String(text));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a property: in its place if it is there, else at the end.
    pub(crate) fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, place)) => *place = value,
            None => self.push(name, value),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Names, and values to change, in order.
    #[cfg(feature = "encryption")]
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = (&str, &mut Value)> {
        self.0.iter_mut().map(|(name, value)| (&**name, value))
    }

    /// Names and values, in the order they are sent.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, lazuli_model::ValueRef<'_>)> + Clone {
        self.0.iter().map(|(name, value)| (&**name, value.as_ref()))
    }

    /// The properties of a type that declares these.
    pub(crate) fn of(declared: &'static [PropertyDef]) -> Self {
        let is_secret = declares_secrets(declared);
        Self(Vec::new(), if is_secret { Secrecy::Declared(declared) } else { Secrecy::Untold })
    }

    /// What the type declares, if some of it is to be encrypted and is not yet.
    #[cfg(feature = "encryption")]
    pub(crate) fn declared(&self) -> &'static [PropertyDef] {
        match self.1 {
            Secrecy::Declared(declared) => declared,
            Secrecy::Untold | Secrecy::Sealed => &[],
        }
    }

    /// Whether what is to be encrypted is encrypted.
    pub(crate) fn is_sealed(&self) -> bool {
        self.1 == Secrecy::Sealed
    }

    /// Says that what is to be encrypted is encrypted.
    pub(crate) fn mark_sealed(&mut self) {
        self.1 = Secrecy::Sealed;
    }

    /// Checks that nothing is still to be encrypted (E-22), and the limits of the service, key and all
    /// (C-5.13).
    pub(crate) fn check(&self, key: &EntityKey) -> Result<(), Error> {
        if matches!(self.1, Secrecy::Declared(_)) {
            return Err(CryptoError::NoKey.into());
        }
        PropertyLimits::Service.check(&self.0)?;
        Ok(lazuli_model::entity::check_size(key, self.iter())?)
    }
}

/// The version of an entity: opaque text, compared as text (C-10.6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ETag(Arc<str>);

impl ETag {
    /// The tag that a service wrote.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text of the tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An entity of any shape.
///
/// ```
/// # use lazuli_client::Entity;
/// let department = Entity::new("Sales", "Department").with("Name", "Sales").with("People", 153);
/// assert_eq!(department.get::<i32>("People").unwrap(), 153);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entity {
    partition_key: String,
    row_key: String,
    timestamp: Option<Timestamp>,
    etag: Option<ETag>,
    properties: Vec<(Cow<'static, str>, Value)>,
}

impl Entity {
    /// An entity without properties.
    pub fn new(partition_key: impl Into<String>, row_key: impl Into<String>) -> Self {
        Self { partition_key: partition_key.into(), row_key: row_key.into(), ..Self::default() }
    }

    /// With a property set.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl IntoValue) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a property: in its place if it is there, else at the end.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl IntoValue) {
        let (name, value) = (name.into(), value.into_value());
        match self.properties.iter_mut().find(|(known, _)| *known == name) {
            Some((_, place)) => *place = value,
            None => self.properties.push((name, value)),
        }
    }

    /// Sets a property of a type that may not fit.
    pub fn try_set<T: TableValue>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: &T,
    ) -> Result<(), EncodeError> {
        self.set(name, value.to_value()?);
        Ok(())
    }

    /// Removes a property.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.properties.iter().position(|(known, _)| known == name)?;
        Some(self.properties.remove(at).1)
    }

    /// The value of a property.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// A property as a Rust type; an error if it is missing or of another type.
    pub fn get<T: TableValue>(&self, name: &str) -> Result<T, DecodeError> {
        self.opt(name)?.ok_or_else(|| self.decode_error(name, ValueError::Missing))
    }

    /// A property as a Rust type, if there is one.
    pub fn opt<T: TableValue>(&self, name: &str) -> Result<Option<T>, DecodeError> {
        let value = self.value(name).map(T::from_value).transpose();
        value.map_err(|reason| self.decode_error(name, reason))
    }

    /// A text property.
    pub fn str(&self, name: &str) -> Result<&str, DecodeError> {
        let reason = match self.value(name) {
            Some(Value::String(text)) => return Ok(text),
            Some(other) => {
                ValueError::WrongType { expected: "Edm.String", found: other.as_ref().edm_type() }
            }
            None => ValueError::Missing,
        };
        Err(self.decode_error(name, reason))
    }

    /// The partition key.
    pub fn partition_key(&self) -> &str {
        &self.partition_key
    }

    /// The row key.
    pub fn row_key(&self) -> &str {
        &self.row_key
    }

    /// When it was last written, if it was read from a table.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// Names and values, in the order they were received or set.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.properties.iter().map(|(name, value)| (&**name, value))
    }

    /// The version, if it was read from a table.
    pub(crate) fn read_etag(&self) -> Option<&ETag> {
        self.etag.as_ref()
    }

    /// Takes a property out and leaves its place empty: the index and the value. The search begins at
    /// `from`.
    pub(crate) fn take(&mut self, name: &str, from: usize) -> Option<(usize, Value)> {
        let is_it = |property: &&(Cow<'static, str>, Value)| property.0 == name;
        let ahead = self.properties.iter().skip(from).position(|p| is_it(&p)).map(|at| at + from);
        let at = ahead.or_else(|| self.properties.iter().take(from).position(|p| is_it(&p)))?;
        let place = self.properties.get_mut(at)?;
        // No property has an empty name: it marks a place that is empty.
        let (_, value) = std::mem::replace(place, (Cow::Borrowed(""), Value::Boolean(false)));
        Some((at, value))
    }

    /// The same properties but some, under another key.
    pub(crate) fn moved(
        mut self,
        partition_key: String,
        row_key: String,
        without: &[&str],
    ) -> Self {
        self.properties.retain(|(name, _)| !without.contains(&&**name));
        Self { partition_key, row_key, ..self }
    }

    /// What [`Entity::take`] has left.
    pub(crate) fn take_rest(&mut self) -> BTreeMap<String, Value> {
        let left = std::mem::take(&mut self.properties);
        let named = left.into_iter().filter(|(name, _)| !name.is_empty());
        named.map(|(name, value)| (name.into_owned(), value)).collect()
    }

    /// The first property that [`Entity::take`] has left. Control members are nobody's.
    pub(crate) fn first_left(&self) -> Option<&str> {
        let is_left = |name: &&str| !name.is_empty() && !name.starts_with('_');
        self.properties.iter().map(|(name, _)| &**name).find(is_left)
    }

    /// How many properties it has.
    pub fn len(&self) -> usize {
        self.properties.len()
    }

    /// Whether it has no properties.
    pub fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    /// The error that a property is not what it should be.
    pub fn decode_error(&self, property: &str, reason: ValueError) -> DecodeError {
        let key = EntityKey::parse(&self.partition_key, &self.row_key).ok();
        DecodeError { property: property.to_owned(), reason, key }
    }

    /// An entity as it was answered. The service names the tag in a header too, for answers without
    /// metadata.
    pub(crate) fn from_answer(answer: AnsweredEntity<'_>, header_etag: Option<&str>) -> Self {
        let AnsweredEntity { etag, timestamp, body } = answer;
        let owned = |key: Option<Cow<'_, str>>| key.map(Cow::into_owned).unwrap_or_default();
        let property = |(name, value): (Cow<'_, str>, lazuli_model::Value<'_>)| {
            (Cow::Owned(name.into_owned()), value.into_owned())
        };
        Self {
            partition_key: owned(body.partition_key),
            row_key: owned(body.row_key),
            timestamp,
            etag: etag.as_deref().or(header_etag).map(ETag::new),
            properties: body.properties.into_iter().map(property).collect(),
        }
    }
}

impl TableEntity for Entity {
    const IS_DYNAMIC: bool = true;
    const KEEPS_UNKNOWN: bool = true;

    fn key(&self) -> Result<EntityKey, KeyError> {
        Ok(EntityKey::parse(&self.partition_key, &self.row_key)?)
    }

    fn write(&self, out: &mut Properties) -> Result<(), EncodeError> {
        for (name, value) in &self.properties {
            if matches!(value, Value::String(text) if text.contains('\0')) {
                return Err(EncodeError::Nul);
            }
            out.push(name.clone(), value.clone());
        }
        Ok(())
    }

    fn read(entity: Entity) -> Result<Self, DecodeError> {
        Ok(entity)
    }
}

/// A value that was read, with the key, version and time it was read under.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T> {
    value: T,
    key: EntityKey,
    etag: ETag,
    timestamp: Timestamp,
    write_ids: WriteIds,
    copies: Option<Arc<[CopyRow]>>,
}

impl<T> Loaded<T> {
    /// The copies that its indexes kept of it when it was read, if that is known.
    pub(crate) fn copies(&self) -> Option<&[CopyRow]> {
        self.copies.as_deref()
    }

    /// The writes that the entity names.
    pub(crate) fn write_ids(&self) -> &WriteIds {
        &self.write_ids
    }

    /// A value that is not in the table yet.
    pub(crate) fn unwritten(
        value: T,
        key: EntityKey,
        etag: ETag,
        timestamp: Timestamp,
        write_ids: WriteIds,
    ) -> Self {
        Self { value, key, etag, timestamp, write_ids, copies: None }
    }

    /// The keys it was read by.
    pub fn loaded_key(&self) -> &EntityKey {
        &self.key
    }

    /// The version that was read.
    pub fn etag(&self) -> &ETag {
        &self.etag
    }

    /// When the version that was read was written.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// The value alone.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// What `decode` makes of the value, under the same key and version.
    pub(crate) fn filter_map<U>(
        self,
        decode: impl FnOnce(T) -> Result<Option<Decoded<U>>, Error>,
    ) -> Result<Option<Loaded<U>>, Error> {
        let Self { value, key, etag, timestamp, write_ids, copies: _ } = self;
        let value =
            decode(value).map_err(|error| error.with(|context| context.key = Some(key.clone())))?;
        Ok(value.map(|Decoded { value, copies }| Loaded {
            value,
            key,
            etag,
            timestamp,
            write_ids,
            copies,
        }))
    }

    /// Another value under the same key and version.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Loaded<U> {
        let Self { value, key, etag, timestamp, write_ids, copies: _ } = self;
        Loaded { value: map(value), key, etag, timestamp, write_ids, copies: None }
    }
}

impl Loaded<Entity> {
    /// The entity that an answer holds, as it is stored.
    pub(crate) fn raw(
        answer: AnsweredEntity<'_>,
        header_etag: Option<&str>,
    ) -> Result<Self, Error> {
        let entity = Entity::from_answer(answer, header_etag);
        let etag = entity.read_etag().cloned();
        let etag = etag.ok_or_else(|| Error::protocol("an entity without an ETag"))?;
        let timestamp = entity.timestamp();
        let timestamp =
            timestamp.ok_or_else(|| Error::protocol("an entity without a Timestamp"))?;
        let key = entity.key().map_err(Error::protocol)?;
        let write_ids = entity.value(WRITE_IDS).map(WriteIds::from_value).unwrap_or_default();
        Ok(Self { value: entity, key, etag, timestamp, write_ids, copies: None })
    }
}

impl<T> Loaded<T> {
    /// What an answer holds, if `decode` makes something of it.
    pub(crate) fn from_answer(
        answer: AnsweredEntity<'_>,
        header_etag: Option<&str>,
        decode: &(dyn Fn(Entity) -> Result<Option<Decoded<T>>, Error> + Send + Sync),
    ) -> Result<Option<Self>, Error> {
        Loaded::raw(answer, header_etag)?.filter_map(decode)
    }
}

impl Loaded<Entity> {
    /// The same as a type; `None` if it is a copy that an index keeps.
    pub(crate) fn decode<T: TableEntity>(self) -> Result<Option<Loaded<T>>, Error> {
        let Self { value, key, etag, timestamp, write_ids, copies: _ } = self;
        let decoded = crate::codec::decode(value)?;
        Ok(decoded.map(|Decoded { value, copies }| Loaded {
            value,
            key,
            etag,
            timestamp,
            write_ids,
            copies,
        }))
    }
}

impl<T> Deref for Loaded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Loaded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_model::EntityError;

    #[test]
    fn a_property_is_set_in_its_place() {
        let mut entity = Entity::new("p", "r").with("a", 1).with("b", "x");
        entity.set("a", 2_i64);
        assert_eq!(entity.properties().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(entity.value("a"), Some(&Value::Int64(2)));
        assert_eq!(entity.remove("a"), Some(Value::Int64(2)));
        assert_eq!((entity.len(), entity.opt::<i32>("a")), (1, Ok(None)));
    }

    #[test]
    fn a_wrong_or_missing_property_names_itself_and_its_entity() {
        let entity = Entity::new("p", "r").with("Age", "old");
        let error = entity.get::<i32>("Age").unwrap_err();
        assert_eq!((&*error.property, error.key), ("Age", EntityKey::parse("p", "r").ok()));
        assert_eq!(entity.get::<i32>("Size").unwrap_err().reason, ValueError::Missing);
        assert!(entity.str("Age").is_ok() && entity.str("Size").is_err());
    }

    #[test]
    fn limits_are_checked_before_anything_is_sent() {
        // CS-11, C-5.13.
        let key = EntityKey::parse("p", "r").unwrap();
        let checked = |entity: &Entity| {
            let mut properties = Properties::default();
            entity.write(&mut properties).unwrap();
            properties.check(&key).map_err(|error| error.kind().clone())
        };
        let limit = |error| Err(crate::ErrorKind::LimitExceeded(error));
        let many = |count: usize| {
            (0..count).fold(Entity::new("p", "r"), |e, i| e.with(format!("P{i}"), 1))
        };
        assert_eq!(checked(&many(252)), Ok(()));
        assert_eq!(checked(&many(253)), limit(EntityError::TooManyProperties));
        let long = Entity::new("p", "r").with("a", "x".repeat(32_769));
        assert_eq!(checked(&long), limit(EntityError::PropertyValueTooLarge));
        let wide = (0..17)
            .fold(Entity::new("p", "r"), |e, i| e.with(format!("P{i}"), vec![0_u8; 64 * 1024]));
        assert_eq!(checked(&wide), limit(EntityError::EntityTooLarge));
    }
}
