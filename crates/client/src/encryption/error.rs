//! What can go wrong with encrypted entities.

use lazuli_model::EdmType;

/// What is wrong with an encrypted entity, or with its keys. It never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptoError {
    /// The entity is encrypted, or is to be, and the table has no `Encryption` (E-22).
    #[error("the table has no keys: use Table::encrypted")]
    NoKey,
    /// No key has the id that the entity names (E-30).
    #[error("no key has the id {id:?}")]
    UnknownKey {
        /// The id of the key.
        id: String,
    },
    /// The key cannot do what was asked.
    #[error("the key {id:?} does not take the algorithm {algorithm:?}")]
    UnknownAlgorithm {
        /// The id of the key.
        id: String,
        /// The name of the algorithm, as the entity has it.
        algorithm: String,
    },
    /// The service that keeps the key failed.
    #[error("the key {id:?} could not be used: {reason}")]
    KeyService {
        /// The id of the key.
        id: String,
        /// What the service said.
        reason: String,
    },
    /// A key that cannot be used: of a wrong length, or not a key at all.
    #[error("not a key: {0}")]
    InvalidKey(&'static str),
    /// No blind key was named (E-46).
    #[error("the keys have no blind key: use Keys::blind")]
    NoBlindKey,
    /// The value has a type that this version does not encrypt (E-12).
    #[error("property {property}: version 1 does not encrypt {}", .edm_type.name())]
    Unsupported {
        /// The property.
        property: String,
        /// Its type.
        edm_type: EdmType,
    },
    /// The value does not fit 64 KiB once it is encrypted (E-12, E-43).
    #[error("property {property}: more than {bytes_max} bytes cannot be encrypted")]
    TooLarge {
        /// The property.
        property: String,
        /// Bytes that can be encrypted.
        bytes_max: usize,
    },
    /// A merge names an encrypted property: the others would keep another key (E-20).
    #[error("property {property} is encrypted and cannot be merged: use update_with, or replace")]
    Merge {
        /// The property.
        property: String,
    },
    /// A table of entities of any shape does not say which properties are encrypted (C-15.2).
    #[error("which properties are encrypted is not said: use Encryption::properties or resolver")]
    NoResolver,
    /// A property whose name belongs to the format.
    #[error("property {property} cannot be written: its name belongs to the encryption")]
    Reserved {
        /// The property.
        property: String,
    },
    /// The entity is not encrypted, and must be (E-6, C-15.5).
    #[error("the entity is not encrypted")]
    Clear,
    /// The entity was encrypted in a way that this library does not know (E-17).
    #[error("unknown encryption: protocol {protocol:?}, algorithm {algorithm:?}")]
    UnknownFormat {
        /// The version of the format.
        protocol: String,
        /// What the values are encrypted with.
        algorithm: String,
    },
    /// What says how the entity is encrypted cannot be read (E-17).
    #[error("the encryption metadata cannot be read")]
    Metadata,
    /// It does not open. Why is not said, as a party that tries could learn from it (E-18).
    #[error("the entity cannot be decrypted")]
    Decrypt,
    /// Encrypted properties were removed or exchanged (E-44).
    #[error("encrypted properties were removed or exchanged")]
    Tampered,
    /// The system gave no random bytes.
    #[error("the system gave no random bytes")]
    Random,
}
