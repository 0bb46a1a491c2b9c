//! The store on a table.

use super::protocol::{Committed, Found, Note, Origin, Reply, Row, Store};
use super::{Summaries, loaded};
use crate::batch::{self, Operation};
use crate::codec::{self, INDEX_MARK};
use crate::entity::{ETag, Entity, Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::index::{self, CopyRow, Indexing, MOVING, changes};
use crate::options::CallOptions;
use crate::patterns::property::{GENERATION, PRIMARY_PARTITION, PRIMARY_ROW, STATE};
use crate::table::{self, Table};
use crate::transaction::entity_of as entity_at;
use crate::value::{IntoValue, Value};
use crate::write::WriteVerb;
use crate::write_ids::{WRITE_IDS, WriteIds};
use lazuli_model::{EntityKey, Timestamp};

/// Marks a staged copy.
const STAGED_MARK: &str = "!rehome/moving";
/// Marks a note.
const NOTE_MARK: &str = "!rehome/moved";
/// The prefix of a note's row key, followed by the original's.
const NOTE_PREFIX: &str = "!moved_";
/// The version that a staged copy was made from.
const VERSION: &str = "_seen";

/// A table whose entities move.
pub(super) struct ServiceStore<'s, T> {
    pub(super) table: Table<T>,
    pub(super) summaries: Option<&'s dyn Summaries<T>>,
}

/// The written form of an entity.
struct Shape {
    key: EntityKey,
    properties: Properties,
    copies: Vec<CopyRow>,
}

impl Shape {
    fn of<T: TableEntity>(entity: &Entity) -> Result<Self, Error> {
        let value = value_of::<T>(entity)?;
        let (key, properties) = codec::encode(&value)?;
        let copies = index::in_partition(&value, &key, &properties)?;
        Ok(Self { key, properties, copies })
    }

    /// The form of a staged copy: readers do not mistake it, or its copies, for an entity (P-0.3).
    fn staged<T: TableEntity>(mut self, origin: &Origin) -> Self {
        if let Some(kind) = T::KIND {
            self.properties.remove(kind.property);
        }
        let own = [
            (INDEX_MARK, STAGED_MARK.into_value()),
            (STATE, MOVING.into_value()),
            (PRIMARY_PARTITION, origin.key.partition.as_str().into_value()),
            (PRIMARY_ROW, origin.key.row.as_str().into_value()),
            (VERSION, origin.version.as_str().into_value()),
            (GENERATION, origin.number.into_value()),
        ];
        for (name, value) in own {
            self.properties.push(name, value);
        }
        for copy in &mut self.copies {
            copy.properties.push(STATE, MOVING.into_value());
        }
        self
    }
}

/// Decodes the value of an entity.
pub(super) fn value_of<T: TableEntity>(entity: &Entity) -> Result<T, Error> {
    let decoded = codec::decode::<T>(entity.clone())?;
    let stranger = || Error::protocol("the copy of an index is no entity");
    decoded.map(|decoded| decoded.value).ok_or_else(stranger)
}

/// The same value as an untyped entity.
pub(super) fn entity_of<T: TableEntity>(value: &T) -> Result<Entity, Error> {
    let (key, properties) = codec::encode(value)?;
    Ok(entity_at(&key, &properties))
}

/// The role of a row in a move.
fn row_of(key: &EntityKey, entity: Entity) -> Row<Entity> {
    match entity.value(INDEX_MARK) {
        None => return Row::Entity(entity),
        Some(Value::String(mark)) if mark == STAGED_MARK => {}
        Some(_) => return Row::Foreign,
    }
    let origin = || {
        let original = named(&entity)?;
        let version = ETag::new(entity.str(VERSION).ok()?);
        Some(Origin { key: original, version, number: entity.get(GENERATION).ok()? })
    };
    let Some(origin) = origin() else { return Row::Foreign };
    let (partition, row) = (key.partition.as_str().to_owned(), key.row.as_str().to_owned());
    let own = [INDEX_MARK, STATE, PRIMARY_PARTITION, PRIMARY_ROW, VERSION, GENERATION, WRITE_IDS];
    Row::Staged(entity.moved(partition, row, &own), origin)
}

/// The key stored in a row.
fn named(row: &Entity) -> Option<EntityKey> {
    let (partition, row) = (row.str(PRIMARY_PARTITION).ok()?, row.str(PRIMARY_ROW).ok()?);
    EntityKey::parse(partition, row).ok()
}

fn note_properties(note: &Note) -> Properties {
    let mut left = Properties::default();
    left.push(INDEX_MARK, NOTE_MARK.into_value());
    left.push(PRIMARY_PARTITION, note.to.partition.as_str().into_value());
    left.push(PRIMARY_ROW, note.to.row.as_str().into_value());
    left.push(GENERATION, note.number.into_value());
    left
}

fn note_key(original: &EntityKey) -> Result<EntityKey, Error> {
    let row = format!("{NOTE_PREFIX}{}", original.row.as_str());
    Ok(EntityKey::parse(original.partition.as_str(), &row)?)
}

/// Whether a write was certainly refused; other errors are returned.
fn refused(error: Error) -> Result<(), Error> {
    let is_gone = error.is_not_found() && *error.kind() != ErrorKind::TableNotFound;
    let is_refused = is_gone || error.is_conflict() || error.is_precondition_failed();
    if is_refused && !error.may_have_been_applied() { Ok(()) } else { Err(error) }
}

impl<T: TableEntity> ServiceStore<'_, T> {
    /// A row as it is stored, but decrypted.
    async fn read(&self, key: &EntityKey) -> Result<Option<(Entity, ETag)>, Error> {
        let (account, name) = (&self.table.account, &self.table.name);
        let options = CallOptions::default();
        let Some(answer) = table::read_point(account, name, key, String::new(), options).await?
        else {
            return Ok(None);
        };
        let opened = account.1.open(answer.raw()?, &account.0.env, T::PROPERTIES, &[]).await?;
        let etag = opened.etag().clone();
        Ok(Some((opened.into_inner(), etag)))
    }

    /// Sends a write with its copies; the version of the entity, or `None` if it was refused.
    async fn send(&self, write: Operation, copies: Vec<Operation>) -> Result<Option<ETag>, Error> {
        let (account, name) = (&self.table.account, &self.table.name);
        let options = CallOptions::default();
        match index::send(account, name, write, Indexing::Known(copies), options).await {
            Ok(committed) => {
                let etag = committed.and_then(|committed| committed.etag(0).cloned());
                // A deletion has no version.
                Ok(Some(etag.unwrap_or_else(ETag::any)))
            }
            Err(error) => refused(error).map(|()| None),
        }
    }
}

impl<T: TableEntity> Store for ServiceStore<'_, T> {
    type Entity = Entity;

    fn get<'a>(&'a self, key: &'a EntityKey) -> Reply<'a, Option<Found<Entity>>> {
        Box::pin(async move {
            let found = self.read(key).await?;
            Ok(found.map(|(entity, etag)| Found {
                key: key.clone(),
                etag,
                row: row_of(key, entity),
            }))
        })
    }

    fn stage<'a>(
        &'a self,
        at: &'a EntityKey,
        entity: &'a Entity,
        origin: &'a Origin,
    ) -> Reply<'a, Option<ETag>> {
        Box::pin(async move {
            let shape = Shape::of::<T>(entity)?.staged::<T>(origin);
            let encoded = Ok((at.clone(), shape.properties));
            let write = Operation::write(WriteVerb::Insert, encoded, None)?;
            self.send(write, changes(&[], &shape.copies)).await
        })
    }

    fn commit<'a>(&'a self, original: &'a Found<Entity>, note: &'a Note) -> Reply<'a, Committed> {
        Box::pin(async move {
            let Row::Entity(entity) = &original.row else { return Ok(Committed::Refused) };
            if let Some(summaries) = self.summaries {
                let Some(loaded) = loaded(original.clone())? else {
                    return Ok(Committed::Refused);
                };
                let left = entity_at(&note_key(&original.key)?, &note_properties(note));
                // The version of the note is not known.
                return match summaries.leave(&loaded, &left).await {
                    Ok(()) => Ok(Committed::Done(None)),
                    Err(error) => refused(error).map(|()| Committed::Refused),
                };
            }
            let shape = Shape::of::<T>(entity)?;
            let remove = Operation::remove(original.key.clone(), original.etag.as_str())
                .with_copies(changes(&shape.copies, &[]));
            let mut left = note_properties(note);
            // It says nothing of the entity.
            left.mark_sealed();
            let encoded = Ok((note_key(&original.key)?, left));
            let leave = Operation::write(WriteVerb::Insert, encoded, None)?;
            let (account, name) = (&self.table.account, &self.table.name);
            let own = account.0.env.guid();
            let options = CallOptions::default();
            let sent = batch::send_with_id(account, name, vec![remove, leave], own, options).await;
            match sent.map_err(index::as_lone) {
                Ok(committed) => Ok(Committed::Done(committed.etag(1).cloned())),
                Err(error) => refused(error).map(|()| Committed::Refused),
            }
        })
    }

    fn finish<'a>(&'a self, staged: &'a Found<Entity>) -> Reply<'a, bool> {
        Box::pin(async move {
            let Row::Staged(entity, origin) = &staged.row else { return Ok(false) };
            let Shape { key, properties, copies } = Shape::of::<T>(entity)?;
            let before = Shape::of::<T>(entity)?.staged::<T>(origin);
            if let Some(summaries) = self.summaries {
                let (etag, time, ids) = (staged.etag.clone(), Timestamp::MIN, WriteIds::default());
                let value = value_of::<T>(entity)?;
                let staged = Loaded::unwritten(value, key, etag, time, ids);
                let joined = summaries.join(&staged.with_copies(&before.copies)).await;
                return joined.map(|()| true).or_else(|error| refused(error).map(|()| false));
            }
            let etag = Some(staged.etag.as_str());
            let write = Operation::write(WriteVerb::Replace, Ok((key, properties)), etag)?;
            Ok(self.send(write, changes(&before.copies, &copies)).await?.is_some())
        })
    }

    fn unstage<'a>(&'a self, staged: &'a Found<Entity>) -> Reply<'a, bool> {
        Box::pin(async move {
            let Row::Staged(entity, _) = &staged.row else { return Ok(false) };
            let shape = Shape::of::<T>(entity)?;
            let remove = Operation::remove(staged.key.clone(), staged.etag.as_str());
            Ok(self.send(remove, changes(&shape.copies, &[])).await?.is_some())
        })
    }

    fn note<'a>(&'a self, original: &'a EntityKey) -> Reply<'a, Option<(Note, ETag)>> {
        Box::pin(async move {
            let Some((row, etag)) = self.read(&note_key(original)?).await? else { return Ok(None) };
            let is_note = row.str(INDEX_MARK) == Ok(NOTE_MARK);
            let (Some(to), Ok(number), true) = (named(&row), row.get(GENERATION), is_note) else {
                return Err(Error::protocol("the row of a move holds something else"));
            };
            Ok(Some((Note { to, number }, etag)))
        })
    }

    fn forget<'a>(&'a self, original: &'a EntityKey, version: &'a ETag) -> Reply<'a, bool> {
        Box::pin(async move {
            let remove = Operation::remove(note_key(original)?, version.as_str());
            Ok(self.send(remove, Vec::new()).await?.is_some())
        })
    }

    fn number(&self) -> i64 {
        i64::try_from(self.table.account.0.env.below(i64::MAX as u64)).unwrap_or_default()
    }
}
