//! Converts entities from and to types that only implement serde (C-5.30).
//!
//! Meant for migrating existing types. Prefer the derive: serde cannot distinguish a Guid from text.

mod read;
mod table;
mod write;

pub use table::SerdeTable;

use crate::entity::Entity;
use crate::error::Error;
use crate::value::EncodeError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Names of the newtypes that carry a Guid and a time through serde unchanged.
const GUID: &str = "$lazuli_client::Guid";
const TIMESTAMP: &str = "$lazuli_client::Timestamp";

impl Entity {
    /// Serializes a value to an entity: a struct or a map of plain values.
    pub fn serialize<T: Serialize + ?Sized>(
        partition_key: impl Into<String>,
        row_key: impl Into<String>,
        value: &T,
    ) -> Result<Self, Error> {
        let properties = value.serialize(write::Row)?;
        let entity = Self::new(partition_key, row_key);
        Ok(properties.into_iter().fold(entity, |entity, (name, value)| entity.with(name, value)))
    }

    /// Deserializes the properties into a type.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let read = T::deserialize(read::row(self));
        read.map_err(|read::ReadError(reason)| {
            Error::from(self.decode_error("", crate::ValueError::Serde(reason)))
        })
    }
}

impl From<write::WriteError> for Error {
    fn from(error: write::WriteError) -> Self {
        EncodeError::Serde(error.0).into()
    }
}

/// For `#[serde(with = "lazuli_client::serde_guid")]`: a [`Guid`](crate::Guid) is stored as Edm.Guid.
pub mod serde_guid {
    use super::GUID;
    use lazuli_model::Guid;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Passes the Guid through unchanged.
    pub fn serialize<S: Serializer>(guid: &Guid, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(GUID, &guid.to_string())
    }

    /// Reads a Guid, or its text.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Guid, D::Error> {
        let text = String::deserialize(deserializer)?;
        Guid::parse(&text).ok_or_else(|| serde::de::Error::custom("expected a Guid"))
    }
}

/// For `#[serde(with = "lazuli_client::serde_timestamp")]`: a [`Timestamp`](crate::Timestamp) is stored as
/// Edm.DateTime.
pub mod serde_timestamp {
    use super::TIMESTAMP;
    use lazuli_model::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Passes the time through unchanged.
    pub fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
        serializer.serialize_newtype_struct(TIMESTAMP, time.text(&mut buffer))
    }

    /// Reads a time, or its text.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text).ok_or_else(|| serde::de::Error::custom("expected a time"))
    }
}
