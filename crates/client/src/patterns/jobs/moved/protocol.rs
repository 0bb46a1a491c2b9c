//! The protocol of a move to another table (P-3.6).
//!
//! The copy is written before the original is deleted, so a client that reads the original first, and then the copy,
//! finds one of them at every moment. The original is the truth as long as it exists: it is deleted only in the
//! version from which the copy was made, and a copy is replaced only if the original, read *after* it, still exists.
//!
//! Without the state that the sender saw, a run that finds the original gone removes the copy that it inserted,
//! conditionally on the version it inserted: another run that relies on that copy has touched it first.
//!
//! With that state, the copy is marked until the original is gone, and the transaction that deletes the original
//! leaves a note next to it. The mark and the note together show how far a crashed run had come:
//!
//! * A marked copy whose number is in a note is the entity: the mark is removed, and then the note. (The version it
//!   was made from is not enough: a run that was suspended may write another copy of it while the note exists.)
//! * A marked copy is removed if its original, read before it, does not have the version that the copy was made from
//!   (versions never come back, so the original can no longer be deleted in that version), and no note, read after it,
//!   names it.

use crate::BoxFuture;
use crate::entity::ETag;
use crate::error::{Error, ErrorKind};
use lazuli_model::EntityKey;

/// Rounds before a step gives up because others changed the entity each time.
const ROUNDS: u32 = 16;

/// The original, as it was read.
#[derive(Clone, Debug)]
pub(super) struct Original<E> {
    pub(super) entity: E,
    pub(super) etag: ETag,
    /// Ticks of its Timestamp.
    pub(super) ticks: u64,
}

/// A row at the key of the copy.
#[derive(Clone, Debug)]
pub(super) struct Found<E> {
    pub(super) entity: E,
    pub(super) etag: ETag,
    /// `None` if it is not a copy of the original.
    pub(super) mark: Option<Mark>,
}

/// The mark of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The Timestamp, in ticks, of the original from which it was made.
    pub(super) ticks: u64,
    /// Its unique number, as long as the original may still exist.
    pub(super) moving: Option<i64>,
}

impl Mark {
    fn plain(ticks: u64) -> Self {
        Self { ticks, moving: None }
    }

    /// Whether it has this state, and the original may still exist.
    fn is_doubtful(self, wanted: &Wanted) -> bool {
        self.ticks == wanted.ticks && self.moving.is_some()
    }
}

/// The note left next to an original that was deleted.
#[derive(Clone, Debug)]
pub(super) struct Note {
    /// The key of the copy.
    pub(super) to: EntityKey,
    /// The number of the copy.
    pub(super) number: i64,
}

/// The state of an entity for which a job was sent.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) etag: ETag,
    pub(super) ticks: u64,
}

/// The task of a run.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    /// Only this state.
    pub(super) wanted: Option<Wanted>,
    /// Whether the original is deleted.
    pub(super) deletes: bool,
    /// The key of the copy, if it is known without the original.
    pub(super) at: Option<EntityKey>,
}

/// The requests to the two tables that the protocol needs, one method each. `None` and `false` are refusals: the row
/// has another version, or does not exist.
///
/// A test runs the protocol on rows in memory, with every order of the requests of several runs.
pub(super) trait Store: Send + Sync {
    type Entity: Clone + Send + Sync;

    fn original(&self) -> Reply<'_, Option<Original<Self::Entity>>>;

    fn copy<'a>(&'a self, at: &'a EntityKey) -> Reply<'a, Option<Found<Self::Entity>>>;

    /// Writes a copy if there is no row.
    fn insert<'a>(
        &'a self,
        at: &'a EntityKey,
        entity: &'a Self::Entity,
        mark: Mark,
    ) -> Reply<'a, Inserted>;

    /// Replaces a row that has this version.
    fn replace<'a>(
        &'a self,
        at: &'a EntityKey,
        entity: &'a Self::Entity,
        mark: Mark,
        version: &'a ETag,
    ) -> Reply<'a, Option<ETag>>;

    /// Removes a copy that has this version.
    fn remove<'a>(&'a self, at: &'a EntityKey, version: &'a ETag) -> Reply<'a, bool>;

    /// Deletes the original if it has this version.
    fn delete<'a>(&'a self, version: &'a ETag) -> Reply<'a, Gone>;

    /// The same, and leaves a note if there is none.
    fn commit<'a>(&'a self, version: &'a ETag, note: &'a Note) -> Reply<'a, Committed>;

    fn note(&self) -> Reply<'_, Option<(Note, ETag)>>;

    /// Deletes a note that has this version.
    fn forget<'a>(&'a self, version: &'a ETag) -> Reply<'a, bool>;

    /// A unique number for a copy.
    fn number(&self) -> i64;
}

pub(super) type Reply<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// The outcome of an insert.
pub(super) enum Inserted {
    /// The version, and whether it certainly comes from this insert.
    Now(ETag, bool),
    /// A row exists.
    Refused,
}

/// The outcome of deleting the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// Deleted by this run.
    Now,
    /// Deleted before, by another client.
    Before,
    /// It has another version.
    Changed,
}

/// The outcome of a commit.
pub(super) enum Committed {
    /// It succeeded. The version of the note, unless the answer was lost.
    Done(Option<ETag>),
    Refused,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Done,
    /// An earlier run moved it.
    WasDone,
    /// It is in neither table.
    Absent,
    /// It does not have the wanted state.
    Changed,
    /// Its place is taken by a row that is not a copy of it.
    Taken,
}

/// Moves or copies the original as `shape` says. It may run any number of times, in any process.
pub(super) async fn run<S: Store, X: From<Error>>(
    store: &S,
    goal: &Goal,
    shape: impl Fn(&Original<S::Entity>) -> Result<(EntityKey, S::Entity), X>,
) -> Result<Moved, X> {
    for _ in 0..ROUNDS {
        let Some(original) = store.original().await? else {
            match absent(store, goal).await? {
                Some(moved) => return Ok(moved),
                None => continue,
            }
        };
        let (at, entity) = shape(&original)?;
        let round = Round { store, goal, original, at, entity };
        if let Some(moved) = round.run().await? {
            return Ok(moved);
        }
    }
    Err(Error::new(ErrorKind::Contended { attempts: ROUNDS }).into())
}

/// One round of a run; its steps return `None` if another client came in between.
struct Round<'a, S: Store> {
    store: &'a S,
    goal: &'a Goal,
    original: Original<S::Entity>,
    at: EntityKey,
    entity: S::Entity,
}

/// The copy, before the original is deleted.
enum Placed {
    /// The current copy. `inserted`: inserted by this run.
    Copy { etag: ETag, moving: Option<i64>, inserted: bool },
    /// Another client came in between.
    Disturbed,
    /// A row that is not a copy exists.
    Taken,
}

impl<S: Store> Round<'_, S> {
    async fn run(&self) -> Result<Option<Moved>, Error> {
        if let Some(wanted) = &self.goal.wanted
            && wanted.etag != self.original.etag
        {
            return self.undo(wanted).await;
        }
        let (etag, moving, inserted) = match self.place().await? {
            Placed::Copy { etag, moving, inserted } => (etag, moving, inserted),
            Placed::Disturbed => return Ok(None),
            Placed::Taken => return Ok(Some(Moved::Taken)),
        };
        if !self.goal.deletes {
            return Ok(Some(Moved::Done));
        }
        match self.goal.wanted {
            Some(_) => self.commit(&etag, moving).await,
            None => self.delete(&etag, inserted).await,
        }
    }

    fn mark(&self) -> Mark {
        let is_moving = self.goal.wanted.is_some() && self.goal.deletes;
        let moving = is_moving.then(|| self.store.number());
        Mark { ticks: self.original.ticks, moving }
    }

    /// Step 4: writes the copy.
    async fn place(&self) -> Result<Placed, Error> {
        let (store, at, mark) = (self.store, &self.at, self.mark());
        let copy = |etag, moving, inserted| Placed::Copy { etag, moving, inserted };
        if let Inserted::Now(etag, is_certain) = store.insert(at, &self.entity, mark).await? {
            return Ok(copy(etag, mark.moving, is_certain));
        }
        let Some(found) = store.copy(at).await? else { return Ok(Placed::Disturbed) };
        let Some(there) = found.mark else {
            // Or a copy that was overwritten after the move.
            let is_there = self.is_unchanged().await?;
            return Ok(if is_there { Placed::Taken } else { Placed::Disturbed });
        };
        if there.ticks == mark.ticks {
            // Another run's copy. If no note decides, touch it, so that the other run does not remove it.
            if !self.goal.deletes || there.moving.is_some() && mark.moving.is_some() {
                return Ok(copy(found.etag, there.moving, false));
            }
            let plain = Mark::plain(there.ticks);
            let touched = store.replace(at, &found.entity, plain, &found.etag).await?;
            return Ok(touched.map_or(Placed::Disturbed, |etag| copy(etag, None, false)));
        }
        // From a run that committed and has not finished, or a copy of another state.
        if there.moving.is_some() && settle_note(store).await? || !self.is_unchanged().await? {
            return Ok(Placed::Disturbed);
        }
        let replaced = store.replace(at, &self.entity, mark, &found.etag).await?;
        Ok(replaced.map_or(Placed::Disturbed, |etag| copy(etag, mark.moving, false)))
    }

    /// Whether the original still has the version that was read.
    async fn is_unchanged(&self) -> Result<bool, Error> {
        let original = self.store.original().await?;
        Ok(original.is_some_and(|original| original.etag == self.original.etag))
    }

    /// Step 5 without a state from the sender.
    async fn delete(&self, copy: &ETag, inserted: bool) -> Result<Option<Moved>, Error> {
        match self.store.delete(&self.original.etag).await? {
            Gone::Now => return Ok(Some(Moved::Done)),
            // Moved by a run that has touched the copy, or deleted: in that case it must not come back.
            Gone::Before if inserted => {
                self.store.remove(&self.at, copy).await?;
            }
            Gone::Before | Gone::Changed => {}
        }
        Ok(None)
    }

    /// Step 5 with such a state, and the removal of the mark.
    async fn commit(&self, copy: &ETag, moving: Option<i64>) -> Result<Option<Moved>, Error> {
        let (store, ticks) = (self.store, self.original.ticks);
        let number = moving.unwrap_or_else(|| store.number());
        let note = Note { to: self.at.clone(), number };
        match store.commit(&self.original.etag, &note).await? {
            Committed::Refused => {
                // It was changed, or the note of an earlier move still exists.
                settle_note(store).await?;
                return Ok(None);
            }
            Committed::Done(Some(version)) => {
                let plain = Mark::plain(ticks);
                let is_plain = moving.is_none()
                    || store.replace(&self.at, &self.entity, plain, copy).await?.is_some();
                match is_plain {
                    // Conditional: it may be the note of a later move.
                    true => drop(store.forget(&version).await?),
                    false => drop(settle_note(store).await?),
                }
            }
            Committed::Done(None) => drop(settle_note(store).await?),
        }
        Ok(Some(Moved::Done))
    }

    /// The original is not the one that the job was sent for. Removes the copy of that one, unless it was moved and the
    /// original is a new entity with the same key.
    async fn undo(&self, wanted: &Wanted) -> Result<Option<Moved>, Error> {
        let is_gone = self.goal.deletes && !clear(self.store, &self.at, wanted).await?;
        Ok((!is_gone).then_some(Moved::Changed))
    }
}

/// Removes a marked copy of an outdated state, or finishes the move of an existing note. False if the copy has
/// changed in the meantime.
async fn clear<S: Store>(store: &S, at: &EntityKey, wanted: &Wanted) -> Result<bool, Error> {
    let found = store.copy(at).await?;
    let has_moved = settle_note(store).await?;
    let is_doubtful = |found: &Found<_>| found.mark.is_some_and(|mark| mark.is_doubtful(wanted));
    match found.filter(is_doubtful) {
        Some(_) if has_moved => Ok(false),
        Some(found) => store.remove(at, &found.etag).await,
        None => Ok(true),
    }
}

/// Step 3 finds no original: it was moved, deleted, or never existed.
async fn absent<S: Store>(store: &S, goal: &Goal) -> Result<Option<Moved>, Error> {
    let found = match &goal.at {
        Some(at) => store.copy(at).await?,
        None => None,
    };
    let mark = found.as_ref().and_then(|found| found.mark);
    let is_moving = mark.is_some_and(|mark| mark.moving.is_some());
    if (goal.wanted.is_some() || is_moving) && settle_note(store).await? {
        return Ok(Some(Moved::WasDone));
    }
    if let (Some(found), Some(at), Some(wanted)) = (&found, &goal.at, &goal.wanted)
        && goal.deletes
        && mark.is_some_and(|mark| mark.is_doubtful(wanted))
    {
        // The original was deleted, but not by a move.
        let is_removed = store.remove(at, &found.etag).await?;
        return Ok(is_removed.then_some(Moved::Absent));
    }
    Ok(Some(if found.is_some() { Moved::WasDone } else { Moved::Absent }))
}

/// Finishes the move of an existing note; returns whether there was one.
async fn settle_note<S: Store>(store: &S) -> Result<bool, Error> {
    for _ in 0..ROUNDS {
        let Some((note, version)) = store.note().await? else { return Ok(false) };
        if let Some(found) = store.copy(&note.to).await?
            && let Some(mark) = found.mark
            && mark.moving == Some(note.number)
        {
            let plain = Mark::plain(mark.ticks);
            if store.replace(&note.to, &found.entity, plain, &found.etag).await?.is_none() {
                continue;
            }
        }
        store.forget(&version).await?;
        return Ok(true);
    }
    Err(Error::new(ErrorKind::Contended { attempts: ROUNDS }))
}
