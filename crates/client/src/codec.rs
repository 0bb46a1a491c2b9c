//! Values to stored entities and back: the one place that every read and write of a typed table goes through.

use crate::account::Account;
use crate::encryption::{CryptoError, METADATA};
use crate::entity::{Entity, Loaded, Properties, TableEntity};
use crate::error::Error;
use crate::index::{self, CopyRow};
use crate::large::{has_large, large_properties};
use crate::shape::{Declared, Rule, is_indexed, unlisted};
use lazuli_model::EntityKey;
use std::sync::Arc;

/// The property that marks a row as a copy of another (P-0.2).
pub(crate) const INDEX_MARK: &str = "_ix";

/// The key and the properties of a value. They are checked before they are sent, when what is to be encrypted
/// is: that changes their sizes.
pub(crate) fn encode<T: TableEntity>(value: &T) -> Result<(EntityKey, Properties), Error> {
    const { assert!(T::PARTS == 0, "a wide entity is written through `tables.wide()`") };
    let shape = value.shape();
    // A blob would be left behind, or never written (P-11).
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
    // An entity of any shape among the variants of a union.
    if shape.is_dynamic {
        Rule::of::<T>().check()?;
    }
    encode_whole(value)
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

/// The bytes that an entity counts by the service's formula (T-3.10), at most 1 MiB: text counts two bytes a
/// character, and encryption is not counted in (C-5.13).
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

/// What an entity became.
pub(crate) struct Decoded<T> {
    pub(crate) value: T,
    /// The copies that its indexes keep of it, if its type has any.
    pub(crate) copies: Option<Arc<[CopyRow]>>,
    /// The addresses of the blobs that it names, if its type has large values.
    pub(crate) blobs: Option<Arc<[String]>>,
}

impl<T> Decoded<T> {
    /// A value without indexes.
    pub(crate) fn plain(value: T) -> Self {
        Self { value, copies: None, blobs: None }
    }
}

/// Decrypts an entity that was read, and decodes it. `selected` are the properties that were asked for; empty
/// if all were.
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

/// The value that an entity holds; `None` if it is a copy that an index keeps, unless copies are asked for
/// (P-0.3).
pub(crate) fn decode<T: TableEntity>(entity: Entity) -> Result<Option<Decoded<T>>, Error> {
    const { assert!(T::PARTS == 0, "a wide entity is read through `tables.wide()`") };
    if !T::IS_DYNAMIC && entity.value(INDEX_MARK).is_some() {
        return Ok(None);
    }
    // What was decrypted has no metadata any more.
    if T::shape_of(&entity).has_secrets && entity.value(METADATA).is_some() {
        return Err(CryptoError::NoKey.into());
    }
    let blobs =
        if const { has_large(T::PROPERTIES) } { Some(addresses::<T>(&entity)) } else { None };
    let value = T::read(entity)?;
    if const { !is_indexed::<T>() } {
        return Ok(Some(Decoded { value, copies: None, blobs }));
    }
    // What its copies are now: a later write finds them without another read (C-7.2).
    let key = value.key()?;
    let mut properties = Properties::default();
    value.write(&mut properties)?;
    let copies = index::copies(&value, &key, &properties)?;
    Ok(Some(Decoded { value, copies: Some(copies.into()), blobs }))
}

/// The addresses of blobs in the large properties of an entity.
fn addresses<T: TableEntity>(entity: &Entity) -> Arc<[String]> {
    let names = large_properties(T::PROPERTIES).into_iter();
    names.filter_map(|(name, _)| entity.str(&name).ok().map(str::to_owned)).collect()
}
