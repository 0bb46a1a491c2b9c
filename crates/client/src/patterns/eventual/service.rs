//! The store on the real services: tables and a queue.

use super::note::Note;
use super::store::{NoteId, Outcome, Place, Row, Store, Stored};
use crate::entity::{ETag, Entity, Loaded};
use crate::error::{Error, ErrorKind};
use crate::queue::{Queue, Receipt};
use crate::table::Table;
use crate::write::{Deleted, Written};
use crate::write_ids::WriteIds;
use crate::{Account, BoxFuture};
use lazuli_model::Timestamp;
use std::time::Duration;

pub(crate) struct ServiceStore {
    pub(crate) account: Account,
    pub(crate) queue: Option<Queue>,
    /// How long a note is hidden at first.
    pub(crate) grace: Duration,
    /// The table of the primaries.
    pub(crate) primary: String,
}

impl ServiceStore {
    fn table(&self, place: &Place) -> Result<Table<Entity>, Error> {
        self.account.tables().table(&place.table)
    }
}

/// A row with the version that it must have.
fn versioned(row: Row, etag: ETag) -> Loaded<Entity> {
    let time = Timestamp::UNIX_EPOCH;
    Loaded::unwritten(row.entity, row.place.key, etag, time, WriteIds::default())
}

fn written(outcome: Result<Written, Error>) -> Result<Outcome, Error> {
    match outcome {
        Ok(written) => Ok(Outcome::Done(Some(written.etag))),
        Err(error) => refused(error),
    }
}

/// A failed condition is an answer, unless an earlier attempt of our own may have caused it.
fn refused(error: Error) -> Result<Outcome, Error> {
    let is_answer = error.is_conflict()
        || error.is_precondition_failed()
        || *error.kind() == ErrorKind::NotFound;
    if error.may_have_been_applied() {
        return Err(error.with_kind(ErrorKind::OutcomeUnknown));
    }
    if is_answer { Ok(Outcome::Refused) } else { Err(error) }
}

impl Store for ServiceStore {
    fn get<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Option<Stored>, Error>> {
        Box::pin(async move {
            let found = self.table(place)?.get(place.key.clone()).await?;
            Ok(found.map(|found| Stored {
                etag: found.etag().clone(),
                timestamp: found.timestamp(),
                entity: found.into_inner(),
            }))
        })
    }

    fn insert<'a>(&'a self, row: Row) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(
            async move { written(self.table(&row.place)?.insert(&row.entity).write_id().await) },
        )
    }

    fn replace<'a>(&'a self, row: Row, etag: ETag) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(async move {
            let table = self.table(&row.place)?;
            written(table.replace(&versioned(row, etag)).write_id().await)
        })
    }

    fn delete<'a>(&'a self, place: &'a Place, etag: ETag) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(async move {
            let row = Row { place: place.clone(), entity: Entity::default() };
            match self.table(place)?.delete(&versioned(row, etag)).await {
                Ok(Deleted::Now(_)) => Ok(Outcome::Done(None)),
                Ok(Deleted::WasAbsent) => Ok(Outcome::Refused),
                Err(error) => refused(error),
            }
        })
    }

    fn send_note(&self, note: Note) -> BoxFuture<'_, Result<NoteId, Error>> {
        Box::pin(async move {
            let queue = self.queue.as_ref().ok_or_else(|| Error::config("there is no queue"))?;
            let sent = queue.send(note.to_body()?).delay(self.grace).never_expires().await?;
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

    fn now(&self) -> Timestamp {
        self.account.0.env.now()
    }
}
