//! The requests to tables and the queue that the protocol needs, one method each.
//!
//! The protocol uses this trait so that a test can run it on rows in memory, with every order of the requests of
//! several clients.

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

/// The outcome of a conditional write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It succeeded; the new version, unless the row was deleted.
    Done(Option<ETag>),
    /// The row exists already, has another version, or is gone.
    Refused,
}

/// The message of a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoteId(pub(crate) String, pub(crate) String);

/// Rows and notes.
pub(crate) trait Store: Send + Sync {
    /// Reads a row.
    fn get<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Option<Stored>, Error>>;

    /// Writes a row that must not exist.
    fn insert<'a>(&'a self, row: Row) -> BoxFuture<'a, Result<Outcome, Error>>;

    /// Replaces a row that must have this version.
    fn replace<'a>(&'a self, row: Row, etag: ETag) -> BoxFuture<'a, Result<Outcome, Error>>;

    /// Deletes a row that must have this version.
    fn delete<'a>(&'a self, place: &'a Place, etag: ETag) -> BoxFuture<'a, Result<Outcome, Error>>;

    /// Sends a note that is hidden at first.
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
    /// The properties; the keys are in `place`.
    pub(crate) entity: Entity,
}
