//! The note that a writer leaves before it touches a blob (P-11.2).

use super::address::BlobPlace;
use crate::error::Error;
use lazuli_model::EntityKey;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// An entity, and blobs that it may or may not refer to, depending on how far the writer gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) table: String,
    pub(super) key: EntityKey,
    pub(super) blobs: Vec<BlobPlace>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u32,
    /// Table, partition key, row key.
    large: [String; 3],
    /// Container and name.
    blobs: Vec<[String; 2]>,
}

impl Note {
    pub(super) fn to_body(&self) -> Result<Vec<u8>, Error> {
        let key = &self.key;
        let pair = |place: &BlobPlace| [place.container.clone(), place.name.clone()];
        let wire = Wire {
            v: VERSION,
            large: [self.table.clone(), key.partition.as_str().into(), key.row.as_str().into()],
            blobs: self.blobs.iter().map(pair).collect(),
        };
        serde_json::to_vec(&wire).map_err(|error| Error::protocol(error.to_string()))
    }

    /// Parses the note in a message, or says why it is invalid.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let wire: Wire = serde_json::from_slice(body)
            .map_err(|error| format!("the message is not a note about blobs: {error}"))?;
        if wire.v != VERSION {
            return Err(format!("the message is a note of version {}", wire.v));
        }
        let [table, partition, row] = wire.large;
        let key = EntityKey::parse(&partition, &row).map_err(|error| error.to_string())?;
        let place = |[container, name]: [String; 2]| BlobPlace { container, name };
        Ok(Self { table, key, blobs: wire.blobs.into_iter().map(place).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_goes_there_and_back() {
        let note = Note {
            table: "Staff".into(),
            key: EntityKey::parse("Sales", "000223").unwrap(),
            blobs: vec![BlobPlace { container: "photos".into(), name: "a/b".into() }],
        };
        assert_eq!(Note::parse(&note.to_body().unwrap()), Ok(note));
        assert!(Note::parse(b"{}").is_err());
        assert!(Note::parse(b"{\"v\":2,\"large\":[\"T\",\"\",\"\"],\"blobs\":[]}").is_err());
    }
}
