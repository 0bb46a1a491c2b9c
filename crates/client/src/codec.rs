//! Values to stored entities and back: the one place that every read and write of a typed table goes through.

use crate::entity::{Entity, Properties, TableEntity};
use crate::error::Error;
use lazuli_model::EntityKey;

/// The property that marks a row as a copy of another (P-0.2).
pub(crate) const INDEX_MARK: &str = "_ix";

/// The key and the properties of a value, checked.
pub(crate) fn encode<T: TableEntity>(value: &T) -> Result<(EntityKey, Properties), Error> {
    let key = value.key()?;
    let mut properties = Properties::default();
    let written = value.write(&mut properties).map_err(Error::from);
    let checked = written.and_then(|()| properties.check(&key));
    match checked {
        Ok(()) => Ok((key, properties)),
        Err(error) => Err(error.with(|context| context.key = Some(key))),
    }
}

/// The value that an entity holds; `None` if it is a copy that an index keeps, unless copies are asked for
/// (P-0.3).
pub(crate) fn decode<T: TableEntity>(entity: Entity) -> Result<Option<T>, Error> {
    if !T::IS_DYNAMIC && entity.value(INDEX_MARK).is_some() {
        return Ok(None);
    }
    Ok(Some(T::read(entity)?))
}
