//! Encryption settings of a table.

use super::blind::BlindKey;
use super::cek_cache::{CekCache, ReusedCek};
use super::error::CryptoError;
use super::keys::Keys;
use super::metadata::Format;
use super::protection::declares_secrets;
use crate::kind::Kind;
use crate::property::{PropertyDef, Storage};
use std::fmt;
use std::time::Duration;

/// Suffix of the property with the blind index of another.
const BLIND_SUFFIX: &str = "_bi";

/// How the entities of a table are encrypted and decrypted: the argument of `Table::encrypted`.
///
/// Reads both versions of the format, regardless of the version it writes.
pub struct Encryption {
    pub(super) writes: Writes,
    keys: Option<Keys>,
    resolver: Option<Box<Resolver>>,
    blind: Vec<String>,
    pub(super) requires_encryption: bool,
    pub(super) cache: CekCache,
    pub(super) reused: ReusedCek,
}

type Resolver = dyn Fn(&str, &str, &str) -> bool + Send + Sync;

/// The version of the format that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    V1,
    V2,
}

/// How a property is encrypted.
#[derive(Default)]
pub(super) struct Treatment {
    /// Texts are padded to a multiple of this many bytes.
    pub(super) pad: u16,
    /// The property for the blind index.
    pub(super) blind: Option<String>,
}

impl Encryption {
    /// Writes version 2: all types, authenticated.
    pub fn v2(keys: Keys) -> Self {
        Self::new(Writes::V2, Some(keys))
    }

    /// Writes version 1, which the old .NET, Java and Python clients can read: only texts, and not authenticated.
    /// An attacker who can write to the table and observe failing reads can decrypt them (E-18).
    pub fn v1_for_old_readers(keys: Keys) -> Self {
        Self::new(Writes::V1, Some(keys))
    }

    /// Reads without keys: the encrypted fields of a type are absent, and writes fail (E-22).
    pub fn without_keys() -> Self {
        Self::new(Writes::V2, None)
    }

    fn new(writes: Writes, keys: Option<Keys>) -> Self {
        Self {
            writes,
            keys,
            resolver: None,
            blind: Vec::new(),
            requires_encryption: false,
            cache: CekCache::default(),
            reused: ReusedCek::default(),
        }
    }

    /// Encrypts the properties with these names, in untyped entities.
    #[must_use]
    pub fn properties<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.resolver(move |_, _, name| names.iter().any(|known| known == name))
    }

    /// Encrypts the properties for which `resolver(partition_key, row_key, name)` is true. Fields that a type
    /// declares as encrypted are always encrypted.
    #[must_use]
    pub fn resolver(
        mut self,
        resolver: impl Fn(&str, &str, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.resolver = Some(Box::new(resolver));
        self
    }

    /// Adds a blind index of a property, in a property with the suffix `_bi`: equal values have equal indexes, so
    /// everybody can see which values are equal. Needs [`Keys::blind`].
    #[must_use]
    pub fn blind_index(mut self, property: impl Into<String>) -> Self {
        self.blind.push(property.into());
        self
    }

    /// Refuses to read or write entities that are not encrypted.
    #[must_use]
    pub fn require_encryption(mut self) -> Self {
        self.requires_encryption = true;
        self
    }

    /// Caches the last `entries` keys of entities for `time`, so that a key service is called less often. By default
    /// 1,024 for five minutes (E-34).
    #[must_use]
    pub fn cek_cache(mut self, entries: usize, time: Duration) -> Self {
        self.cache = CekCache::new(entries, time);
        self
    }

    /// Lets up to `entities` entities, at most 2^20, share a key for at most `time`, so that a key service is called
    /// less often. By default each has its own (E-34).
    #[must_use]
    pub fn reuse_cek(mut self, time: Duration, entities: u32) -> Self {
        self.reused = ReusedCek::new(time, entities);
        self
    }

    pub(super) fn keys(&self) -> Result<&Keys, CryptoError> {
        self.keys.as_ref().ok_or(CryptoError::NoKey)
    }

    /// Whether entities are written in this format.
    pub(super) fn writes_as(&self, format: &Format) -> bool {
        match self.writes {
            Writes::V1 => matches!(format, Format::V1 { .. }),
            Writes::V2 => matches!(format, Format::V2),
        }
    }

    pub(super) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    pub(super) fn blind_key(&self) -> Result<&BlindKey, CryptoError> {
        self.keys()?.blind_key()
    }

    /// Whether it is known which properties of a type are encrypted.
    pub(super) fn is_told(&self, declared: &[PropertyDef]) -> bool {
        declares_secrets(declared) || self.resolver.is_some()
    }

    /// How to encrypt a property; `None` if it stays clear.
    pub(super) fn treatment(
        &self,
        declared: &[PropertyDef],
        partition: &str,
        row: &str,
        property: &str,
    ) -> Option<Treatment> {
        if !may_be_encrypted(property) {
            return None;
        }
        let field = secret_field(declared, property);
        let is_chosen =
            || self.resolver.as_ref().is_some_and(|resolver| resolver(partition, row, property));
        if field.is_none() && !is_chosen() {
            return None;
        }
        let is_blind = field.is_some_and(|field| field.is_blind_indexed)
            || self.blind.iter().any(|name| name == property);
        let blind = is_blind.then(|| blind_name(property));
        Some(Treatment { pad: field.map_or(0, |field| field.pad), blind })
    }

    /// The properties with blind indexes.
    pub(super) fn blind_properties<'a>(
        &'a self,
        declared: &'a [PropertyDef],
    ) -> impl Iterator<Item = String> {
        let of_type = declared.iter().filter(|field| field.is_blind_indexed);
        let names = of_type.map(|field| field.name).chain(self.blind.iter().map(String::as_str));
        names.map(blind_name)
    }
}

/// Whether a property of this name may be encrypted. Internal properties, whose names begin with an underscore, and
/// the kind must be readable by everybody (E-4).
pub(super) fn may_be_encrypted(property: &str) -> bool {
    !property.starts_with('_') && property != Kind::PROPERTY
}

/// The encrypted field that a property belongs to, if any.
pub(super) fn secret_field<'a>(
    declared: &'a [PropertyDef],
    property: &str,
) -> Option<&'a PropertyDef> {
    declared.iter().find_map(|field| match field.storage {
        _ if field.is_encrypted => field.holds(property).then_some(field),
        Storage::Flattened(inner) => secret_field(inner, property.strip_prefix(field.name)?),
        _ => None,
    })
}

/// The name of the property with a property's blind index.
pub(super) fn blind_name(property: &str) -> String {
    format!("{property}{BLIND_SUFFIX}")
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption")
            .field("writes", &self.writes)
            .field("keys", &self.keys)
            .field("requires_encryption", &self.requires_encryption)
            .finish_non_exhaustive()
    }
}
