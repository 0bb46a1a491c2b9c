//! Moves an entity from one table to another (P-3.6, P-3.7).

#[cfg(test)]
mod model;
mod protocol;
mod service;

use super::JobError;
use crate::BoxFuture;
use crate::encryption::METADATA;
use crate::entity::{ETag, Entity, Loaded, TableEntity};
use crate::error::Error;
use crate::key::{IntoKey, Key, KeyError};
use crate::large::has_large;
use crate::property::PropertyDef;
use crate::shape::{is_indexed, is_listed};
use crate::table::Table;
use lazuli_model::EntityKey;
use protocol::{Goal, Moved, Original, Wanted};
use serde::{Deserialize, Serialize};
use service::Tables;
use std::future::IntoFuture;

/// The state of an entity for which a job was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    etag: String,
    /// Ticks of the Timestamp.
    ticks: u64,
}

impl<T> Loaded<T> {
    /// The state that was read, to be sent with a job about it.
    pub fn seen(&self) -> Seen {
        Seen { etag: self.etag().as_str().to_owned(), ticks: self.timestamp().ticks() }
    }
}

/// The outcome of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The entity was moved, or copied.
    Done,
    /// An earlier run had moved it.
    WasDone,
    /// It is in neither table.
    Absent,
    /// It does not have the state that the job was sent for, and is not moved.
    Changed,
}

type Rekey = Box<dyn Fn(&mut Entity) -> Result<EntityKey, KeyError> + Send + Sync>;

/// A move of an entity.
#[must_use = "nothing is sent before `.await`"]
pub struct MoveEntity {
    from: Table<Entity>,
    key: Result<EntityKey, KeyError>,
    to: Table<Entity>,
    deletes: bool,
    seen: Option<Seen>,
    must_exist: bool,
    rekey: Option<Rekey>,
    fault: Option<Error>,
}

impl MoveEntity {
    pub(super) fn new<T: TableEntity, U: TableEntity>(
        from: &Table<T>,
        key: Result<EntityKey, KeyError>,
        to: &Table<U>,
        deletes: bool,
    ) -> Self {
        // A plain handle also copies an encrypted type, which must not be decrypted on the way.
        let of_copy = if U::IS_DYNAMIC { T::PROPERTIES } else { U::PROPERTIES };
        let fault = whole::<T>().and(whole::<U>()).err();
        let tables = plain(from, T::PROPERTIES).and_then(|from| Ok((from, plain(to, of_copy)?)));
        let (tables, crypto) = match tables {
            Ok(tables) => (tables, None),
            Err(error) => ((from.retyped(), to.retyped()), Some(error)),
        };
        let (from, to) = tables;
        let is_opened = from.account.1.is_some() && !to.account.1.is_some();
        let opened = || Error::from(crate::encryption::CryptoError::NoKey);
        let fault = fault.or(crypto).or_else(|| is_opened.then(opened));
        Self { from, key, to, deletes, seen: None, must_exist: false, rekey: None, fault }
    }

    /// Moves only the state that the sender saw: a late message must not move an entity that was created again
    /// under the same key. Costs two more writes.
    pub fn if_match(self, seen: &Option<Seen>) -> Self {
        Self { seen: seen.clone(), ..self }
    }

    /// Fails with [`JobError::Never`] if the entity is in neither table.
    pub fn must_exist(self) -> Self {
        Self { must_exist: true, ..self }
    }

    /// Gives the entity another key: `rekey` returns it, and may change properties that depend on it. It must be
    /// deterministic, and the key must not depend on properties that others change.
    pub fn to_key(
        self,
        rekey: impl Fn(&mut Entity) -> Result<EntityKey, KeyError> + Send + Sync + 'static,
    ) -> Self {
        Self { rekey: Some(Box::new(rekey)), ..self }
    }

    async fn run(self) -> Result<MoveOutcome, JobError> {
        let Self { from, key, to, deletes, seen, must_exist, rekey, fault } = self;
        if let Some(error) = fault {
            return Err(JobError::never(format!("{error:#}")));
        }
        let never = |error: &KeyError| JobError::never(error.to_string());
        let key = key.map_err(|error| never(&error))?;
        let wanted = seen.map(|seen| Wanted { etag: ETag::new(seen.etag), ticks: seen.ticks });
        let at = rekey.is_none().then(|| key.clone());
        let goal = Goal { wanted, deletes, at };
        let tables = Tables { from, key, to, is_rekeyed: rekey.is_some() };
        let shape = |original: &Original<Entity>| {
            let mut changed = original.entity.clone();
            let Some(rekey) = &rekey else { return Ok((tables.key.clone(), changed)) };
            let at = rekey(&mut changed).map_err(|error| never(&error))?;
            if at != tables.key && changed.value(METADATA).is_some() {
                // Ciphertext can only be decrypted under its own key (E-10, E-42).
                return Err(JobError::never("the entity is encrypted, and its key changes"));
            }
            Ok((at, changed))
        };
        match protocol::run(&tables, &goal, shape).await? {
            Moved::Done => Ok(MoveOutcome::Done),
            Moved::WasDone => Ok(MoveOutcome::WasDone),
            Moved::Changed => Ok(MoveOutcome::Changed),
            Moved::Taken => {
                let reason = format!("the place in {} has a row that is no copy", tables.to.name());
                Err(JobError::never(reason))
            }
            Moved::Absent if must_exist => {
                let (partition, row) = (&tables.key.partition, &tables.key.row);
                Err(JobError::never(format!("({partition}, {row}) is in neither table")))
            }
            Moved::Absent => {
                tracing::info!(
                    from = tables.from.name(),
                    to = tables.to.name(),
                    "an entity to move is not there: it was moved, or never was"
                );
                Ok(MoveOutcome::Absent)
            }
        }
    }
}

/// Fails for types with more than one row per entity: the other rows would be left behind.
fn whole<T: TableEntity>() -> Result<(), Error> {
    let what = match () {
        () if T::IS_MODEL => "counts: see `ModelTable::rehome`",
        () if is_indexed::<T>() => "indexes: see `relations::rehome`",
        () if is_listed::<T>() => "lists",
        () if T::PARTS > 0 => "parts",
        () if has_large(T::PROPERTIES) => "values in blobs",
        () => return Ok(()),
    };
    Err(Error::config(format!("a job moves single rows, and the type has {what}")))
}

/// The rows of a type as plain entities, encrypted as the type declares (E-22).
fn plain<T: TableEntity>(
    table: &Table<T>,
    declared: &'static [PropertyDef],
) -> Result<Table<Entity>, Error> {
    let mut rows: Table<Entity> = table.retyped();
    rows.account.1 = table.account.1.declaring(declared)?;
    Ok(rows)
}

impl IntoFuture for MoveEntity {
    type Output = Result<MoveOutcome, JobError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Reads an entity that a job may be moving: from `current`, else from `archive`. In this order it is
/// always found in one of them (P-3.6a).
pub async fn get_moved<T: TableEntity>(
    current: &Table<T>,
    archive: &Table<T>,
    key: impl IntoKey,
) -> Result<Option<Loaded<T>>, Error> {
    let key = Key::<T>::new(key.into_key()?);
    match current.get(key.clone()).await? {
        Some(found) => Ok(Some(found)),
        None => archive.get(key).await,
    }
}
