//! Encrypts an entity before it is written.

use super::cek::{Cek, random};
use super::error::CryptoError;
use super::keys::Wrapped;
use super::metadata::{Format, Metadata, WrappedBy};
use super::protection::{LIST, METADATA, declares_secrets};
use super::settings::{Encryption, Treatment, Writes, may_be_encrypted, secret_field};
use super::v1::{self, KeyOrder};
use super::v2;
use crate::entity::{Entity, Properties, TableEntity};
use crate::env::Env;
use crate::property::PropertyDef;
use crate::value::{IntoValue, Value};
use crate::write::WriteVerb;
use lazuli_model::EntityKey;
use std::sync::atomic::{AtomicBool, Ordering};

impl Encryption {
    /// Encrypts what must be encrypted, and adds the metadata for readers.
    pub(super) async fn seal(
        &self,
        properties: &mut Properties,
        table: &str,
        key: &EntityKey,
        verb: WriteVerb,
        env: &Env,
    ) -> Result<(), CryptoError> {
        let declared = properties.declared();
        if !self.has_keys() {
            return Err(CryptoError::NoKey);
        }
        if matches!(verb, WriteVerb::Merge | WriteVerb::UpsertMerge) {
            return self.check_merge(properties, key, declared, verb);
        }
        if !properties.is_told() && !self.is_told(declared) {
            return Err(CryptoError::NoResolver);
        }
        let is_ours = |name: &&str| self.reserves(declared, name);
        if let Some(name) = names(properties).find(is_ours) {
            return Err(CryptoError::Reserved { property: name.to_owned() });
        }
        let secrets: Vec<Option<Treatment>> =
            names(properties).map(|name| self.treatment_at(declared, key, name)).collect();
        if secrets.iter().all(Option::is_none) && !declares_secrets(declared) {
            return if self.requires_encryption { Err(CryptoError::Clear) } else { Ok(()) };
        }
        self.seal_these(properties, &secrets, table, key, env).await
    }

    /// Decrypts a stored entity and encrypts it again: the same properties, and those that must be by now.
    pub(super) async fn reseal(
        &self,
        stored: Entity,
        declared: &[PropertyDef],
        table: &str,
        key: &EntityKey,
        env: &Env,
    ) -> Result<Properties, CryptoError> {
        let (entity, listed) = self.open_listed(stored, env, declared, &[]).await?;
        let mut properties = Properties::default();
        entity.write(&mut properties).map_err(|_| CryptoError::Decrypt)?;
        let was_secret = |name: &str| listed.iter().any(|known| known == name);
        let treatment = |name: &str| {
            let told = self.treatment_at(declared, key, name);
            told.or_else(|| was_secret(name).then(Treatment::default))
        };
        let secrets: Vec<_> = names(&properties).map(treatment).collect();
        self.seal_these(&mut properties, &secrets, table, key, env).await?;
        Ok(properties)
    }

    async fn seal_these(
        &self,
        properties: &mut Properties,
        secrets: &[Option<Treatment>],
        table: &str,
        key: &EntityKey,
        env: &Env,
    ) -> Result<(), CryptoError> {
        let mut indexes = Vec::new();
        for ((name, value), secret) in properties.values().zip(secrets) {
            if let Some(target) = secret.as_ref().and_then(|treatment| treatment.blind.clone()) {
                indexes.push((target, self.blind_key()?.index(table, name, value).to_vec()));
            }
        }
        let (cek, wrapped) = self.fresh_cek(env).await?;
        let by = WrappedBy {
            key_id: self.keys()?.current().id(),
            algorithm: &wrapped.algorithm,
            encrypted_key: &wrapped.bytes,
        };
        let (metadata, list) = match self.writes {
            Writes::V1 => seal_v1(properties, secrets, &cek, by, key)?,
            Writes::V2 => seal_v2(properties, secrets, &cek, by, key)?,
        };
        properties.push(METADATA, metadata.to_text().into_value());
        properties.push(LIST, list.into_value());
        for (name, index) in indexes {
            properties.push(name, index.into_value());
        }
        Ok(())
    }

    fn treatment_at(
        &self,
        declared: &[PropertyDef],
        key: &EntityKey,
        name: &str,
    ) -> Option<Treatment> {
        self.treatment(declared, key.partition.as_str(), key.row.as_str(), name)
    }

    /// Whether nobody writes a property of this name: encryption adds it, or it is declared as encrypted
    /// under a name that must stay clear (E-4).
    fn reserves(&self, declared: &[PropertyDef], name: &str) -> bool {
        [METADATA, LIST].contains(&name)
            || self.blind_properties(declared).any(|blind| blind == name)
            || (!may_be_encrypted(name) && secret_field(declared, name).is_some())
    }

    /// A merge of clear properties leaves ciphertext and metadata as they are (E-20).
    fn check_merge(
        &self,
        properties: &Properties,
        key: &EntityKey,
        declared: &[PropertyDef],
        verb: WriteVerb,
    ) -> Result<(), CryptoError> {
        let is_ours = |name: &str| {
            self.reserves(declared, name) || self.treatment_at(declared, key, name).is_some()
        };
        match names(properties).find(|name| is_ours(name)) {
            _ if !properties.is_told()
                && !self.is_told(declared)
                && names(properties).any(may_be_encrypted) =>
            {
                Err(CryptoError::NoResolver)
            }
            Some(name) => Err(CryptoError::Merge { property: name.to_owned() }),
            // It may insert an entity, which would then be unencrypted.
            None if verb == WriteVerb::UpsertMerge && self.requires_encryption => {
                Err(CryptoError::Clear)
            }
            None => Ok(()),
        }
    }

    /// A new key for an entity, and the same wrapped by the program's current key.
    async fn fresh_cek(&self, env: &Env) -> Result<(Cek, Wrapped), CryptoError> {
        if let Some(shared) = self.reused.take(env.elapsed()) {
            return Ok(shared);
        }
        let cek = Cek::random()?;
        let packed = match self.writes {
            Writes::V1 => cek.packed_v1(),
            Writes::V2 => cek.packed_v2(),
        };
        let wrapped = self.keys()?.current().wrap(packed.expose()).await?;
        self.reused.share(&cek, &wrapped, env.elapsed());
        Ok((cek, wrapped))
    }
}

/// The metadata of an entity, and the list of its encrypted properties.
type Sealed = (Metadata, Vec<u8>);

fn seal_v1(
    properties: &mut Properties,
    secrets: &[Option<Treatment>],
    cek: &Cek,
    by: WrappedBy<'_>,
    key: &EntityKey,
) -> Result<Sealed, CryptoError> {
    warn_of_v1();
    let iv: [u8; v1::IV_BYTES] = random()?;
    let envelope = v1::Envelope { cek, iv: &iv, key, order: KeyOrder::RowFirst };
    let mut names = Vec::new();
    for ((name, value), _) in treated(properties, secrets) {
        let Value::String(text) = &*value else {
            let (property, edm_type) = (name.to_owned(), value.as_ref().edm_type());
            return Err(CryptoError::Unsupported { property, edm_type });
        };
        fits(name, text.len(), v1::PLAINTEXT_BYTES_MAX)?;
        *value = envelope.seal(name, text.as_bytes())?.into_value();
        names.push(name.to_owned());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let list = envelope.seal(LIST, v1::write_list(&names).as_bytes())?;
    let format = Format::V1 { iv: iv.to_vec(), order: KeyOrder::RowFirst };
    Ok((Metadata::new(by, format), list))
}

fn seal_v2(
    properties: &mut Properties,
    secrets: &[Option<Treatment>],
    cek: &Cek,
    by: WrappedBy<'_>,
    key: &EntityKey,
) -> Result<Sealed, CryptoError> {
    let envelope = v2::Envelope::new(cek, key)?;
    let mut entries = Vec::new();
    for ((name, value), treatment) in treated(properties, secrets) {
        let (type_name, bytes) = v2::encode(value, treatment.pad);
        fits(name, bytes.expose().len(), v2::PLAINTEXT_BYTES_MAX)?;
        *value = envelope.seal(name, type_name, random()?, bytes.expose())?.into_value();
        entries.push((name.to_owned(), type_name));
    }
    let entries: Vec<(&str, &str)> = entries.iter().map(|(name, kind)| (&**name, *kind)).collect();
    let list = v2::write_list(&entries);
    fits(LIST, list.len(), v2::PLAINTEXT_BYTES_MAX)?;
    let list =
        envelope.seal(LIST, lazuli_model::EdmType::String.name(), random()?, list.as_bytes())?;
    Ok((Metadata::new(by, Format::V2), list))
}

fn names(properties: &Properties) -> impl Iterator<Item = &str> {
    properties.values().map(|(name, _)| name)
}

/// The properties that must be encrypted.
fn treated<'a>(
    properties: &'a mut Properties,
    secrets: &'a [Option<Treatment>],
) -> impl Iterator<Item = ((&'a str, &'a mut Value), &'a Treatment)> {
    let pairs = properties.values_mut().zip(secrets);
    pairs.filter_map(|(property, secret)| Some((property, secret.as_ref()?)))
}

fn fits(property: &str, bytes: usize, bytes_max: usize) -> Result<(), CryptoError> {
    match bytes > bytes_max {
        true => Err(CryptoError::TooLarge { property: property.to_owned(), bytes_max }),
        false => Ok(()),
    }
}

/// Warns once that version 1 is weak (E-18).
fn warn_of_v1() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "entities are written with encryption of version 1, which is not authenticated"
        );
    }
}
