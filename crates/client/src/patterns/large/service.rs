//! The store on the real services: tables, blobs and a queue.

use super::address::BlobPlace;
use super::note::Note;
use super::protocol::{NoteId, Store};
use crate::blob::Blob;
use crate::entity::Entity;
use crate::error::{Error, ErrorKind};
use crate::queue::{Queue, Receipt};
use crate::value::Value;
use crate::{Account, BoxFuture};
use bytes::Bytes;
use lazuli_model::Timestamp;
use std::time::Duration;

pub(super) struct ServiceStore {
    pub(super) account: Account,
    pub(super) queue: Option<Queue>,
}

impl ServiceStore {
    pub(super) fn blob(&self, place: &BlobPlace) -> Result<Blob, Error> {
        self.account.blobs().container(&place.container)?.blob(&place.name)
    }
}

/// The blobs that an entity refers to: string values that are addresses of ours.
pub(super) fn named_by(entity: &Entity) -> Vec<BlobPlace> {
    let place = |(_, value): (&str, &Value)| match value {
        Value::String(text) => BlobPlace::of(text),
        _ => None,
    };
    entity.properties().filter_map(place).collect()
}

impl Store for ServiceStore {
    fn send_note(&self, note: Note, hidden: Duration) -> BoxFuture<'_, Result<NoteId, Error>> {
        Box::pin(async move {
            let queue = self.queue.as_ref().ok_or_else(|| Error::config("there is no queue"))?;
            let sent = queue.send(note.to_body()?).delay(hidden).never_expires().await?;
            Ok(NoteId(sent.receipt.id, sent.receipt.pop_receipt))
        })
    }

    fn delete_note<'a>(&'a self, note: &'a NoteId) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let Some(queue) = &self.queue else { return Ok(()) };
            let NoteId(id, pop_receipt) = note.clone();
            queue.delete(&Receipt { id, pop_receipt }).await.map(drop)
        })
    }

    fn put<'a>(&'a self, blob: &'a BlobPlace, bytes: Bytes) -> BoxFuture<'a, Result<(), Error>> {
        // Not "if absent": the name is new, and after a lost answer the retry must not fail.
        Box::pin(async move { self.blob(blob)?.put(bytes).await.map(drop) })
    }

    fn get<'a>(
        &'a self,
        blob: &'a BlobPlace,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        Box::pin(async move {
            let found = self.blob(blob)?.get().bytes_max(bytes_max).await?;
            Ok(found.map(|found| found.bytes))
        })
    }

    fn delete<'a>(&'a self, blob: &'a BlobPlace) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { self.blob(blob)?.delete().await.map(drop) })
    }

    fn named<'a>(&'a self, note: &'a Note) -> BoxFuture<'a, Result<Vec<BlobPlace>, Error>> {
        Box::pin(async move {
            let table = self.account.unprotected().tables().table(&note.table)?;
            match table.get(note.key.clone()).await {
                Ok(found) => Ok(found.map(|found| named_by(&found)).unwrap_or_default()),
                // All its entities are gone with the table.
                Err(error) if *error.kind() == ErrorKind::TableNotFound => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        })
    }

    fn now(&self) -> (Timestamp, Duration) {
        (self.account.0.env.now(), self.account.0.env.elapsed())
    }
}
