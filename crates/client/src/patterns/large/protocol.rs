//! The protocol for blobs that entities refer to (P-11.2 to P-11.4).
//!
//! Three rules keep entities from referring to missing blobs, and blobs from being left behind:
//!
//! 1. A client that writes a blob, or removes an entity's reference to one, has sent a note about the blob before.
//!    The note becomes visible when no client can still be working on it, and is deleted when its blobs are deleted
//!    or referred to.
//! 2. A blob is deleted only if its entity, read after the note was seen, does not refer to it.
//! 3. Only the write that made a blob makes an entity refer to it: if there is no reference by then, there never
//!    will be.
//!
//! The third rule rests on time. A writer commits only if less than half of the grace has passed since its note; a
//! request that arrives later than the grace plus `keep` after it was sent would break it.

use super::address::BlobPlace;
use super::note::Note;
use crate::BoxFuture;
use crate::error::{Error, ErrorKind};
use crate::large::{BlobLink, Large};
use bytes::Bytes;
use lazuli_model::Timestamp;
use std::time::Duration;

/// The message of a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoteId(pub(super) String, pub(super) String);

/// The requests to tables, blobs and the queue that the protocol needs, one method each.
///
/// A test runs the protocol on blobs in memory, with every order of the requests of several clients.
pub(super) trait Store: Send + Sync {
    /// Sends a note that stays hidden for `hidden`.
    fn send_note(&self, note: Note, hidden: Duration) -> BoxFuture<'_, Result<NoteId, Error>>;

    /// Deletes a note.
    fn delete_note<'a>(&'a self, note: &'a NoteId) -> BoxFuture<'a, Result<(), Error>>;

    /// Writes a blob.
    fn put<'a>(&'a self, blob: &'a BlobPlace, bytes: Bytes) -> BoxFuture<'a, Result<(), Error>>;

    /// Reads a blob.
    fn get<'a>(
        &'a self,
        blob: &'a BlobPlace,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<Option<Bytes>, Error>>;

    /// Deletes a blob, if it exists.
    fn delete<'a>(&'a self, blob: &'a BlobPlace) -> BoxFuture<'a, Result<(), Error>>;

    /// The blobs that the entity of a note refers to now.
    fn named<'a>(&'a self, note: &'a Note) -> BoxFuture<'a, Result<Vec<BlobPlace>, Error>>;

    /// The time of day, and a time that never decreases.
    fn now(&self) -> (Timestamp, Duration);
}

#[derive(Clone, Copy)]
pub(super) struct Protocol<'a> {
    pub(super) store: &'a dyn Store,
    /// Longer than a write takes.
    pub(super) grace: Duration,
    /// How long the blobs of an old entity stay for its readers.
    pub(super) keep: Duration,
    /// Whether notes are sent; without them, unused blobs are left to the garbage collection.
    pub(super) has_notes: bool,
}

/// The blobs of a write.
pub(super) struct Blobs {
    /// The entity that refers to them.
    pub(super) note: Note,
    /// Blobs that it will refer to.
    pub(super) new: Vec<(BlobPlace, Bytes)>,
    /// Blobs that it will no longer refer to.
    pub(super) old: Vec<BlobPlace>,
}

impl Protocol<'_> {
    /// Writes the new blobs, and then the entity by `commit`, which gets the time left.
    pub(super) async fn write<R>(
        &self,
        blobs: Blobs,
        commit: impl AsyncFnOnce(Duration) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let Blobs { mut note, new, old } = blobs;
        note.blobs = new.iter().map(|(place, _)| place).chain(&old).cloned().collect();
        if note.blobs.is_empty() {
            return commit(self.grace).await;
        }
        // Taken before the note is sent, because its answer may take long.
        let (began, half) = (self.store.now(), self.grace / 2);
        let note = match self.has_notes {
            true => Some(self.store.send_note(note, self.grace + self.keep).await?),
            false => None,
        };
        let late = || Error::new(ErrorKind::Timeout);
        for (place, bytes) in &new {
            if self.passed(began) >= half {
                return Err(self.give_up(late(), &new, note.as_ref()).await);
            }
            // Even if this fails, the blob may exist: the note covers it.
            self.store.put(place, bytes.clone()).await?;
        }
        if self.passed(began) >= half {
            return Err(self.give_up(late(), &new, note.as_ref()).await);
        }
        match commit(half).await {
            Ok(done) => {
                // The worker deletes old blobs when their readers are done.
                if old.is_empty()
                    && let Some(note) = &note
                {
                    // If this is lost, the worker finds nothing to do.
                    let _ = self.store.delete_note(note).await;
                }
                Ok(done)
            }
            Err(error) if is_uncertain(&error) => Err(error),
            Err(error) => Err(self.give_up(error, &new, note.as_ref()).await),
        }
    }

    /// Handles a visible note in the worker. It may run any number of times, in any process.
    pub(super) async fn settle(&self, note: &Note) -> Result<(), Error> {
        let named = self.store.named(note).await?;
        for blob in note.blobs.iter().filter(|blob| !named.contains(blob)) {
            self.store.delete(blob).await?;
        }
        Ok(())
    }

    /// Reads a value. If its blob is gone, `again` reads the entity again.
    pub(super) async fn read(
        &self,
        link: &BlobLink,
        bytes_max: usize,
        again: impl AsyncFnOnce() -> Result<Option<Large>, Error>,
    ) -> Result<Bytes, Error> {
        if let Some(bytes) = self.fetch(link, bytes_max).await? {
            return Ok(bytes);
        }
        let Some(large) = again().await? else { return Err(Error::new(ErrorKind::NotFound)) };
        match (large.bytes(), large.link()) {
            (Some(bytes), _) => Ok(bytes.clone()),
            (None, Some(link)) => {
                let dangling = ErrorKind::Dangling { address: link.address.clone() };
                let bytes = self.fetch(link, bytes_max).await?;
                bytes.ok_or_else(|| Error::new(dangling))
            }
            (None, None) => Err(Error::new(ErrorKind::NotFound)),
        }
    }

    async fn fetch(&self, link: &BlobLink, bytes_max: usize) -> Result<Option<Bytes>, Error> {
        let place = BlobPlace::of(&link.address).ok_or_else(|| {
            Error::protocol(format!("{:?} is not the address of a blob of ours", link.address))
        })?;
        let Some(bytes) = self.store.get(&place, bytes_max).await? else { return Ok(None) };
        if bytes.len() as u64 != link.bytes || sha256(&bytes) != link.sha256 {
            let address = link.address.clone();
            return Err(Error::new(ErrorKind::DigestMismatch { address }));
        }
        Ok(Some(bytes))
    }

    /// Ends a write that has not committed and will not commit.
    async fn give_up(
        &self,
        error: Error,
        new: &[(BlobPlace, Bytes)],
        note: Option<&NoteId>,
    ) -> Error {
        for (place, _) in new {
            if self.store.delete(place).await.is_err() {
                // The worker will find the note.
                return error;
            }
        }
        if let Some(note) = note {
            let _ = self.store.delete_note(note).await;
        }
        error
    }

    /// The time since `began`, by the clock that shows more: one of them stops while a machine sleeps.
    fn passed(&self, began: (Timestamp, Duration)) -> Duration {
        let (now, elapsed) = self.store.now();
        let by_day = Duration::from_millis(now.millis_since(began.0));
        by_day.max(elapsed.saturating_sub(began.1))
    }
}

/// Whether a write may have been carried out although it failed.
fn is_uncertain(error: &Error) -> bool {
    error.may_have_been_applied() || *error.kind() == ErrorKind::OutcomeUnknown
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let mut out = [0; 32];
    // The digest has 32 bytes.
    out.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    out
}
