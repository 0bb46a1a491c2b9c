//! What the protocol needs of tables and of the queue: one request each.
//!
//! The protocol is written against this trait so that a test can run it on rows in memory, with every order
//! of the requests of several clients.

use crate::BoxFuture;
use crate::entity::{ETag, Entity};
use crate::error::Error;
use lazuli_model::{EntityKey, Timestamp};

/// A row: its table and its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) table: String,
    pub(crate) key: EntityKey,
}

/// A row as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) entity: Entity,
    pub(crate) etag: ETag,
    pub(crate) timestamp: Timestamp,
}

/// How a conditional write ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It is done; the new version, unless the row is gone.
    Done(Option<ETag>),
    /// The row is there already, is another version, or is gone.
    Refused,
}

/// A message that stands for a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoteId(pub(crate) String, pub(crate) String);

/// Rows and notes.
pub(crate) trait Store: Send + Sync {
    /// Reads a row.
    fn get<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Option<Stored>, Error>>;

    /// Writes a row that must not be there.
    fn insert<'a>(&'a self, row: Row) -> BoxFuture<'a, Result<Outcome, Error>>;

    /// Replaces a row that must be this version.
    fn replace<'a>(&'a self, row: Row, etag: ETag) -> BoxFuture<'a, Result<Outcome, Error>>;

    /// Deletes a row that must be this version.
    fn delete<'a>(&'a self, place: &'a Place, etag: ETag) -> BoxFuture<'a, Result<Outcome, Error>>;

    /// Sends a note that nobody sees for a while.
    fn send_note(&self, note: super::note::Note) -> BoxFuture<'_, Result<NoteId, Error>>;

    /// Deletes a note.
    fn delete_note<'a>(&'a self, note: &'a NoteId) -> BoxFuture<'a, Result<(), Error>>;

    /// The time of day.
    fn now(&self) -> Timestamp;
}

/// A row to write.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) place: Place,
    /// The properties; the keys are those of the place.
    pub(crate) entity: Entity,
}
