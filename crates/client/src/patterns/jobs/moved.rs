//! Moving an entity from one table to another (P-3.6, P-3.7).

use super::JobError;
use crate::BoxFuture;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::index::MOVING;
use crate::key::{IntoKey, Key, KeyError};
use crate::patterns::property::{SOURCE, STATE};
use crate::table::Table;
use crate::write_ids::WRITE_IDS;
use lazuli_model::EntityKey;
use serde::{Deserialize, Serialize};
use std::future::IntoFuture;

/// Rounds before a step gives up: others changed the entity each time.
const ROUNDS: u32 = 16;
/// Which state of an entity a job was sent for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    etag: String,
    /// Ticks of the Timestamp.
    ticks: u64,
}

impl<T> Loaded<T> {
    /// The state that was read, for a job about it.
    pub fn seen(&self) -> Seen {
        Seen { etag: self.etag().as_str().to_owned(), ticks: self.timestamp().ticks() }
    }
}

/// What a move found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// It is moved, or copied.
    Done,
    /// An earlier run moved it.
    WasDone,
    /// It is in neither table.
    Absent,
    /// It is not the state that the job was sent for: it stays.
    Changed,
}

type Rekey = Box<dyn Fn(&mut Entity) -> Result<EntityKey, KeyError> + Send + Sync>;

/// The move of an entity.
#[must_use = "nothing is sent before `.await`"]
pub struct MoveEntity {
    from: Table<Entity>,
    key: Result<EntityKey, KeyError>,
    to: Table<Entity>,
    deletes: bool,
    seen: Option<Seen>,
    must_exist: bool,
    rekey: Option<Rekey>,
}

impl MoveEntity {
    pub(super) fn new(
        from: Table<Entity>,
        key: Result<EntityKey, KeyError>,
        to: Table<Entity>,
        deletes: bool,
    ) -> Self {
        Self { from, key, to, deletes, seen: None, must_exist: false, rekey: None }
    }

    /// Only the state that the sender saw: a message that comes late must not move an entity that was
    /// made again under the same key. Costs one more write.
    pub fn if_match(self, seen: &Option<Seen>) -> Self {
        Self { seen: seen.clone(), ..self }
    }

    /// An entity in neither table is [`JobError::Never`].
    pub fn must_exist(self) -> Self {
        Self { must_exist: true, ..self }
    }

    /// The entity gets another key: `rekey` returns it, and may change properties that depend on it. It must
    /// give the same for the same entity, and the key must not depend on what others change.
    pub fn to_key(
        self,
        rekey: impl Fn(&mut Entity) -> Result<EntityKey, KeyError> + Send + Sync + 'static,
    ) -> Self {
        Self { rekey: Some(Box::new(rekey)), ..self }
    }

    async fn run(self) -> Result<MoveOutcome, JobError> {
        let key = self.key.as_ref().map_err(|error| JobError::never(error.to_string()))?;
        for _ in 0..ROUNDS {
            match self.round(key).await {
                Ok(Some(outcome)) => return Ok(outcome),
                // Somebody came between.
                Ok(None) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended { attempts: ROUNDS }).into())
    }

    /// Steps 3 to 5; `None` if somebody came between.
    async fn round(&self, key: &EntityKey) -> Result<Option<MoveOutcome>, JobError> {
        let Some(source) = self.from.get(key.clone()).await? else {
            return self.absent(key).await.map(Some);
        };
        if let Some(seen) = &self.seen
            && seen.etag != source.etag().as_str()
        {
            self.undo(&self.copy_of(&source)?.1, seen).await?;
            return Ok(Some(MoveOutcome::Changed));
        }
        let (copy, copy_key) = self.copy_of(&source)?;
        if !self.write_copy(&copy, &copy_key, source.timestamp().ticks()).await? {
            return Ok(None);
        }
        if self.deletes {
            match self.from.delete(&source).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) if error.is_precondition_failed() => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            self.finish(&copy_key).await?;
        }
        Ok(Some(MoveOutcome::Done))
    }

    /// Step 4: the copy, unless a later state is there. False if somebody came between.
    async fn write_copy(
        &self,
        copy: &Entity,
        key: &EntityKey,
        source: u64,
    ) -> Result<bool, JobError> {
        match self.to.insert(copy).await {
            Ok(_) => return Ok(true),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        let Some(found) = self.to.get(key.clone()).await? else { return Ok(false) };
        if source_of(&found) >= source {
            return Ok(true);
        }
        let newer = found.map(|_| copy.clone());
        match self.to.replace(&newer).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The original is gone: the copy is no longer in doubt.
    async fn finish(&self, copy: &EntityKey) -> Result<(), JobError> {
        if self.seen.is_none() {
            return Ok(());
        }
        let Some(mut found) = self.to.get(copy.clone()).await? else { return Ok(()) };
        if found.remove(STATE).is_none() {
            return Ok(());
        }
        match self.to.replace(&found).await {
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }

    /// The original is not what the job was sent for. A copy of what it was sent for, still in doubt, is
    /// what a run left that died before it could delete the original: it goes (P-3.6).
    async fn undo(&self, copy: &EntityKey, seen: &Seen) -> Result<(), JobError> {
        let Some(found) = self.to.get(copy.clone()).await? else { return Ok(()) };
        let is_ours = source_of(&found) == seen.ticks && found.str(STATE) == Ok(MOVING);
        if !is_ours {
            return Ok(());
        }
        match self.to.delete(&found).await {
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    async fn absent(&self, key: &EntityKey) -> Result<MoveOutcome, JobError> {
        // Without the entity its new key is known only if it is the old one.
        let copy = if self.rekey.is_none() { Some(key) } else { None };
        if let Some(copy) = copy
            && self.to.get(copy.clone()).await?.is_some()
        {
            self.finish(copy).await?;
            return Ok(MoveOutcome::WasDone);
        }
        if self.must_exist {
            let (partition, row) = (key.partition.as_str(), key.row.as_str());
            return Err(JobError::never(format!("({partition}, {row}) is in neither table")));
        }
        tracing::info!(
            from = self.from.name(),
            to = self.to.name(),
            "an entity to move is not there: it was moved, or never was"
        );
        Ok(MoveOutcome::Absent)
    }

    /// The entity as it is written to the other table, and its key there.
    fn copy_of(&self, source: &Loaded<Entity>) -> Result<(Entity, EntityKey), JobError> {
        let mut changed: Entity = (**source).clone();
        let never = |error: KeyError| JobError::never(error.to_string());
        let key = match &self.rekey {
            Some(rekey) => rekey(&mut changed).map_err(never)?,
            None => source.loaded_key().clone(),
        };
        let mut copy = Entity::new(key.partition.as_str(), key.row.as_str());
        for (name, value) in changed.properties().filter(|(name, _)| !is_own(name)) {
            copy.set(name.to_owned(), value.clone());
        }
        copy.set(SOURCE, i64::try_from(source.timestamp().ticks()).unwrap_or(i64::MAX));
        if self.seen.is_some() && self.deletes {
            copy.set(STATE, MOVING);
        }
        Ok((copy, key))
    }
}

impl IntoFuture for MoveEntity {
    type Output = Result<MoveOutcome, JobError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Properties that belong to a row and not to what it says.
fn is_own(name: &str) -> bool {
    [SOURCE, STATE, WRITE_IDS].contains(&name)
}

/// The ticks that a copy was made from; zero for a row that is no copy.
fn source_of(copy: &Entity) -> u64 {
    copy.get::<i64>(SOURCE).ok().and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(0)
}

/// Reads an entity that a job may be moving: from `current`, else from `archive`. In this order it is
/// never in neither (P-3.6a).
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
