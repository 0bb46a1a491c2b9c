//! The note that a writer leaves before it writes (P-2, W1).

use super::store::Place;
use crate::error::Error;
use lazuli_model::EntityKey;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// The key of a primary, and all places where this write may leave copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) kind: String,
    pub(crate) primary: Place,
    pub(crate) candidates: Vec<Place>,
}

/// The serialized form of a note: places are `[table, partition key, row key]`.
#[derive(Serialize, Deserialize)]
struct Wire {
    v: u32,
    kind: String,
    primary: [String; 3],
    copies: Vec<[String; 3]>,
}

impl Note {
    pub(crate) fn to_body(&self) -> Result<Vec<u8>, Error> {
        let text = |place: &Place| {
            let key = &place.key;
            [place.table.clone(), key.partition.as_str().into(), key.row.as_str().into()]
        };
        let wire = Wire {
            v: VERSION,
            kind: self.kind.clone(),
            primary: text(&self.primary),
            copies: self.candidates.iter().map(text).collect(),
        };
        serde_json::to_vec(&wire).map_err(|error| Error::protocol(error.to_string()))
    }

    /// Parses the note in a message, or says why it is invalid.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        let wire: Wire = serde_json::from_slice(body)
            .map_err(|error| format!("the message is not a note: {error}"))?;
        if wire.v != VERSION {
            return Err(format!("the message is a note of version {}", wire.v));
        }
        let place = |[table, partition, row]: [String; 3]| {
            let key = EntityKey::parse(&partition, &row).map_err(|error| error.to_string())?;
            Ok(Place { table, key })
        };
        Ok(Self {
            kind: wire.kind,
            primary: place(wire.primary)?,
            candidates: wire.copies.into_iter().map(place).collect::<Result<_, String>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_goes_there_and_back() {
        let place = |row: &str| Place {
            table: "Staff".into(),
            key: EntityKey::parse("email_Sales", row).unwrap(),
        };
        let note = Note {
            kind: "Employee".into(),
            primary: place("000223"),
            candidates: vec![place("a@contoso.com"), place("b@contoso.com")],
        };
        assert_eq!(Note::parse(&note.to_body().unwrap()), Ok(note));
        assert!(Note::parse(b"{}").is_err());
    }
}
