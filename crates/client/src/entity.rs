//! Entities: untyped, and those of a type (C-5).

use crate::index::IndexDef;
use crate::key::KeyError;
use crate::kind::Kind;
use crate::layout::Layout;
use crate::list::ListDef;
use crate::property::PropertyDef;
use crate::shape::Shape;
use crate::value::{DecodeError, EncodeError, IntoValue, TableValue, Value, ValueError};
use lazuli_model::{EntityKey, Timestamp};
use lazuli_wire::odata::json::AnsweredEntity;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod loaded;
mod properties;

pub use loaded::Loaded;
pub(crate) use loaded::Reading;
pub use properties::Properties;

/// A type whose values are entities of a table.
///
/// By hand, with keys from a function and the properties one by one:
///
/// ```
/// use lazuli_client::prelude::*;
/// use lazuli_client::form::Plain;
/// use lazuli_client::{DecodeError, EncodeError, EntityKey, Fields, KeyError, Kind, Properties, Upgrade, ValueError};
///
/// #[derive(Debug, PartialEq)]
/// struct Reading { sensor: String, minute: u32, degrees: f64 }
///
/// const IS_READING: Kind = Kind { property: Kind::PROPERTY, name: "Reading", version: 2 };
///
/// /// Version 1 stored degrees Fahrenheit.
/// const UPGRADES: &[(u32, Upgrade)] = &[(1, |row: &mut Entity| {
///     let fahrenheit: f64 = row.get("Degrees")?;
///     row.set("Degrees", (fahrenheit - 32.0) / 1.8);
///     Ok(())
/// })];
///
/// impl TableEntity for Reading {
///     const KIND: Option<Kind> = Some(IS_READING);
///
///     fn key(&self) -> Result<EntityKey, KeyError> {
///         let row = format!("{:08}", self.minute);
///         Ok(EntityKey::parse(&self.sensor, &row)?)
///     }
///
///     fn write(&self, out: &mut Properties) -> Result<(), EncodeError> {
///         out.push_text(IS_READING.property, IS_READING.text());
///         out.add("Degrees", &self.degrees)
///     }
///
///     fn read(entity: Entity) -> Result<Self, DecodeError> {
///         let mut fields = Fields::new(entity);
///         fields.check_kind(IS_READING, UPGRADES)?;
///         let degrees = fields.required::<Plain, _>("Degrees")?;
///         let (sensor, row) = fields.keys();
///         let foreign = || KeyError::Foreign { text: row.to_owned(), template: "a number" };
///         let minute = row.parse().map_err(|_| fields.key_error(foreign()))?;
///         let reading = Self { sensor: sensor.to_owned(), minute, degrees };
///         fields.check_key(&reading)?; // `00000042`, not `42`
///         fields.deny_unknown()?;
///         Ok(reading)
///     }
/// }
///
/// let row = |key| Entity::new("cellar", key).with("EntityType", "Reading").with("Degrees", 50.0);
/// let reading = Reading { sensor: "cellar".into(), minute: 42, degrees: 10.0 };
/// assert_eq!(Reading::read(row("00000042")).unwrap(), reading);
/// assert_eq!(Reading::read(row("42")).unwrap_err().reason, ValueError::KeyMismatch);
/// assert_eq!(IS_READING.version_of("Reading.2"), Some(2));
/// let mine = row("x").decode_error("Degrees", ValueError::Missing); // an error of one's own
/// ```
pub trait TableEntity: Sized + Send + 'static {
    /// The table that holds them, if the type names one.
    const TABLE: Option<&'static str> = None;

    /// Distinguishes the entities of this type from others in the same table.
    const KIND: Option<Kind> = None;

    /// The form of the keys.
    const LAYOUT: Layout = Layout::UNKNOWN;

    /// The properties that the type declares.
    const PROPERTIES: &'static [PropertyDef] = &[];

    /// Whether values can hold any entity, including index copies.
    const IS_DYNAMIC: bool = false;

    /// How many write ids the entities keep (C-13.6); zero by default.
    const WRITE_IDS: usize = 0;

    /// The indexes: copies of its entities under other keys (P-1, P-2).
    const INDEXES: &'static [IndexDef] = &[];

    /// The types of the key fields that templates format by type: `{id:pad}`, `{time:rev}`.
    const KEY_TYPES: &'static [(&'static str, &'static str)] = &[];

    /// Whether values keep properties that the type does not declare (C-5.5).
    const KEEPS_UNKNOWN: bool = false;

    /// The rows that make up a wide entity (P-10); 0 if it is one row.
    const PARTS: usize = 0;

    /// Whether it is a union whose types keep something of each other: its entities are written through a `ModelTable`
    /// (P-15.3).
    const IS_MODEL: bool = false;

    /// The lists that its entities are in (P-4).
    const LISTS: &'static [ListDef] = &[];

    /// The shapes of the values: one, or one for each variant of a union.
    #[doc(hidden)]
    const SHAPES: &'static [Shape] = &[Shape::of::<Self>()];

    /// The shape of this value: in a union, that of its variant's type.
    #[doc(hidden)]
    fn shape(&self) -> Shape {
        const { Shape::of::<Self>() }
    }

    /// The shape of the value in a stored row.
    #[doc(hidden)]
    fn shape_of(entity: &Entity) -> Shape {
        let _ = entity;
        const { Shape::of::<Self>() }
    }

    /// The key of this value.
    fn key(&self) -> Result<EntityKey, KeyError>;

    /// Appends the properties of this value.
    fn write(&self, out: &mut Properties) -> Result<(), EncodeError>;

    /// Reads a value from an entity.
    fn read(entity: Entity) -> Result<Self, DecodeError>;

    /// Whether a warning was logged that this type drops unknown properties.
    #[doc(hidden)]
    fn warned() -> Option<&'static AtomicBool> {
        None
    }

    /// The list that this value is in, by the number of the list, and the item that stands for it; `None` if it is not
    /// in that list.
    #[doc(hidden)]
    fn list_entry(&self, list: usize) -> Result<Option<(EntityKey, String)>, KeyError> {
        let _ = list;
        Ok(None)
    }

    /// The key of the entity that an item of a list stands for.
    #[doc(hidden)]
    fn listed_key(number: usize, list: &EntityKey, item: &str) -> Option<EntityKey> {
        let _ = (number, list, item);
        None
    }

    /// The key of the copy that an index keeps of this value, by the number of the index; `None` if there is
    /// no copy.
    #[doc(hidden)]
    fn index_key(&self, index: usize) -> Result<Option<EntityKey>, KeyError> {
        let _ = index;
        Ok(None)
    }
}

/// The version of an entity: opaque text, compared byte for byte (C-10.6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ETag(Arc<str>);

impl ETag {
    /// The tag that every version of an entity matches: `*`.
    pub fn any() -> Self {
        Self::new("*")
    }

    /// An etag from a service.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// A version that no row has: that of a write which others have written over since (C-13.6c).
    pub(crate) fn superseded() -> Self {
        Self::new("W/\"datetime'1601-01-01T00%3A00%3A00.0000000Z'\"")
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

/// An untyped entity: it may have any properties.
///
/// ```
/// # use lazuli_client::Entity;
/// let department = Entity::new("Sales", "Department").with("Name", "Sales").with("People", 153);
/// assert_eq!(department.get::<i32>("People").unwrap(), 153);
/// ```
///
/// ```
/// # use lazuli_client::Entity;
/// # use std::time::SystemTime;
/// # fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let mut log = Entity::new("2026-11", "00017").with("Level", "warn");
/// log.try_set("At", &SystemTime::now())?; // fails for a time that cannot be stored
/// assert_eq!(log.partition_key(), "2026-11");
/// assert_eq!(log.opt::<i32>("Status")?, None);
/// assert!(log.opt::<i32>("Level").is_err());
/// # Ok(())
/// # }
/// # run().unwrap();
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

    /// Sets a property.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl IntoValue) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a property: replaces an existing one in place, else appends it.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl IntoValue) {
        let (name, value) = (name.into(), value.into_value());
        match self.properties.iter_mut().find(|(known, _)| *known == name) {
            Some((_, place)) => *place = value,
            None => self.properties.push((name, value)),
        }
    }

    /// Sets a property to a value that may not be storable.
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

    /// A property as a Rust type; `None` if it is missing.
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

    /// The time of the last write, if the entity was read from a table.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// Names and values, in the order they were received or set.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.properties.iter().map(|(name, value)| (&**name, value))
    }

    /// The version, if the entity was read from a table.
    pub(crate) fn read_etag(&self) -> Option<&ETag> {
        self.etag.as_ref()
    }

    /// Takes a property out, leaving its slot empty; returns the index and the value. The search begins at
    /// `from`.
    pub(crate) fn take(&mut self, name: &str, from: usize) -> Option<(usize, Value)> {
        let is_it = |property: &&(Cow<'static, str>, Value)| property.0 == name;
        let ahead = self.properties.iter().skip(from).position(|p| is_it(&p)).map(|at| at + from);
        let at = ahead.or_else(|| self.properties.iter().take(from).position(|p| is_it(&p)))?;
        let place = self.properties.get_mut(at)?;
        // No property has an empty name: it marks an empty slot.
        let (_, value) = std::mem::replace(place, (Cow::Borrowed(""), Value::Boolean(false)));
        Some((at, value))
    }

    /// The properties except some, under another key.
    pub(crate) fn moved(
        mut self,
        partition_key: String,
        row_key: String,
        without: &[&str],
    ) -> Self {
        self.properties.retain(|(name, _)| !without.contains(&&**name));
        Self { partition_key, row_key, ..self }
    }

    /// Adds the properties of another entity; the two have none in common.
    #[cfg(feature = "patterns")]
    pub(crate) fn append(&mut self, other: Self) {
        self.properties.extend(other.properties);
    }

    /// The properties that [`Entity::take`] has left over.
    pub(crate) fn take_rest(&mut self) -> BTreeMap<String, Value> {
        let left = std::mem::take(&mut self.properties);
        let named = left.into_iter().filter(|(name, _)| !name.is_empty());
        named.map(|(name, value)| (name.into_owned(), value)).collect()
    }

    /// The first property that [`Entity::take`] has left over, control members aside.
    pub(crate) fn first_left(&self) -> Option<&str> {
        let is_left = |name: &&str| !name.is_empty() && !name.starts_with('_');
        self.properties.iter().map(|(name, _)| &**name).find(is_left)
    }

    /// The number of properties.
    pub fn len(&self) -> usize {
        self.properties.len()
    }

    /// Whether it has no properties.
    pub fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    /// An error for a property that cannot be decoded.
    pub fn decode_error(&self, property: &str, reason: ValueError) -> DecodeError {
        let key = EntityKey::parse(&self.partition_key, &self.row_key).ok();
        DecodeError { property: property.to_owned(), reason, key }
    }

    /// An entity from an answer. The service also sends the etag in a header, for answers without
    /// metadata.
    pub(crate) fn from_answer(
        answer: AnsweredEntity<'_>,
        header_etag: Option<&str>,
        declared: &[PropertyDef],
    ) -> Self {
        let AnsweredEntity { etag, timestamp, body } = answer;
        let owned = |key: Option<Cow<'_, str>>| key.map(Cow::into_owned).unwrap_or_default();
        // A name that the type declares need not be copied. Services mostly answer in the order of the declaration.
        let mut expected = declared.iter().cycle();
        let mut name_of = |name: Cow<'_, str>| {
            let known = expected.by_ref().take(declared.len()).find(|known| known.name == name);
            known.map_or_else(|| Cow::Owned(name.into_owned()), |known| Cow::Borrowed(known.name))
        };
        let property = |(name, value): (Cow<'_, str>, lazuli_model::Value<'_>)| {
            (name_of(name), value.into_owned())
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
