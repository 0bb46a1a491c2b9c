//! Values to stored entities and back: the one place that every read and write of a typed table goes through.

use crate::account::Account;
use crate::encryption::{CryptoError, METADATA, declares_secrets};
use crate::entity::{Entity, Loaded, Properties, TableEntity};
use crate::error::Error;
use crate::property::PropertyDef;
use lazuli_model::EntityKey;

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

/// Decrypts an entity that was read, and decodes it. `selected` are the properties that were asked for; empty
/// if all were.
pub(crate) async fn open<T>(
    account: &Account,
    raw: Loaded<Entity>,
    declared: &[PropertyDef],
    selected: &[String],
    decode: &(dyn Fn(Entity) -> Result<Option<T>, Error> + Send + Sync),
) -> Result<Option<Loaded<T>>, Error> {
    let opened = account.1.open(raw, &account.0.env, declared, selected).await?;
    opened.filter_map(decode)
}

/// The value that an entity holds; `None` if it is a copy that an index keeps, unless copies are asked for
/// (P-0.3).
pub(crate) fn decode<T: TableEntity>(entity: Entity) -> Result<Option<T>, Error> {
    if !T::IS_DYNAMIC && entity.value(INDEX_MARK).is_some() {
        return Ok(None);
    }
    // What was decrypted has no metadata any more.
    if const { declares_secrets(T::PROPERTIES) } && entity.value(METADATA).is_some() {
        return Err(CryptoError::NoKey.into());
    }
    Ok(Some(T::read(entity)?))
}
