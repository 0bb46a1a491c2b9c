//! Every entity passes through here when written or read. Without encryption this costs one comparison.

use super::{CryptoError, Encryption};
use crate::entity::{Entity, Loaded, Properties};
use crate::env::Env;
use crate::error::{Error, ErrorKind};
use crate::property::{PropertyDef, Storage};
use crate::write::WriteVerb;
use lazuli_model::EntityKey;
use std::sync::Arc;

/// The property with the wrapped key, in clear.
pub(crate) const METADATA: &str = "_ClientEncryptionMetadata1";
/// The property with the list of encrypted properties, encrypted.
pub(crate) const LIST: &str = "_ClientEncryptionMetadata2";

/// How a table encrypts its entities, if it does. It is part of the account, because every request of the table goes
/// through the account: no write can bypass it.
///
/// Patterns write the rows of a type as plain entities: then it also has the type's declarations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Protection(Option<Arc<Encryption>>, &'static [PropertyDef]);

impl Protection {
    #[cfg(feature = "encryption")]
    pub(crate) fn new(encryption: Arc<Encryption>) -> Self {
        Self(Some(encryption), &[])
    }

    #[cfg(feature = "encryption")]
    pub(crate) fn encryption(&self) -> Result<&Arc<Encryption>, CryptoError> {
        self.0.as_ref().ok_or(CryptoError::NoKey)
    }

    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The same for plain entities that are rows of a type. Fails if the type has secrets but there is no key to
    /// encrypt them (E-22).
    #[cfg(feature = "patterns")]
    pub(crate) fn declaring(&self, declared: &'static [PropertyDef]) -> Result<Self, Error> {
        if declares_secrets(declared) && !self.is_some() {
            return Err(CryptoError::NoKey.into());
        }
        Ok(Self(self.0.clone(), declared))
    }

    /// Properties that a projection must read too (C-7.23).
    pub(crate) fn metadata_names<'a>(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let names: &[&str] = if self.is_some() { &[METADATA, LIST] } else { &[] };
        names.iter().copied()
    }

    /// Encrypts what must be encrypted. Afterwards the properties are ready to be sent.
    pub(crate) async fn seal(
        &self,
        properties: &mut Properties,
        table: &str,
        key: &EntityKey,
        verb: WriteVerb,
        env: &Env,
    ) -> Result<(), Error> {
        // A failed transaction may be sent again in parts.
        if let Some(encryption) = self.0.as_ref().filter(|_| !properties.is_sealed()) {
            properties.declare(self.1);
            encryption.seal(properties, table, key, verb, env).await?;
            properties.mark_sealed();
        }
        Ok(())
    }

    /// Decrypts what was read. `selected` are the selected properties; empty if all are.
    pub(crate) async fn open(
        &self,
        mut raw: Loaded<Entity>,
        env: &Env,
        declared: &[PropertyDef],
        selected: &[String],
    ) -> Result<Loaded<Entity>, Error> {
        let Some(encryption) = &self.0 else { return Ok(raw) };
        let declared = if declared.is_empty() { self.1 } else { declared };
        let opened = encryption.open(std::mem::take(&mut *raw), env, declared, selected).await;
        *raw = opened.map_err(|fault| {
            Error::from(fault).with(|context| context.key = Some(raw.loaded_key().clone()))
        })?;
        Ok(raw)
    }
}

impl From<CryptoError> for Error {
    fn from(error: CryptoError) -> Self {
        Self::new(ErrorKind::Crypto(error))
    }
}

/// Whether a type has encrypted properties.
pub(crate) const fn declares_secrets(mut declared: &[PropertyDef]) -> bool {
    while let [first, rest @ ..] = declared {
        let is_inside = match first.storage {
            Storage::Flattened(inner) => declares_secrets(inner),
            _ => false,
        };
        if first.is_encrypted || is_inside {
            return true;
        }
        declared = rest;
    }
    false
}

#[cfg(not(feature = "encryption"))]
#[expect(clippy::unused_async, reason = "the same calls as with the feature")]
impl Encryption {
    async fn open(
        &self,
        _entity: Entity,
        _env: &Env,
        _declared: &[PropertyDef],
        _selected: &[String],
    ) -> Result<Entity, CryptoError> {
        match *self {}
    }

    async fn seal(
        &self,
        _properties: &mut Properties,
        _table: &str,
        _key: &EntityKey,
        _verb: WriteVerb,
        _env: &Env,
    ) -> Result<(), CryptoError> {
        match *self {}
    }
}
