//! The protocol of a move to another table (P-3.6).
//!
//! The copy is written before the original is deleted, so whoever asks for the original first, and then for the
//! copy, finds one of them at every moment. The original is the truth as long as it is there: it is deleted only in the
//! version that the copy was made of, and a copy is replaced only if the original, read *after* it, is still there.
//!
//! Without the state that the sender saw, a run that finds the original gone removes the copy that it inserted, under
//! the version that it inserted: another run that counts on that copy has touched it before.
//!
//! With that state the copy is marked until the original is gone, and the transaction that deletes the original leaves a
//! note beside it. So the mark and the note together tell what became of a run that nobody has heard of:
//!
//! * A marked copy whose number a note has is the entity: the mark is taken away, and then the note. (The version that it
//!   was made of does not do: a run that slept may write another copy of it while the note is there.)
//! * A marked copy is removed if its original, read before it, has not its version (versions never come back, so nobody
//!   can delete the original in that version any more), and no note, read after it, names it.

use crate::BoxFuture;
use crate::entity::ETag;
use crate::error::{Error, ErrorKind};
use lazuli_model::EntityKey;

/// Rounds before a step gives up: others changed the entity each time.
const ROUNDS: u32 = 16;

/// The original, as it was read.
#[derive(Clone, Debug)]
pub(super) struct Original<E> {
    pub(super) entity: E,
    pub(super) etag: ETag,
    /// Ticks of its Timestamp.
    pub(super) ticks: u64,
}

/// A row where the copy goes.
#[derive(Clone, Debug)]
pub(super) struct Found<E> {
    pub(super) entity: E,
    pub(super) etag: ETag,
    /// `None` if it is no copy of the original.
    pub(super) mark: Option<Mark>,
}

/// What a copy says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Ticks of the original that it was made of.
    pub(super) ticks: u64,
    /// Its number, like no other, as long as the original may still be there.
    pub(super) moving: Option<i64>,
}

impl Mark {
    fn plain(ticks: u64) -> Self {
        Self { ticks, moving: None }
    }

    /// Whether it is of this state, and the original may still be there.
    fn is_doubtful(self, wanted: &Wanted) -> bool {
        self.ticks == wanted.ticks && self.moving.is_some()
    }
}

/// What is left beside an original that was deleted.
#[derive(Clone, Debug)]
pub(super) struct Note {
    /// The key of the copy.
    pub(super) to: EntityKey,
    /// The number of the copy.
    pub(super) number: i64,
}

/// Which state of an entity a job was sent for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) etag: ETag,
    pub(super) ticks: u64,
}

/// What a run is to do.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    /// Only this state.
    pub(super) wanted: Option<Wanted>,
    /// Whether the original is deleted.
    pub(super) deletes: bool,
    /// The key of the copy, if it is known without the original.
    pub(super) at: Option<EntityKey>,
}

/// What the protocol needs of the two tables: one request each. `None` and `false` are refusals: another version
/// is there, or none.
///
/// A test runs the protocol on rows in memory, with every order of the requests of several runs.
pub(super) trait Store: Send + Sync {
    type Entity: Clone + Send + Sync;

    fn original(&self) -> Reply<'_, Option<Original<Self::Entity>>>;

    fn copy<'a>(&'a self, at: &'a EntityKey) -> Reply<'a, Option<Found<Self::Entity>>>;

    /// Writes a copy where nothing is.
    fn insert<'a>(
        &'a self,
        at: &'a EntityKey,
        entity: &'a Self::Entity,
        mark: Mark,
    ) -> Reply<'a, Inserted>;

    /// Replaces what is there in this version.
    fn replace<'a>(
        &'a self,
        at: &'a EntityKey,
        entity: &'a Self::Entity,
        mark: Mark,
        version: &'a ETag,
    ) -> Reply<'a, Option<ETag>>;

    /// Removes a copy in this version.
    fn remove<'a>(&'a self, at: &'a EntityKey, version: &'a ETag) -> Reply<'a, bool>;

    /// Deletes the original in this version.
    fn delete<'a>(&'a self, version: &'a ETag) -> Reply<'a, Gone>;

    /// The same, and leaves a note where none is.
    fn commit<'a>(&'a self, version: &'a ETag, note: &'a Note) -> Reply<'a, Committed>;

    fn note(&self) -> Reply<'_, Option<(Note, ETag)>>;

    /// Deletes the note in this version.
    fn forget<'a>(&'a self, version: &'a ETag) -> Reply<'a, bool>;

    /// A number that no other copy has.
    fn number(&self) -> i64;
}

pub(super) type Reply<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// How an insert ended.
pub(super) enum Inserted {
    /// The version, and whether it is certain that it was this very insert.
    Now(ETag, bool),
    /// Something was there.
    Refused,
}

/// How a deletion of the original ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// By this run.
    Now,
    /// By somebody else.
    Before,
    /// It is there in another version.
    Changed,
}

/// How a commit ended.
pub(super) enum Committed {
    /// It is done. The version of the note, unless the answer was lost.
    Done(Option<ETag>),
    Refused,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Done,
    /// An earlier run has done it.
    WasDone,
    /// It is in neither table.
    Absent,
    /// It is not the state that is wanted.
    Changed,
    /// A row that is no copy of it has its place.
    Taken,
}

/// Moves or copies the original to where `shape` says, as `shape` makes it. May run any number of times, by anybody.
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

/// One round of a run; its steps return `None` if somebody came between.
struct Round<'a, S: Store> {
    store: &'a S,
    goal: &'a Goal,
    original: Original<S::Entity>,
    at: EntityKey,
    entity: S::Entity,
}

/// The copy, before the original is deleted.
enum Placed {
    /// As it is now. `inserted`: this run has inserted it.
    Copy { etag: ETag, moving: Option<i64>, inserted: bool },
    /// Somebody came between.
    Disturbed,
    /// A row that is no copy is there.
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

    /// Step 4: the copy.
    async fn place(&self) -> Result<Placed, Error> {
        let (store, at, mark) = (self.store, &self.at, self.mark());
        let copy = |etag, moving, inserted| Placed::Copy { etag, moving, inserted };
        if let Inserted::Now(etag, is_certain) = store.insert(at, &self.entity, mark).await? {
            return Ok(copy(etag, mark.moving, is_certain));
        }
        let Some(found) = store.copy(at).await? else { return Ok(Placed::Disturbed) };
        let Some(there) = found.mark else {
            // Or a copy that somebody wrote over when the move was over.
            let is_there = self.is_unchanged().await?;
            return Ok(if is_there { Placed::Taken } else { Placed::Disturbed });
        };
        if there.ticks == mark.ticks {
            // Another run's. Where no note decides, it is touched, so that the other run does not remove it.
            if !self.goal.deletes || there.moving.is_some() && mark.moving.is_some() {
                return Ok(copy(found.etag, there.moving, false));
            }
            let plain = Mark::plain(there.ticks);
            let touched = store.replace(at, &found.entity, plain, &found.etag).await?;
            return Ok(touched.map_or(Placed::Disturbed, |etag| copy(etag, None, false)));
        }
        // A run that was committed and has not ended, or a copy of another state.
        if there.moving.is_some() && settle_note(store).await? || !self.is_unchanged().await? {
            return Ok(Placed::Disturbed);
        }
        let replaced = store.replace(at, &self.entity, mark, &found.etag).await?;
        Ok(replaced.map_or(Placed::Disturbed, |etag| copy(etag, mark.moving, false)))
    }

    /// Whether the original is there as it was read.
    async fn is_unchanged(&self) -> Result<bool, Error> {
        let original = self.store.original().await?;
        Ok(original.is_some_and(|original| original.etag == self.original.etag))
    }

    /// Step 5 without a state that the sender saw.
    async fn delete(&self, copy: &ETag, inserted: bool) -> Result<Option<Moved>, Error> {
        match self.store.delete(&self.original.etag).await? {
            Gone::Now => return Ok(Some(Moved::Done)),
            // Moved by a run that has touched the copy, or deleted by somebody: then it must not come back.
            Gone::Before if inserted => {
                self.store.remove(&self.at, copy).await?;
            }
            Gone::Before | Gone::Changed => {}
        }
        Ok(None)
    }

    /// Step 5 with it, and the end of the mark.
    async fn commit(&self, copy: &ETag, moving: Option<i64>) -> Result<Option<Moved>, Error> {
        let (store, ticks) = (self.store, self.original.ticks);
        let number = moving.unwrap_or_else(|| store.number());
        let note = Note { to: self.at.clone(), number };
        match store.commit(&self.original.etag, &note).await? {
            Committed::Refused => {
                // It was changed, or the note of an earlier move is still there.
                settle_note(store).await?;
                return Ok(None);
            }
            Committed::Done(Some(version)) => {
                let plain = Mark::plain(ticks);
                let is_plain = moving.is_none()
                    || store.replace(&self.at, &self.entity, plain, copy).await?.is_some();
                match is_plain {
                    // Under its version: it may be the note of a later move.
                    true => drop(store.forget(&version).await?),
                    false => drop(settle_note(store).await?),
                }
            }
            Committed::Done(None) => drop(settle_note(store).await?),
        }
        Ok(Some(Moved::Done))
    }

    /// The original is not what the job was sent for. A copy of what it was sent for goes, unless that was moved and
    /// the original is another entity, made again under its key.
    async fn undo(&self, wanted: &Wanted) -> Result<Option<Moved>, Error> {
        let is_gone = self.goal.deletes && !clear(self.store, &self.at, wanted).await?;
        Ok((!is_gone).then_some(Moved::Changed))
    }
}

/// Removes a marked copy of a state that is past, or finishes the move that a note tells of. False if the copy has
/// changed meanwhile.
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

/// Step 3 finds nothing: it was moved, deleted, or never was.
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
        // The original was deleted, and not by a move.
        let is_removed = store.remove(at, &found.etag).await?;
        return Ok(is_removed.then_some(Moved::Absent));
    }
    Ok(Some(if found.is_some() { Moved::WasDone } else { Moved::Absent }))
}

/// Finishes the move whose note is there; whether there was one.
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
