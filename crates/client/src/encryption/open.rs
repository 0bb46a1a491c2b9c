//! Decrypts an entity that was read.

use super::cek::Cek;
use super::error::CryptoError;
use super::metadata::{Format, Metadata};
use super::protection::{LIST, METADATA};
use super::secret_bytes::SecretBytes;
use super::settings::Encryption;
use super::v1::{self, KeyOrder};
use super::v2;
use crate::entity::{Entity, TableEntity};
use crate::env::Env;
use crate::property::PropertyDef;
use crate::value::Value;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazuli_model::{EdmType, EntityKey};
use std::borrow::Cow;
use std::collections::BTreeMap;

impl Encryption {
    /// Decrypts an entity, if it is encrypted, and removes the properties that the format added (E-7).
    pub(super) async fn open(
        &self,
        entity: Entity,
        env: &Env,
        declared: &[PropertyDef],
        selected: &[String],
    ) -> Result<Entity, CryptoError> {
        self.open_listed(entity, env, declared, selected).await.map(|(entity, _)| entity)
    }

    /// The decrypted entity, and the names of its encrypted properties.
    pub(super) async fn open_listed(
        &self,
        mut entity: Entity,
        env: &Env,
        declared: &[PropertyDef],
        selected: &[String],
    ) -> Result<(Entity, Vec<String>), CryptoError> {
        let (metadata, list) = match (entity.remove(METADATA), entity.remove(LIST)) {
            (None, None) if self.requires_encryption => return Err(CryptoError::Clear),
            (None, None) => return Ok((entity, Vec::new())),
            (Some(Value::String(metadata)), Some(list)) => (Metadata::parse(&metadata)?, list),
            // With only one of the two, the entity is neither clear nor decryptable (E-17).
            _ => return Err(CryptoError::Metadata),
        };
        let mut listed = Vec::new();
        if !self.has_keys() {
            self.remove_ciphertext(&mut entity, declared);
        } else {
            let cek = self.cek_of(&metadata, env).await?;
            let key = entity.key().map_err(|_| CryptoError::Metadata)?;
            match metadata.format() {
                Format::V1 { iv, order } => {
                    let envelope = v1::Envelope { cek: &cek, iv, key: &key, order: *order };
                    listed = open_v1(&mut entity, &envelope, *order, &list)?;
                }
                Format::V2 => {
                    let envelope = v2::Envelope::new(&cek, &key)?;
                    listed = open_v2(&mut entity, &envelope, &list, selected)?;
                    self.check_unlisted(&entity, &key, declared, &listed)?;
                }
            }
        }
        for name in self.blind_properties(declared) {
            entity.remove(&name);
        }
        Ok((entity, listed))
    }

    /// The key of an entity, from the cache or unwrapped.
    async fn cek_of(&self, metadata: &Metadata, env: &Env) -> Result<Cek, CryptoError> {
        let wrapped = metadata.wrapped();
        let now = env.elapsed();
        if let Some(packed) = self.cache.get(wrapped, now) {
            return unpack(metadata.format(), &packed);
        }
        let key = self.keys()?.find(wrapped.key_id).await?;
        let packed = key.unwrap(wrapped.algorithm, wrapped.encrypted_key).await?;
        let cek = unpack(metadata.format(), &packed)?;
        self.cache.put(wrapped, packed, now);
        Ok(cek)
    }

    /// A property that should be encrypted and is not in the list was put there by somebody else, if it holds
    /// bytes. What does not may have been written before it was to be encrypted, unless nothing may be clear
    /// (E-44).
    fn check_unlisted(
        &self,
        entity: &Entity,
        key: &EntityKey,
        declared: &[PropertyDef],
        listed: &[String],
    ) -> Result<(), CryptoError> {
        let (partition, row) = (key.partition.as_str(), key.row.as_str());
        let is_strange = |(name, value): (&str, &Value)| {
            (self.requires_encryption || matches!(value, Value::Binary(_)))
                && !listed.iter().any(|known| known == name)
                && !self.blind_properties(declared).any(|blind| blind == name)
                && self.treatment(declared, partition, row, name).is_some()
        };
        if entity.properties().any(is_strange) { Err(CryptoError::Tampered) } else { Ok(()) }
    }

    /// Without keys, what is encrypted is absent.
    fn remove_ciphertext(&self, entity: &mut Entity, declared: &[PropertyDef]) {
        let (partition, row) = (entity.partition_key(), entity.row_key());
        let is_secret = |(name, value): &(&str, &Value)| {
            matches!(value, Value::Binary(_))
                && self.treatment(declared, partition, row, name).is_some()
        };
        let names: Vec<String> =
            entity.properties().filter(is_secret).map(|(name, _)| name.to_owned()).collect();
        for name in names {
            entity.remove(&name);
        }
    }
}

fn unpack(format: &Format, packed: &SecretBytes) -> Result<Cek, CryptoError> {
    match format {
        Format::V1 { .. } => Cek::unpack_v1(packed),
        Format::V2 => Cek::unpack_v2(packed),
    }
}

/// Returns the names of the encrypted properties. All failures give the same error (E-18).
fn open_v1(
    entity: &mut Entity,
    envelope: &v1::Envelope<'_>,
    order: KeyOrder,
    list: &Value,
) -> Result<Vec<String>, CryptoError> {
    let names = v1::read_list(&text_v1(envelope, LIST, list)?, order)?;
    for name in &names {
        // It may be absent because of a projection.
        let Some(value) = entity.value(name) else { continue };
        let text = text_v1(envelope, name, value)?;
        entity.set(name.clone(), text);
    }
    Ok(names)
}

fn text_v1(envelope: &v1::Envelope<'_>, name: &str, value: &Value) -> Result<String, CryptoError> {
    let opened = envelope.open(name, &ciphertext(value)?)?;
    let text = std::str::from_utf8(opened.expose()).map_err(|_| CryptoError::Decrypt)?;
    Ok(text.to_owned())
}

fn list_v2(
    envelope: &v2::Envelope<'_>,
    list: &Value,
) -> Result<BTreeMap<String, String>, CryptoError> {
    let list = envelope.open(LIST, EdmType::String.name(), &ciphertext(list)?)?;
    v2::read_list(list.expose())
}

/// Fails unless an unwrapped key is that of the entity whose list this is. Some keys unwrap to random bytes
/// instead of failing (E-31).
pub(super) fn check_key(
    metadata: &Metadata,
    packed: &SecretBytes,
    key: &EntityKey,
    list: &Value,
) -> Result<(), CryptoError> {
    let cek = unpack(metadata.format(), packed)?;
    match metadata.format() {
        Format::V1 { iv, order } => {
            let envelope = v1::Envelope { cek: &cek, iv, key, order: *order };
            v1::read_list(&text_v1(&envelope, LIST, list)?, *order).map(drop)
        }
        Format::V2 => list_v2(&v2::Envelope::new(&cek, key)?, list).map(drop),
    }
}

/// Returns the names of the properties that are encrypted.
fn open_v2(
    entity: &mut Entity,
    envelope: &v2::Envelope<'_>,
    list: &Value,
    selected: &[String],
) -> Result<Vec<String>, CryptoError> {
    let list = list_v2(envelope, list)?;
    for (name, type_name) in &list {
        let Some(value) = entity.value(name) else {
            let is_projected_away = !selected.is_empty() && !selected.contains(name);
            if is_projected_away {
                continue;
            }
            return Err(CryptoError::Tampered);
        };
        let opened = envelope.open(name, type_name, &ciphertext(value)?)?;
        entity.set(name.clone(), v2::decode(type_name, &opened)?);
    }
    Ok(list.into_keys().collect())
}

/// The bytes of an encrypted property. In answers without types they are base64 text (E-15).
fn ciphertext(value: &Value) -> Result<Cow<'_, [u8]>, CryptoError> {
    match value {
        Value::Binary(bytes) => Ok(Cow::Borrowed(bytes)),
        Value::String(text) => {
            let bytes = STANDARD.decode(text.as_bytes());
            bytes.map(Cow::Owned).map_err(|_| CryptoError::Decrypt)
        }
        _ => Err(CryptoError::Decrypt),
    }
}
