//! Converts values to and from stored entities: every read and write of a typed table goes through here.

use crate::account::Account;
use crate::encryption::{CryptoError, METADATA};
use crate::entity::{Entity, Loaded, Properties, Reading, TableEntity};
use crate::error::Error;
use crate::index::{self, CopyRow};
use crate::large::{has_large, large_properties};
use crate::shape::{Declared, Rule, Shape, has_versions, is_indexed, uncounted, unlisted};
use crate::table::Table;
use crate::value::Value;
use lazuli_model::EntityKey;
use std::sync::Arc;

/// The property that marks a row as a copy of another (P-0.2).
pub(crate) const INDEX_MARK: &str = "_ix";

/// The key and the properties of a value. They are checked later, after encryption, which changes their sizes.
pub(crate) fn encode<T: TableEntity>(value: &T) -> Result<(EntityKey, Properties), Error> {
    const { assert!(T::PARTS == 0, "a wide entity is written through `tables.wide()`") };
    if T::IS_MODEL {
        return Err(uncounted());
    }
    let shape = value.shape();
    // A blob would be orphaned, or never written (P-11).
    if shape.has_large {
        let error = Error::config("a type with large values is written by a LargeTable");
        return Err(error.with(|context| context.hint = Some("see Account::large".into())));
    }
    if shape.has_lists {
        return Err(unlisted());
    }
    if shape.is_wide() {
        return Err(Error::config("a wide entity is written through `tables.wide()`"));
    }
    // An untyped variant of a union.
    if shape.is_dynamic {
        Rule::of::<T>().check()?;
    }
    encode_whole(value)
}

/// The same of an entity that was read, which still has its key.
pub(crate) fn encode_read<T: TableEntity>(
    loaded: &Loaded<T>,
) -> Result<(EntityKey, Properties), Error> {
    if loaded.reading() == Reading::Selected {
        let error = Error::config(
            "only some of its properties were read: a replace would remove the others",
        );
        return Err(error.with(|context| {
            context.key = Some(loaded.loaded_key().clone());
            context.hint = Some("merge what has changed, or read the whole entity".into());
        }));
    }
    let (key, properties) = encode(&**loaded)?;
    check_key(&key, loaded)?;
    Ok((key, properties))
}

/// Fails unless `key`, that of the value, is the one it was read by: its version says nothing of another row.
pub(crate) fn check_key<T>(key: &EntityKey, loaded: &Loaded<T>) -> Result<(), Error> {
    if key == loaded.loaded_key() {
        return Ok(());
    }
    let error = Error::config("the entity has another key than it was read by");
    Err(error.with(|context| {
        context.key = Some(key.clone());
        context.hint = Some("insert it under its new key, and delete it under the old one".into());
    }))
}

/// The same, with large values in as many properties as they need.
pub(crate) fn encode_whole<T: TableEntity>(value: &T) -> Result<(EntityKey, Properties), Error> {
    let key = value.key()?;
    let mut properties = Properties::of_value(value);
    match value.write(&mut properties) {
        Ok(()) => Ok((key, properties)),
        Err(error) => Err(Error::from(error).with(|context| context.key = Some(key))),
    }
}

/// The size of an entity by the service's formula (T-3.10), at most 1 MiB: text counts two bytes per character.
/// Encryption overhead is not included (C-5.13).
///
/// ```
/// # use lazuli_client::{Entity, encoded_size};
/// let entity = Entity::new("p", "r").with("Name", "Ann");
/// assert_eq!(encoded_size(&entity).unwrap(), 4 + 2 * 2 + 8 + 2 * 4 + 2 * 3 + 4);
/// ```
pub fn encoded_size<T: TableEntity>(value: &T) -> Result<usize, Error> {
    let (key, properties) = encode_whole(value)?;
    Ok(lazuli_model::entity::size_bytes(&key, properties.iter()))
}

impl Table<Entity> {
    /// Finds what the service would refuse of an entity, and sends nothing: keys, names, sizes, and what Cosmos DB refuses if
    /// the account is one of its. A write finds the same before it is sent.
    ///
    /// ```no_run
    /// # async fn run(people: lazuli_client::Table) -> Result<(), lazuli_client::Error> {
    /// use lazuli_client::Entity;
    ///
    /// people.check(&Entity::new("Sales", "7").with("Age", 42))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self, entity: &Entity) -> Result<(), Error> {
        let place = |error: Error| error.at("check", Some(self.name()), None);
        let (key, properties) = encode(entity).map_err(place)?;
        let checked = self.account.dialect().check(&key, &properties);
        checked.map_err(|error| place(error.with(|context| context.key = Some(key))))
    }
}

/// What an entity became.
pub(crate) struct Decoded<T> {
    pub(crate) value: T,
    /// The copies that its indexes keep of it, if its type has any.
    pub(crate) copies: Option<Arc<[CopyRow]>>,
    /// The addresses of the blobs that it refers to, if its type has large values.
    pub(crate) blobs: Option<Arc<[String]>>,
    /// Whether the row is of an older version of its type.
    pub(crate) is_upgraded: bool,
}

impl<T> Decoded<T> {
    /// A value without indexes.
    pub(crate) fn plain(value: T) -> Self {
        Self { value, copies: None, blobs: None, is_upgraded: false }
    }
}

/// Decrypts and decodes an entity that was read. `selected` are the selected properties; empty if all are.
pub(crate) async fn open<T>(
    account: &Account,
    raw: Loaded<Entity>,
    declared: Declared,
    selected: &[String],
    decode: &(dyn Fn(Entity) -> Result<Option<Decoded<T>>, Error> + Send + Sync),
) -> Result<Option<Loaded<T>>, Error> {
    let declared = declared.of(&raw);
    let opened = account.1.open(raw, &account.0.env, declared, selected).await?;
    opened.filter_map(decode)
}

/// Decodes an entity; `None` if it is an index copy, unless copies are wanted (P-0.3).
pub(crate) fn decode<T: TableEntity>(entity: Entity) -> Result<Option<Decoded<T>>, Error> {
    const { assert!(T::PARTS == 0, "a wide entity is read through `tables.wide()`") };
    if !T::IS_DYNAMIC && entity.value(INDEX_MARK).is_some() {
        return Ok(None);
    }
    // Decryption removes the metadata, so this was not decrypted.
    if T::shape_of(&entity).has_secrets && entity.value(METADATA).is_some() {
        return Err(CryptoError::NoKey.into());
    }
    let blobs =
        if const { has_large(T::PROPERTIES) } { Some(addresses::<T>(&entity)) } else { None };
    let is_upgraded = const { has_versions::<T>() } && is_older(&entity, T::shape_of(&entity));
    let value = T::read(entity)?;
    if const { !is_indexed::<T>() } {
        return Ok(Some(Decoded { value, copies: None, blobs, is_upgraded }));
    }
    // Keep the keys of its copies: a later write finds them without another read (C-7.2).
    let key = value.key()?;
    let mut properties = Properties::default();
    value.write(&mut properties)?;
    let copies = index::copies(&value, &key, &properties)?;
    Ok(Some(Decoded { value, copies: Some(copies.into()), blobs, is_upgraded }))
}

/// Whether a row is of an older version than its type in this program.
fn is_older(row: &Entity, shape: Shape) -> bool {
    let Some(kind) = shape.kind else { return false };
    let Some(Value::String(text)) = row.value(kind.property) else { return false };
    kind.version_of(text).is_some_and(|version| version < kind.version)
}

/// The addresses of blobs in the large properties of an entity.
fn addresses<T: TableEntity>(entity: &Entity) -> Arc<[String]> {
    let names = large_properties(T::PROPERTIES).into_iter();
    names.filter_map(|(name, _)| entity.str(&name).ok().map(str::to_owned)).collect()
}
