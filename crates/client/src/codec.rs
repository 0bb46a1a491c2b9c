//! Values to stored entities and back: the one place that every read and write of a typed table goes through.

use crate::entity::{Entity, Properties, TableEntity};
use crate::error::Error;
use crate::index::{self, CopyRow};
use lazuli_model::EntityKey;
use std::sync::Arc;

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

/// The value that an entity holds; `None` if it is a copy that an index keeps, unless copies are asked for
/// (P-0.3).
pub(crate) fn decode<T: TableEntity>(entity: Entity) -> Result<Option<Decoded<T>>, Error> {
    if !T::IS_DYNAMIC && entity.value(INDEX_MARK).is_some() {
        return Ok(None);
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
