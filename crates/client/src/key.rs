//! Keys that name an entity in a call and determine its type (C-3.12).

use crate::entity::{ETag, Entity, Loaded, Reading, TableEntity};
use crate::write_ids::WriteIds;
use lazuli_model::EntityKey;
use std::fmt;
use std::marker::PhantomData;

/// Why a value has no valid key, or a text is not a valid key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The service accepts at most 512 UTF-16 code units (C-4.6).
    #[error("the key has {units} UTF-16 code units, more than 512")]
    TooLong {
        /// The length of the key.
        units: usize,
    },
    /// A character that keys must not contain.
    #[error("the key holds a character that keys may not hold")]
    ForbiddenCharacter,
    /// A number with more digits than its field in the key has.
    #[error("{value} has more than {width} digits")]
    TooWide {
        /// The number.
        value: u128,
        /// The digits of the field.
        width: usize,
    },
    /// A time before 1601 or after 9999.
    #[error("a time before 1601 or after 9999 cannot be part of a key")]
    TimeOutOfRange,
    /// A key that does not match the type's template.
    #[error("{text:?} is not of the form {template:?}")]
    Foreign {
        /// The key.
        text: String,
        /// The template of the type's keys.
        template: &'static str,
    },
}

impl From<lazuli_model::KeyError> for KeyError {
    fn from(error: lazuli_model::KeyError) -> Self {
        match error {
            lazuli_model::KeyError::TooLarge { units } => Self::TooLong { units },
            lazuli_model::KeyError::ForbiddenCharacter => Self::ForbiddenCharacter,
        }
    }
}

/// A key with the type of its entity.
///
/// ```
/// use lazuli_client::prelude::*;
/// use lazuli_client::IntoKey;
///
/// #[derive(TableEntity)]
/// #[table(partition = "{team}", row = "{number:03}")]
/// struct Player { team: String, number: u32 }
///
/// let key = Player::key("Reds", 7).unwrap().into_entity_key();
/// assert_eq!((key.partition.as_str(), key.row.as_str()), ("Reds", "007"));
/// // Two strings are a key, too: that of an `Entity`.
/// assert_eq!(("Reds", "007").into_key().unwrap(), key);
/// assert!(("Reds", "0/7").into_key().is_err());
/// ```
pub struct Key<T> {
    key: EntityKey,
    of: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// The key of an entity of type `T`.
    pub fn new(key: EntityKey) -> Self {
        Self { key, of: PhantomData }
    }

    /// The partition key and the row key, without the type.
    pub fn into_entity_key(self) -> EntityKey {
        self.key
    }

    /// The partition key and the row key.
    pub fn as_entity_key(&self) -> &EntityKey {
        &self.key
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        Self::new(self.key.clone())
    }
}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Key<T> {}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// What can name an entity: a typed [`Key`], two strings, or an entity that was read.
pub trait IntoKey {
    /// The type of the entity.
    type Entity: TableEntity;

    /// The version that was read, if any: a merge is then conditional on it.
    #[doc(hidden)]
    fn version(&self) -> Option<ReadVersion> {
        None
    }

    /// The checked key.
    fn into_key(self) -> Result<EntityKey, KeyError>;
}

/// The version of an entity that was read, and its write ids at that time.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct ReadVersion {
    pub(crate) etag: ETag,
    pub(crate) base: WriteIds,
    pub(crate) reading: Reading,
}

impl ReadVersion {
    fn of<T>(loaded: &Loaded<T>) -> Self {
        let (etag, base) = (loaded.etag().clone(), loaded.write_ids().clone());
        Self { etag, base, reading: loaded.reading() }
    }
}

impl<T: TableEntity> IntoKey for Key<T> {
    type Entity = T;

    fn into_key(self) -> Result<EntityKey, KeyError> {
        Ok(self.key)
    }
}

impl<T: TableEntity> IntoKey for &Loaded<T> {
    type Entity = T;

    fn version(&self) -> Option<ReadVersion> {
        Some(ReadVersion::of(self))
    }

    fn into_key(self) -> Result<EntityKey, KeyError> {
        Ok(self.loaded_key().clone())
    }
}

impl IntoKey for EntityKey {
    type Entity = Entity;

    fn into_key(self) -> Result<EntityKey, KeyError> {
        Ok(self)
    }
}

impl<P: AsRef<str>, R: AsRef<str>> IntoKey for (P, R) {
    type Entity = Entity;

    fn into_key(self) -> Result<EntityKey, KeyError> {
        Ok(EntityKey::parse(self.0.as_ref(), self.1.as_ref())?)
    }
}
