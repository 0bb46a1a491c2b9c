//! Errors of encrypted entities.

use lazuli_model::EdmType;

/// An error of an encrypted entity, or of its keys. It never contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptoError {
    /// The entity is encrypted, or must be, but the table has no `Encryption` (E-22).
    #[error("the table has no keys: use Table::encrypted")]
    NoKey,
    /// No key has the id in the entity (E-30).
    #[error("no key has the id {id:?}")]
    UnknownKey {
        /// The id of the key.
        id: String,
    },
    /// The key does not support the algorithm.
    #[error("the key {id:?} does not take the algorithm {algorithm:?}")]
    UnknownAlgorithm {
        /// The id of the key.
        id: String,
        /// The name of the algorithm in the entity.
        algorithm: String,
    },
    /// The service that keeps the key failed.
    #[error("the key {id:?} could not be used: {reason}")]
    KeyService {
        /// The id of the key.
        id: String,
        /// The service's message.
        reason: String,
    },
    /// A key that cannot be used: it has the wrong length, or is not a key.
    #[error("not a key: {0}")]
    InvalidKey(&'static str),
    /// There is no blind key (E-46).
    #[error("the keys have no blind key: use Keys::blind")]
    NoBlindKey,
    /// This version does not encrypt values of this type (E-12).
    #[error("property {property}: version 1 does not encrypt {}", .edm_type.name())]
    Unsupported {
        /// The property.
        property: String,
        /// Its type.
        edm_type: EdmType,
    },
    /// The encrypted value does not fit into 64 KiB (E-12, E-43).
    #[error("property {property}: more than {bytes_max} bytes cannot be encrypted")]
    TooLarge {
        /// The property.
        property: String,
        /// The longest value that can be encrypted.
        bytes_max: usize,
    },
    /// A merge names an encrypted property: the others would keep another key (E-20).
    #[error("property {property} is encrypted and cannot be merged: use update_with, or replace")]
    Merge {
        /// The property.
        property: String,
    },
    /// The table is untyped, and nothing says which properties are encrypted (C-15.2).
    #[error("which properties are encrypted is not said: use Encryption::properties or resolver")]
    NoResolver,
    /// A property whose name belongs to the format, or that is declared as encrypted under a name that is never
    /// encrypted (E-4).
    #[error(
        "property {property} cannot be written: its name is reserved where entities are encrypted"
    )]
    Reserved {
        /// The property.
        property: String,
    },
    /// The entity is not encrypted, but must be (E-6, C-15.5).
    #[error("the entity is not encrypted")]
    Clear,
    /// The entity was encrypted in a format unknown to this library (E-17).
    #[error("unknown encryption: protocol {protocol:?}, algorithm {algorithm:?}")]
    UnknownFormat {
        /// The version of the format.
        protocol: String,
        /// The encryption algorithm of the values.
        algorithm: String,
    },
    /// The encryption metadata cannot be read (E-17).
    #[error("the encryption metadata cannot be read")]
    Metadata,
    /// Decryption failed. The reason is withheld, because an attacker could learn from it (E-18).
    #[error("the entity cannot be decrypted")]
    Decrypt,
    /// Encrypted properties were removed or swapped (E-44).
    #[error("encrypted properties were removed or exchanged")]
    Tampered,
    /// The system's random number generator failed.
    #[error("the system gave no random bytes")]
    Random,
}
