#![doc = include_str!("encryption/README.md")]

mod error;
mod protection;

#[cfg(feature = "encryption")]
mod blind;
#[cfg(feature = "encryption")]
mod cek;
#[cfg(feature = "encryption")]
mod cek_cache;
#[cfg(feature = "key-vault")]
mod key_vault;
#[cfg(feature = "encryption")]
mod keys;
#[cfg(feature = "encryption")]
mod local_keys;
#[cfg(feature = "encryption")]
mod metadata;
#[cfg(feature = "encryption")]
mod open;
#[cfg(feature = "encryption")]
mod rewrite;
#[cfg(feature = "encryption")]
mod seal;
#[cfg(feature = "encryption")]
mod secret_bytes;
#[cfg(feature = "encryption")]
mod settings;
#[cfg(feature = "encryption")]
mod v1;
#[cfg(feature = "encryption")]
mod v2;

#[cfg(all(test, feature = "encryption"))]
mod tests;

pub use error::CryptoError;
pub(crate) use protection::{METADATA, Protection, declares_secrets};

#[cfg(feature = "encryption")]
pub use self::{
    blind::BlindKey,
    keys::{KeyResolver, KeyWrap, Keys, Wrapped},
    local_keys::{AesKey, RsaKey},
    rewrite::{Reencryption, Rewrite, Rewritten, Rotation},
    secret_bytes::SecretBytes,
    settings::Encryption,
};
#[cfg(feature = "key-vault")]
pub use key_vault::{KeyVault, KeyVaultKey};

/// Without the feature `encryption`, this type has no values.
#[cfg(not(feature = "encryption"))]
#[derive(Debug)]
pub(crate) enum Encryption {}
