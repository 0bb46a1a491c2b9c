//! Values to stored entities and back: the one place that every read and write of a typed table goes through.

use crate::account::Account;
use crate::encryption::{CryptoError, METADATA, declares_secrets};
use crate::entity::{Entity, Loaded, Properties, TableEntity};
use crate::error::Error;
use crate::index::{self, CopyRow};
use crate::property::PropertyDef;
use lazuli_model::EntityKey;
use std::sync::Arc;

/// The property that marks a row as a copy of another (P-0.2).
pub(crate) const INDEX_MARK: &str = "_ix";

/// The key and the properties of a value. They are checked before they are sent, when what is to be encrypted
/// is: that changes their sizes.
pub(crate) fn encode<T: TableEntity>(value: &T) -> Result<(EntityKey, Properties), Error> {
    let key = value.key()?;
    let mut properties = Properties::of(T::PROPERTIES);
    match value.write(&mut properties) {
        Ok(()) => Ok((key, properties)),
        Err(error) => Err(Error::from(error).with(|context| context.key = Some(key))),
    }
}

/// What an entity became.
pub(crate) struct Decoded<T> {
    pub(crate) value: T,
    /// The copies that its indexes keep of it, if its type has any.
    pub(crate) copies: Option<Arc<[CopyRow]>>,
}

impl<T> Decoded<T> {
    /// A value without indexes.
    pub(crate) fn plain(value: T) -> Self {
        Self { value, copies: None }
    }
}

/// Decrypts an entity that was read, and decodes it. `selected` are the properties that were asked for; empty
/// if all were.
pub(crate) async fn open<T>(
    account: &Account,
    raw: Loaded<Entity>,
    declared: &[PropertyDef],
    selected: &[String],
    decode: &(dyn Fn(Entity) -> Result<Option<Decoded<T>>, Error> + Send + Sync),
) -> Result<Option<Loaded<T>>, Error> {
    let opened = account.1.open(raw, &account.0.env, declared, selected).await?;
    opened.filter_map(decode)
}

/// The value that an entity holds; `None` if it is a copy that an index keeps, unless copies are asked for
/// (P-0.3).
pub(crate) fn decode<T: TableEntity>(entity: Entity) -> Result<Option<Decoded<T>>, Error> {
    if !T::IS_DYNAMIC && entity.value(INDEX_MARK).is_some() {
        return Ok(None);
    }
    // What was decrypted has no metadata any more.
    if const { declares_secrets(T::PROPERTIES) } && entity.value(METADATA).is_some() {
        return Err(CryptoError::NoKey.into());
    }
    let value = T::read(entity)?;
    if T::INDEXES.is_empty() {
        return Ok(Some(Decoded::plain(value)));
    }
    // What its copies are now: a later write finds them without another read (C-7.2).
    let key = value.key()?;
    let mut properties = Properties::default();
    value.write(&mut properties)?;
    let copies = index::copies(&value, &key, &properties)?;
    Ok(Some(Decoded { value, copies: Some(copies.into()) }))
}
