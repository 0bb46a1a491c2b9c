//! What names an entity in a call, and which type it has (C-3.12).

use crate::entity::{Entity, TableEntity};
use lazuli_model::{EntityKey, KeyError};
use std::fmt;
use std::marker::PhantomData;

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

/// What can name an entity: a typed [`Key`], or two texts.
pub trait IntoKey {
    /// What the entity is read as.
    type Entity: TableEntity;

    /// The checked key.
    fn into_key(self) -> Result<EntityKey, KeyError>;
}

impl<T: TableEntity> IntoKey for Key<T> {
    type Entity = T;

    fn into_key(self) -> Result<EntityKey, KeyError> {
        Ok(self.key)
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
        EntityKey::parse(self.0.as_ref(), self.1.as_ref())
    }
}
