//! The store on two tables, or one.

use super::protocol::{Committed, Found, Gone, Inserted, Mark, Note, Original, Reply, Store};
use crate::batch::{self, Operation};
use crate::codec::INDEX_MARK;
use crate::entity::{ETag, Entity, Loaded, Properties};
use crate::error::{Error, ErrorKind};
use crate::index::{self, MOVING};
use crate::options::CallOptions;
use crate::patterns::property::{GENERATION, PRIMARY_PARTITION, PRIMARY_ROW, SOURCE, STATE};
use crate::table::Table;
use crate::value::IntoValue;
use crate::write::{Deleted, Proof, WriteVerb};
use crate::write_ids::WRITE_IDS;
use lazuli_model::EntityKey;

/// Marks a note.
const NOTE_MARK: &str = "!move/done";
/// The prefix of a note's row key, followed by the original's.
const NOTE_PREFIX: &str = "!gone_";

/// The tables of a move.
pub(super) struct Tables {
    pub(super) from: Table<Entity>,
    pub(super) key: EntityKey,
    pub(super) to: Table<Entity>,
    /// Whether the copy has another key: then it names its original, because others may want the same place.
    pub(super) is_rekeyed: bool,
}

/// Properties that belong to the row rather than to the entity.
fn is_own(name: &str) -> bool {
    [SOURCE, STATE, GENERATION, PRIMARY_PARTITION, PRIMARY_ROW, WRITE_IDS].contains(&name)
}

/// A failed condition is an answer; other errors are returned.
fn refused(error: Error) -> Result<(), Error> {
    let is_refused = error.is_conflict()
        || error.is_precondition_failed()
        || *error.kind() == ErrorKind::NotFound;
    if is_refused && !error.may_have_been_applied() { Ok(()) } else { Err(error) }
}

impl Tables {
    fn note_key(&self) -> Result<EntityKey, Error> {
        let row = format!("{NOTE_PREFIX}{}", self.key.row.as_str());
        Ok(EntityKey::parse(self.key.partition.as_str(), &row)?)
    }

    /// The copy with its mark.
    fn marked(&self, at: &EntityKey, entity: &Entity, mark: Mark) -> Entity {
        let mut copy = Entity::new(at.partition.as_str(), at.row.as_str());
        for (name, value) in entity.properties().filter(|(name, _)| !is_own(name)) {
            copy.set(name.to_owned(), value.clone());
        }
        copy.set(SOURCE, i64::try_from(mark.ticks).unwrap_or(i64::MAX));
        if let Some(number) = mark.moving {
            copy.set(STATE, MOVING);
            copy.set(GENERATION, number);
        }
        if self.is_rekeyed {
            copy.set(PRIMARY_PARTITION, self.key.partition.as_str());
            copy.set(PRIMARY_ROW, self.key.row.as_str());
        }
        copy
    }

    /// The mark of a row; `None` if it is not a copy of this original.
    fn mark_of(&self, row: &Entity) -> Option<Mark> {
        let ticks = row.get::<i64>(SOURCE).ok()?;
        let is_of = |name, part: &str| row.str(name).map_or(true, |named| named == part);
        let is_ours = is_of(PRIMARY_PARTITION, self.key.partition.as_str())
            && is_of(PRIMARY_ROW, self.key.row.as_str())
            && row.value(INDEX_MARK).is_none();
        // A copy without a number was written by a version of this library that left no notes.
        let number = || row.get(GENERATION).unwrap_or(0);
        let moving = (row.str(STATE) == Ok(MOVING)).then(number);
        is_ours.then_some(Mark { ticks: u64::try_from(ticks).ok()?, moving })
    }
}

impl Store for Tables {
    type Entity = Entity;

    fn original(&self) -> Reply<'_, Option<Original<Entity>>> {
        Box::pin(async move {
            let found = self.from.get(self.key.clone()).await?;
            Ok(found.map(|found| Original {
                etag: found.etag().clone(),
                ticks: found.timestamp().ticks(),
                entity: found.into_inner(),
            }))
        })
    }

    fn copy<'a>(&'a self, at: &'a EntityKey) -> Reply<'a, Option<Found<Entity>>> {
        Box::pin(async move {
            let found = self.to.get(at.clone()).await?;
            Ok(found.map(|found| {
                let (etag, mark) = (found.etag().clone(), self.mark_of(&found));
                Found { entity: found.into_inner(), etag, mark }
            }))
        })
    }

    fn insert<'a>(
        &'a self,
        at: &'a EntityKey,
        entity: &'a Entity,
        mark: Mark,
    ) -> Reply<'a, Inserted> {
        Box::pin(async move {
            match self.to.insert(&self.marked(at, entity, mark)).await {
                Ok(written) => {
                    let is_certain = written.proof == Proof::Answered;
                    Ok(Inserted::Now(written.etag, is_certain))
                }
                // Regardless of who wrote it, the caller reads the row.
                Err(error) if error.is_conflict() => Ok(Inserted::Refused),
                Err(error) => Err(error),
            }
        })
    }

    fn replace<'a>(
        &'a self,
        at: &'a EntityKey,
        entity: &'a Entity,
        mark: Mark,
        version: &'a ETag,
    ) -> Reply<'a, Option<ETag>> {
        Box::pin(async move {
            let copy = self.marked(at, entity, mark);
            match self.to.replace_if_match(&copy, version).await {
                Ok(written) => Ok(Some(written.etag)),
                Err(error) => refused(error).map(|()| None),
            }
        })
    }

    fn remove<'a>(&'a self, at: &'a EntityKey, version: &'a ETag) -> Reply<'a, bool> {
        Box::pin(async move {
            match self.to.delete_if_match(at.clone(), version).await {
                Ok(deleted) => Ok(matches!(deleted, Deleted::Now(_))),
                Err(error) => refused(error).map(|()| false),
            }
        })
    }

    fn delete<'a>(&'a self, version: &'a ETag) -> Reply<'a, Gone> {
        Box::pin(async move {
            match self.from.delete_if_match(self.key.clone(), version).await {
                // After a lost answer it may have been deleted by us or by others. The copy stays.
                Ok(_) => Ok(Gone::Now),
                Err(error) if *error.kind() == ErrorKind::NotFound => Ok(Gone::Before),
                Err(error) if error.is_precondition_failed() => Ok(Gone::Changed),
                Err(error) => Err(error),
            }
        })
    }

    fn commit<'a>(&'a self, version: &'a ETag, note: &'a Note) -> Reply<'a, Committed> {
        Box::pin(async move {
            let remove = Operation::remove(self.key.clone(), version.as_str());
            let mut left = Properties::default();
            left.push(INDEX_MARK, NOTE_MARK.into_value());
            left.push(PRIMARY_PARTITION, note.to.partition.as_str().into_value());
            left.push(PRIMARY_ROW, note.to.row.as_str().into_value());
            left.push(GENERATION, note.number.into_value());
            // It contains nothing of the entity.
            left.mark_sealed();
            let leave = Operation::write(WriteVerb::Insert, Ok((self.note_key()?, left)), None)?;
            let (account, name) = (&self.from.account, &self.from.name);
            let (own, options) = (account.0.env.guid(), CallOptions::default());
            let sent = batch::send_with_id(account, name, vec![remove, leave], own, options).await;
            match sent.map_err(index::as_lone) {
                Ok(committed) => Ok(Committed::Done(committed.etag(1).cloned())),
                Err(error) => refused(error).map(|()| Committed::Refused),
            }
        })
    }

    fn note(&self) -> Reply<'_, Option<(Note, ETag)>> {
        Box::pin(async move {
            let (account, key) = (self.from.account.unprotected(), self.note_key()?);
            let (name, options) = (&self.from.name, CallOptions::default());
            let found: Option<Loaded<Entity>> =
                crate::table::get(&account, name, &key, options).await?;
            let Some(row) = found else { return Ok(None) };
            let note = || {
                let (partition, key) = (row.str(PRIMARY_PARTITION), row.str(PRIMARY_ROW));
                let to = EntityKey::parse(partition.ok()?, key.ok()?).ok()?;
                let number = row.get(GENERATION).ok()?;
                (row.str(INDEX_MARK) == Ok(NOTE_MARK)).then_some(Note { to, number })
            };
            let note = note();
            let note =
                note.ok_or_else(|| Error::protocol("the row of a move holds something else"))?;
            Ok(Some((note, row.etag().clone())))
        })
    }

    fn forget<'a>(&'a self, version: &'a ETag) -> Reply<'a, bool> {
        Box::pin(async move {
            match self.from.delete_if_match(self.note_key()?, version).await {
                Ok(deleted) => Ok(matches!(deleted, Deleted::Now(_))),
                Err(error) => refused(error).map(|()| false),
            }
        })
    }

    fn number(&self) -> i64 {
        i64::try_from(self.from.account.0.env.below(i64::MAX as u64)).unwrap_or_default()
    }
}
