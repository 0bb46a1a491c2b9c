//! What names an entity in a call, and which type it has (C-3.12).

use crate::entity::{ETag, Entity, Loaded, TableEntity};
use crate::write_ids::WriteIds;
use lazuli_model::EntityKey;
use std::fmt;
use std::marker::PhantomData;

/// Why a value has no key, or a text is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The service takes at most 512 UTF-16 code units (C-4.6).
    #[error("the key has {units} UTF-16 code units, more than 512")]
    TooLong {
        /// The length of the key.
        units: usize,
    },
    /// A character that keys may not hold.
    #[error("the key holds a character that keys may not hold")]
    ForbiddenCharacter,
    /// A number has more digits than its place in the key.
    #[error("{value} has more than {width} digits")]
    TooWide {
        /// The number.
        value: u128,
        /// The digits of its place.
        width: usize,
    },
    /// A time before 1601 or after 9999.
    #[error("a time before 1601 or after 9999 cannot be part of a key")]
    TimeOutOfRange,
    /// A key that no value of the type has.
    #[error("{text:?} is not of the form {template:?}")]
    Foreign {
        /// The key.
        text: String,
        /// The form that keys of the type have.
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

/// A key that says what type its entity has.
pub struct Key<T> {
    key: EntityKey,
    of: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// The key of an entity of type `T`.
    pub fn new(key: EntityKey) -> Self {
        Self { key, of: PhantomData }
    }

    /// The two texts alone.
    pub fn into_entity_key(self) -> EntityKey {
        self.key
    }

    /// The two texts.
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

/// What can name an entity: a typed [`Key`], two texts, or an entity that was read.
pub trait IntoKey {
    /// What the entity is read as.
    type Entity: TableEntity;

    /// The version that was read, if one was: a merge then asks for it.
    #[doc(hidden)]
    fn version(&self) -> Option<ReadVersion> {
        None
    }

    /// The checked key.
    fn into_key(self) -> Result<EntityKey, KeyError>;
}

/// The version of an entity that was read, and the ids of writes that it had.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct ReadVersion {
    pub(crate) etag: ETag,
    pub(crate) base: WriteIds,
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
        Some(ReadVersion { etag: self.etag().clone(), base: self.write_ids().clone() })
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
