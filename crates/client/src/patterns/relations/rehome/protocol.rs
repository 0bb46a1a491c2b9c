//! The protocol of a move to another partition (P-12.6).
//!
//! No transaction spans two partitions, and a row that can be read can be written. If an entity were readable in two
//! places for a while, it could be changed in both, and one change would be lost. So it is never readable in two:
//!
//! 1. **Stage.** A copy is written at the new key. It is marked, so that no reader mistakes it for an entity, and
//!    records the row and version it was made from. It reserves the key, and the values of unique indexes.
//! 2. **Commit.** In one transaction the original is deleted, if it still has that version, and a note is left in its
//!    partition that names the staged copy by its number.
//! 3. **Finish.** The staged copy becomes the entity.
//! 4. The note is deleted.
//!
//! Three rules let any client continue where another has stopped, was suspended, or crashed:
//!
//! * A staged copy is finished only if a note names it: from then on it is the entity, whatever happens.
//! * A staged copy is replaced or removed only if its original, read after it, no longer has the version that it was
//!   made from (versions never come back, so the copy can no longer be committed) and the note, read after it, does
//!   not name it.
//! * A note is deleted only if the row at the new key, read after it, is not the staged copy that it names.

use crate::BoxFuture;
use crate::entity::ETag;
use crate::error::{Error, ErrorKind};
use lazuli_model::EntityKey;

/// Rounds before a move gives up because others changed the entity each time.
pub(super) const ROUNDS: u32 = 16;

/// A row as it was read.
#[derive(Clone, Debug)]
pub(super) struct Found<E> {
    pub(super) key: EntityKey,
    pub(super) etag: ETag,
    pub(super) row: Row<E>,
}

impl<E> Found<E> {
    pub(super) fn is_entity(&self) -> bool {
        matches!(self.row, Row::Entity(_))
    }
}

/// The role of a row in a move.
#[derive(Clone, Debug)]
pub(super) enum Row<E> {
    /// An entity.
    Entity(E),
    /// A copy that may become an entity.
    Staged(E, Origin),
    /// Neither: for example an index copy.
    Foreign,
}

/// The origin of a staged copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) key: EntityKey,
    pub(super) version: ETag,
    /// The unique number of this copy.
    pub(super) number: i64,
}

/// The note that a commit leaves in the old partition.
#[derive(Clone, Debug)]
pub(super) struct Note {
    /// The new key.
    pub(super) to: EntityKey,
    /// The number of the staged copy.
    pub(super) number: i64,
}

/// The requests to a table that the protocol needs, one method each. `None` and `false` are refusals: the row has
/// another version, or does not exist.
///
/// A test runs the protocol on rows in memory, with every order of the requests of several clients.
pub(super) trait Store: Send + Sync {
    type Entity: Clone + Send + Sync;

    /// Reads a row.
    fn get<'a>(&'a self, key: &'a EntityKey) -> Reply<'a, Option<Found<Self::Entity>>>;

    /// Writes a staged copy if there is no row.
    fn stage<'a>(
        &'a self,
        at: &'a EntityKey,
        entity: &'a Self::Entity,
        origin: &'a Origin,
    ) -> Reply<'a, Option<ETag>>;

    /// Deletes the original, and leaves a note if there is none.
    fn commit<'a>(
        &'a self,
        original: &'a Found<Self::Entity>,
        note: &'a Note,
    ) -> Reply<'a, Committed>;

    /// Makes a staged copy the entity.
    fn finish<'a>(&'a self, staged: &'a Found<Self::Entity>) -> Reply<'a, bool>;

    /// Removes a staged copy.
    fn unstage<'a>(&'a self, staged: &'a Found<Self::Entity>) -> Reply<'a, bool>;

    /// The note that was left for an original, and its version.
    fn note<'a>(&'a self, original: &'a EntityKey) -> Reply<'a, Option<(Note, ETag)>>;

    /// Deletes a note.
    fn forget<'a>(&'a self, original: &'a EntityKey, version: &'a ETag) -> Reply<'a, bool>;

    /// A unique number for a staged copy.
    fn number(&self) -> i64;
}

pub(super) type Reply<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// The outcome of a commit.
pub(super) enum Committed {
    /// It succeeded. The version of the note, unless the answer was lost.
    Done(Option<ETag>),
    Refused,
}

/// The outcome of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// This run has moved it, or finished another run's move.
    Done,
    /// Nothing is at the old key, but an entity is at the new one.
    WasDone,
    /// It is in neither place.
    Absent,
    /// Another entity has the new key, or is being moved there.
    Taken,
}

/// Moves the entity at `from` to `to`, changed by `change`. It may run any number of times, in any process.
pub(super) async fn run<S: Store, X: From<Error>>(
    store: &S,
    from: &EntityKey,
    to: &EntityKey,
    change: impl Fn(&S::Entity) -> Result<S::Entity, X>,
) -> Result<Moved, X> {
    for _ in 0..ROUNDS {
        let Some(original) = store.get(from).await?.filter(Found::is_entity) else {
            match absent(store, from, to).await? {
                Some(outcome) => return Ok(outcome),
                None => continue,
            }
        };
        let Row::Entity(entity) = &original.row else { continue };
        let (version, number) = (original.etag.clone(), store.number());
        let origin = Origin { key: from.clone(), version, number };
        let staged = match place(store, to, change(entity)?, origin).await? {
            Placed::Staged(staged) => staged,
            Placed::Disturbed => continue,
            Placed::Taken => {
                // A run that crashed may have left the note of an earlier entity with this key.
                settle_note(store, from).await?;
                match store.get(from).await? {
                    // Another run has moved it in the meantime.
                    None => continue,
                    Some(_) => return Ok(Moved::Taken),
                }
            }
        };
        if commit(store, &original, &staged).await? {
            return Ok(Moved::Done);
        }
    }
    Err(Error::new(ErrorKind::Contended { attempts: ROUNDS }).into())
}

/// Steps 2 to 4; false if another client came in between.
async fn commit<S: Store>(
    store: &S,
    original: &Found<S::Entity>,
    staged: &Found<S::Entity>,
) -> Result<bool, Error> {
    let Row::Staged(_, Origin { number, .. }) = &staged.row else { return Ok(false) };
    let note = Note { to: staged.key.clone(), number: *number };
    match store.commit(original, &note).await? {
        Committed::Refused => {
            // It was changed, or the note of an earlier move still exists.
            settle_note(store, &original.key).await?;
            return Ok(false);
        }
        Committed::Done(Some(version)) if store.finish(staged).await? => {
            // Conditional: it may be the note of a later move.
            store.forget(&original.key, &version).await?;
        }
        Committed::Done(_) => {
            settle_note(store, &original.key).await?;
        }
    }
    Ok(true)
}

enum Placed<E> {
    Staged(Found<E>),
    /// Another client came in between.
    Disturbed,
    /// Another entity is there, or is being moved there.
    Taken,
}

/// Step 1.
async fn place<S: Store>(
    store: &S,
    to: &EntityKey,
    entity: S::Entity,
    origin: Origin,
) -> Result<Placed<S::Entity>, Error> {
    if let Some(etag) = store.stage(to, &entity, &origin).await? {
        let row = Row::Staged(entity, origin);
        return Ok(Placed::Staged(Found { key: to.clone(), etag, row }));
    }
    let Some(found) = store.get(to).await? else { return Ok(Placed::Disturbed) };
    let Row::Staged(_, other) = &found.row else { return Ok(Placed::Taken) };
    if other.key == origin.key && other.version == origin.version {
        // Another run has staged exactly the same copy.
        return Ok(Placed::Staged(found));
    }
    let is_of_another = other.key != origin.key;
    match settle_staged(store, &found).await? {
        Settled::Pending if is_of_another => Ok(Placed::Taken),
        Settled::Pending | Settled::Gone => Ok(Placed::Disturbed),
    }
}

/// Nothing is at the old key: it was moved, deleted, or never existed. Finishes what crashed runs have left; `None`
/// if another client came in between.
async fn absent<S: Store>(
    store: &S,
    from: &EntityKey,
    to: &EntityKey,
) -> Result<Option<Moved>, Error> {
    let has_finished = settle_note(store, from).await?;
    let Some(found) = store.get(to).await? else { return Ok(Some(Moved::Absent)) };
    match &found.row {
        Row::Entity(_) if has_finished => Ok(Some(Moved::Done)),
        Row::Entity(_) => Ok(Some(Moved::WasDone)),
        Row::Staged(_, origin) if origin.key == *from => {
            settle_staged(store, &found).await?;
            Ok(None)
        }
        Row::Staged(..) | Row::Foreign => Ok(Some(Moved::Absent)),
    }
}

enum Settled {
    /// Its original is unchanged: the move may continue.
    Pending,
    /// It has become the entity, or is gone; or another client came in between.
    Gone,
}

/// Finishes a staged copy, or removes it, if it is certain which.
async fn settle_staged<S: Store>(store: &S, staged: &Found<S::Entity>) -> Result<Settled, Error> {
    let Row::Staged(_, origin) = &staged.row else { return Ok(Settled::Gone) };
    let original = store.get(&origin.key).await?;
    if original.is_some_and(|original| original.etag == origin.version) {
        return Ok(Settled::Pending);
    }
    match store.note(&origin.key).await? {
        Some((note, _)) if note.number == origin.number => {
            settle_note(store, &origin.key).await?;
        }
        _ => {
            store.unstage(staged).await?;
        }
    }
    Ok(Settled::Gone)
}

/// Finishes the move of an existing note; returns whether there was one.
async fn settle_note<S: Store>(store: &S, original: &EntityKey) -> Result<bool, Error> {
    for _ in 0..ROUNDS {
        let Some((note, version)) = store.note(original).await? else { return Ok(false) };
        if let Some(found) = store.get(&note.to).await?
            && let Row::Staged(_, origin) = &found.row
            && origin.number == note.number
            && !store.finish(&found).await?
        {
            continue;
        }
        store.forget(original, &version).await?;
        return Ok(true);
    }
    Err(Error::new(ErrorKind::Contended { attempts: ROUNDS }))
}

/// Reads an entity that may be moving from one key to the other, and finishes such a move.
pub(super) async fn find<S: Store>(
    store: &S,
    from: &EntityKey,
    to: &EntityKey,
) -> Result<Option<Found<S::Entity>>, Error> {
    for _ in 0..ROUNDS {
        let mut staged = None;
        for key in [from, to] {
            match store.get(key).await? {
                Some(found @ Found { row: Row::Entity(_), .. }) => return Ok(Some(found)),
                Some(found @ Found { row: Row::Staged(..), .. }) => staged = Some(found),
                Some(_) | None => {}
            }
        }
        let Some(staged) = staged else { return Ok(None) };
        settle_staged(store, &staged).await?;
    }
    Err(Error::new(ErrorKind::Contended { attempts: ROUNDS }))
}
