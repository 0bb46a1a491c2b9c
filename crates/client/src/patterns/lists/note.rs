//! The note that a writer leaves before it writes (P-4.5, W1).

use super::ListTable;
use crate::entity::TableEntity;
use crate::error::Error;
use crate::queue::Receipt;
use lazuli_model::EntityKey;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// An item of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// The number of the list in the type.
    pub(super) number: usize,
    pub(super) place: EntityKey,
    pub(super) item: String,
}

/// The key of an entity, and the items that a write may add or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) kind: String,
    pub(super) primary: EntityKey,
    pub(super) entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u32,
    lists_of: String,
    primary: [String; 2],
    /// The name of the list, its two keys, the item.
    entries: Vec<[String; 4]>,
}

impl Note {
    fn to_body<T: TableEntity>(&self) -> Result<Vec<u8>, Error> {
        let keys =
            |key: &EntityKey| [key.partition.as_str().to_owned(), key.row.as_str().to_owned()];
        let entry = |entry: &Entry| {
            let name = T::LISTS.get(entry.number).map_or("", |def| def.name);
            let [partition, row] = keys(&entry.place);
            [name.to_owned(), partition, row, entry.item.clone()]
        };
        let wire = Wire {
            v: VERSION,
            lists_of: self.kind.clone(),
            primary: keys(&self.primary),
            entries: self.entries.iter().map(entry).collect(),
        };
        serde_json::to_vec(&wire).map_err(Error::protocol)
    }

    /// Parses the note in a message, or says why it is invalid. Lists that the type no longer has are left out.
    pub(super) fn parse<T: TableEntity>(body: &[u8]) -> Result<Self, String> {
        let wire: Wire = serde_json::from_slice(body)
            .map_err(|error| format!("the message is not a note: {error}"))?;
        if wire.v != VERSION {
            return Err(format!("the message is a note of version {}", wire.v));
        }
        let key = |[partition, row]: [String; 2]| {
            EntityKey::parse(&partition, &row).map_err(|error| error.to_string())
        };
        let mut entries = Vec::new();
        for [name, partition, row, item] in wire.entries {
            if let Some(number) = T::LISTS.iter().position(|def| def.name == name) {
                entries.push(Entry { number, place: key([partition, row])?, item });
            }
        }
        Ok(Self { kind: wire.lists_of, primary: key(wire.primary)?, entries })
    }
}

/// The name of a type in notes.
pub(super) fn kind<T: TableEntity>() -> &'static str {
    T::KIND.map_or("", |kind| kind.name)
}

impl<T: TableEntity> ListTable<T> {
    /// Sends a note that is hidden at first; `None` without a queue, or if there is nothing to note.
    pub(super) async fn send_note(
        &self,
        primary: &EntityKey,
        entries: &[Entry],
    ) -> Result<Option<Receipt>, Error> {
        let Some(queue) = self.queue.as_ref().filter(|_| !entries.is_empty()) else {
            return Ok(None);
        };
        let (kind, primary) = (kind::<T>().to_owned(), primary.clone());
        let note = Note { kind, primary, entries: entries.to_vec() };
        let sent = queue.send(note.to_body::<T>()?).delay(self.grace).never_expires().await?;
        Ok(Some(sent.receipt))
    }
}
