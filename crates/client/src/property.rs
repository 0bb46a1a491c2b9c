//! What a type declares about its properties.

use lazuli_model::EdmType;

/// A property of a type. Declarations are checked while the program is compiled (C-5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PropertyDef {
    /// The field of the type.
    pub field: &'static str,
    /// The name in the table. Properties of a flattened field begin with it.
    pub name: &'static str,
    /// What it is stored as; `None` if that depends on the value, and for a flattened field.
    pub edm_type: Option<EdmType>,
    /// How it is stored.
    pub storage: Storage,
    /// Whether it is encrypted before it is sent (C-15.2).
    pub is_encrypted: bool,
    /// Whether an encrypted property can be found by equality all the same (E-46).
    pub is_blind_indexed: bool,
}

/// How a field is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Storage {
    /// One property.
    Single,
    /// A property, and further ones for what does not fit (C-5.14).
    Chunked,
    /// A property with the address of a blob, or the value itself if it is small (P-11).
    Large {
        /// The container of the blob.
        container: &'static str,
        /// Whether small values go to the blob too.
        always: bool,
    },
    /// The properties of another type.
    Flattened(&'static [PropertyDef]),
    /// In the key alone: no property.
    Key,
}

impl PropertyDef {
    /// A property that holds one field.
    pub const fn new(field: &'static str, name: &'static str, edm_type: Option<EdmType>) -> Self {
        Self {
            field,
            name,
            edm_type,
            storage: Storage::Single,
            is_encrypted: false,
            is_blind_indexed: false,
        }
    }

    /// Stored otherwise.
    #[must_use]
    pub const fn stored(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// Encrypted before it is sent.
    #[must_use]
    pub const fn encrypted(self, is_blind_indexed: bool) -> Self {
        Self { is_encrypted: true, is_blind_indexed, ..self }
    }
}
