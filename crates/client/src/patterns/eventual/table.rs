//! A table whose type has indexes in other partitions.

use super::note::Note;
use super::protocol::{Acknowledged, Change, Copy, Protocol, Settled, is_reserved, primary_of};
use super::service::ServiceStore;
use super::store::{Place, Store};
use crate::codec::{self, INDEX_MARK};
use crate::entity::{ETag, Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::index::{self, Index, IndexKey, Indexed};
use crate::key::Key;
use crate::patterns::notes;
use crate::queue::Queue;
use crate::shape::indexes_of;
use crate::table::Table;
use crate::write::WriteVerb;
use crate::{Account, EntityKey};
use std::time::Duration;

/// How indexes in other partitions are maintained (P-2).
#[derive(Clone, Debug)]
pub struct Eventual {
    pub(super) account: Account,
    queue: Option<Queue>,
    grace: Duration,
    pub(super) claim_age: Duration,
    is_deferred: bool,
    /// Whether an entity and its copies are written in one commit.
    is_atomic: bool,
}

impl Account {
    /// Maintains indexes in other partitions, with notes in a queue. The queue must exist, and an
    /// [`EventualTable::worker`] must read it.
    pub fn eventual(&self, queue: &str) -> Result<Eventual, Error> {
        let queue = self.queues().queue(queue)?;
        Ok(Eventual { queue: Some(queue), ..Eventual::none(self) })
    }
}

impl Eventual {
    /// Without notes: a crash leaves copies wrong until [`EventualTable::repair`] (P-2.7).
    pub fn none(account: &Account) -> Self {
        Self {
            account: account.clone(),
            queue: None,
            grace: Duration::from_secs(60),
            claim_age: Duration::from_secs(600),
            is_deferred: false,
            is_atomic: false,
        }
    }

    /// Uses transactions across partitions, which only Lazuli has ([`Account::atomically`]): an entity and its copies
    /// are written in one commit (P-2.7). There are no notes, no claims and no worker, copies never lag, and a unique
    /// value always has one holder.
    pub fn commit(account: &Account) -> Self {
        Self { is_atomic: true, ..Self::none(account) }
    }

    /// How long notes are hidden from workers: longer than any write takes. 60 s by default.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Leaves copies to the worker: a write returns when its primary is written. Unique values are still claimed first.
    #[must_use]
    pub fn deferred(self) -> Self {
        Self { is_deferred: true, ..self }
    }

    /// The table that the type names. A type with encrypted fields needs [`Eventual::over`].
    pub fn table<T: TableEntity>(&self) -> Result<EventualTable<T>, Error> {
        self.over(self.account.tables().of::<T>()?)
    }

    /// A table with another name, or with encryption.
    pub fn over<T: TableEntity>(&self, table: Table<T>) -> Result<EventualTable<T>, Error> {
        if let Some(def) = indexes_of::<T>().find(|def| def.is_local()) {
            let reason = format!("the index {} lies beside its entities", def.mark);
            return Err(Error::config(reason));
        }
        // Rows are written as plain entities: the type's encryption must be set in the account (E-50).
        let Account(inner, protection) = &table.account;
        let account = Account(inner.clone(), protection.declaring(T::PROPERTIES)?);
        Ok(EventualTable { how: Self { account, ..self.clone() }, table })
    }
}

/// An acknowledged write.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventualWritten {
    /// The version of the entity; `None` if it was deleted.
    pub etag: Option<ETag>,
    /// Whether some copies are left to the worker.
    pub pending: bool,
}

impl From<Acknowledged> for EventualWritten {
    fn from(done: Acknowledged) -> Self {
        Self { etag: done.etag, pending: done.is_pending }
    }
}

/// A table whose type has indexes in other partitions. Cheap to clone.
///
/// The entity itself is the truth. Copies follow it: usually within the call, after a crash when the worker
/// handles the note.
#[derive(Debug)]
pub struct EventualTable<T> {
    pub(super) how: Eventual,
    pub(super) table: Table<T>,
}

impl<T> Clone for EventualTable<T> {
    fn clone(&self) -> Self {
        Self { how: self.how.clone(), table: self.table.clone() }
    }
}

impl<T: TableEntity> EventualTable<T> {
    /// The table itself, for reads by key and queries.
    pub fn table(&self) -> &Table<T> {
        &self.table
    }

    /// Inserts an entity and its copies.
    ///
    /// Fails with [`UniqueViolation`](crate::ErrorKind::UniqueViolation) if another entity has a unique value, or may
    /// have it: a value claimed by a write that crashed is taken for 10 minutes.
    pub async fn insert(&self, value: &T) -> Result<EventualWritten, Error> {
        if self.how.is_atomic {
            return self.commit(WriteVerb::Insert, Some(value), None).await;
        }
        let (place, entity) = self.primary(value)?;
        self.write("insert", place, None, Change::Insert(entity)).await
    }

    /// Replaces an entity that was read, if it has not changed. A value that has another key by now is refused.
    pub async fn replace(&self, loaded: &Loaded<T>) -> Result<EventualWritten, Error> {
        codec::check_key(&T::key(loaded)?, loaded)
            .map_err(|error| error.at("replace", Some(self.table.name()), None))?;
        if self.how.is_atomic {
            return self.commit(WriteVerb::Replace, Some(loaded), Some(loaded)).await;
        }
        let (place, entity) = self.primary(loaded)?;
        let etag = loaded.etag().clone();
        let old = self.old_copies(loaded)?;
        self.write("replace", place, Some(old), Change::Replace(entity, etag)).await
    }

    /// Deletes an entity that was read, if it has not changed.
    pub async fn delete(&self, loaded: &Loaded<T>) -> Result<EventualWritten, Error> {
        if self.how.is_atomic {
            return self.commit(WriteVerb::Replace, None, Some(loaded)).await;
        }
        let place = self.place(loaded.loaded_key().clone());
        let old = self.old_copies(loaded)?;
        self.write("delete", place, Some(old), Change::Delete(loaded.etag().clone())).await
    }

    /// Reads an entity by its key.
    pub async fn get(&self, key: Key<T>) -> Result<Option<Loaded<T>>, Error> {
        self.table.get(key).await
    }

    /// Looks an entity up in an index: one point read. The result may lag behind the entity; [`Indexed::as_of`] says
    /// which version it was made from. If a copy is only a claim, its entity is read too (P-2.6).
    pub async fn get_by<I: Index<Entity = T>>(
        &self,
        key: IndexKey<I>,
    ) -> Result<Option<Indexed<I::Row>>, Error> {
        let (at, found) = self.copy_at::<I>(&key).await?;
        let Some(found) = found else { return Ok(None) };
        if !is_reserved(&found) {
            return index::read_copy::<I>(found.into_inner());
        }
        // Only the entity counts: return the copy that it would have there.
        let Some(primary) = self.checked(&at, &found).await? else { return Ok(None) };
        let wanted = self.copies_of(&primary)?.into_iter().find(|copy| copy.place == at);
        wanted.map_or(Ok(None), |copy| {
            let ticks = primary.timestamp().ticks();
            index::read_copy::<I>(super::protocol::mark(&copy, &self.place_of(&primary), ticks))
        })
    }

    /// Reads the entity that currently has a value in an index: two point reads. If the entity does not justify the
    /// copy, a note is left to repair it.
    pub async fn get_by_checked<I: Index<Entity = T>>(
        &self,
        key: IndexKey<I>,
    ) -> Result<Option<Loaded<T>>, Error> {
        let (at, found) = self.copy_at::<I>(&key).await?;
        match found {
            Some(found) => self.checked(&at, &found).await,
            None => Ok(None),
        }
    }

    /// The worker for the notes.
    pub fn worker(&self) -> Result<EventualWorker<T>, Error> {
        let queue = self.how.queue.clone();
        let queue = queue.ok_or_else(|| Error::config("without notes there is no worker"))?;
        Ok(EventualWorker { table: self.clone(), queue })
    }

    /// The tables of the entities and of their copies.
    pub(super) fn tables(&self) -> Vec<String> {
        let mut tables = vec![self.table.name().to_owned()];
        for table in indexes_of::<T>().filter_map(|def| def.table) {
            if !tables.iter().any(|known| known == table) {
                tables.push(table.to_owned());
            }
        }
        tables
    }

    pub(super) async fn mend(&self, table: &str, row: Entity) -> Result<bool, Error> {
        let key = EntityKey::parse(row.partition_key(), row.row_key());
        let key = key.map_err(|error| Error::protocol(error.to_string()))?;
        let here = Place { table: table.to_owned(), key };
        let (primary, candidates) = match row.value(INDEX_MARK) {
            Some(_) => {
                let is_ours = indexes_of::<T>().any(|def| row.str(INDEX_MARK) == Ok(def.mark));
                match primary_of(&row, &here.key, self.table.name()).filter(|_| is_ours) {
                    Some(primary) => (primary, vec![here]),
                    None => return Ok(false),
                }
            }
            None => match codec::decode::<T>(row) {
                Ok(Some(_)) if table != self.table.name() => return Ok(false),
                Ok(Some(decoded)) => {
                    let copies = self.copies_of_value(&decoded.value)?;
                    (here, copies.into_iter().map(|copy| copy.place).collect())
                }
                // A row of another type.
                Ok(None) | Err(_) => return Ok(false),
            },
        };
        let store = self.store();
        let shape = |entity: &Entity| self.shape(entity);
        let protocol = Protocol { is_thorough: true, ..self.protocol(&store, &shape) };
        for copy in candidates {
            match protocol.mend(&primary, &copy).await {
                // Two entities want it: it is left as it is, and `verify` reports it (P-0.5).
                Err(error) if matches!(error.kind(), ErrorKind::UniqueViolation { .. }) => {}
                settled => drop(settled?),
            }
        }
        Ok(true)
    }

    async fn settle(&self, note: &Note) -> Result<Settled, Error> {
        let store = self.store();
        let shape = |entity: &Entity| self.shape(entity);
        self.protocol(&store, &shape).settle(note).await
    }

    async fn write(
        &self,
        operation: &'static str,
        place: Place,
        old: Option<Vec<Copy>>,
        change: Change,
    ) -> Result<EventualWritten, Error> {
        let unranged = self.how.account.check_unranged();
        unranged.map_err(|error| error.at(operation, Some(self.table.name()), Some(&place.key)))?;
        let store = self.store();
        let shape = |entity: &Entity| self.shape(entity);
        let written =
            self.protocol(&store, &shape).write(&place, &old.unwrap_or_default(), change).await;
        written
            .map(EventualWritten::from)
            .map_err(|error| error.at(operation, Some(self.table.name()), Some(&place.key)))
    }

    fn protocol<'a>(
        &self,
        store: &'a ServiceStore,
        shape: super::protocol::Shape<'a>,
    ) -> Protocol<'a> {
        Protocol {
            store,
            shape,
            table: store.primary.as_str(),
            kind: kind::<T>(),
            claim_age: self.how.claim_age,
            has_notes: self.how.queue.is_some(),
            is_deferred: self.how.is_deferred,
            is_thorough: false,
        }
    }

    fn store(&self) -> ServiceStore {
        let (account, queue) = (self.how.account.clone(), self.how.queue.clone());
        let primary = self.table.name().to_owned();
        ServiceStore { account, queue, grace: self.how.grace, primary }
    }

    fn place(&self, key: EntityKey) -> Place {
        Place { table: self.table.name().to_owned(), key }
    }

    fn place_of(&self, loaded: &Loaded<T>) -> Place {
        self.place(loaded.loaded_key().clone())
    }

    /// The place and the row of a value.
    fn primary(&self, value: &T) -> Result<(Place, Entity), Error> {
        let (key, properties) = codec::encode(value)?;
        let entity = row_of(&key, &properties);
        Ok((self.place(key), entity))
    }

    /// The copies of a stored entity.
    pub(super) fn shape(&self, entity: &Entity) -> Result<Vec<Copy>, Error> {
        match codec::decode::<T>(entity.clone())? {
            Some(decoded) => self.copies_of_value(&decoded.value),
            None => Ok(Vec::new()),
        }
    }

    fn copies_of_value(&self, value: &T) -> Result<Vec<Copy>, Error> {
        let (key, properties) = codec::encode(value)?;
        self.specs(&index::copies(value, &key, &properties)?)
    }

    fn copies_of(&self, loaded: &Loaded<T>) -> Result<Vec<Copy>, Error> {
        self.copies_of_value(loaded)
    }

    /// The copies of the state that was read, even if the value has been changed since.
    fn old_copies(&self, loaded: &Loaded<T>) -> Result<Vec<Copy>, Error> {
        let copies = loaded.copies().ok_or_else(|| Error::config("the entity was not read"))?;
        self.specs(copies)
    }

    fn specs(&self, copies: &[index::CopyRow]) -> Result<Vec<Copy>, Error> {
        let spec = |copy: &index::CopyRow| Copy {
            index: copy.def.name,
            is_unique: copy.def.is_unique,
            place: Place {
                table: copy.def.table.unwrap_or(self.table.name()).to_owned(),
                key: copy.key.clone(),
            },
            entity: row_of(&copy.key, &copy.properties),
        };
        Ok(copies.iter().map(spec).collect())
    }

    async fn copy_at<I: Index<Entity = T>>(
        &self,
        key: &IndexKey<I>,
    ) -> Result<(Place, Option<Loaded<Entity>>), Error> {
        let table = I::DEF.table.unwrap_or(self.table.name());
        let at = Place { table: table.to_owned(), key: key.as_entity_key().clone() };
        let rows = self.how.account.tables().table(table)?;
        let found = rows.get(at.key.clone()).await?;
        Ok((at, found))
    }

    /// The entity of a copy, if it justifies the copy.
    async fn checked(&self, at: &Place, copy: &Entity) -> Result<Option<Loaded<T>>, Error> {
        let Some(primary) = primary_of(copy, &at.key, self.table.name()) else { return Ok(None) };
        let found = self.table.get(Key::<T>::new(primary.key.clone())).await?;
        if let Some(found) = found
            && self.copies_of(&found)?.iter().any(|copy| copy.place == *at)
        {
            return Ok(Some(found));
        }
        if self.how.queue.is_some() {
            let note = Note { kind: kind::<T>().into(), primary, candidates: vec![at.clone()] };
            // Best effort: the result is correct without it.
            let _ = self.store().send_note(note).await;
        }
        Ok(None)
    }
}

/// The name of a type in notes.
fn kind<T: TableEntity>() -> &'static str {
    T::KIND.map_or("", |kind| kind.name)
}

fn row_of(key: &EntityKey, properties: &crate::Properties) -> Entity {
    let mut entity = Entity::new(key.partition.as_str(), key.row.as_str());
    for (name, value) in properties.values() {
        entity.set(name.to_owned(), value.clone());
    }
    entity
}

/// Handles the notes of one type.
#[derive(Clone, Debug)]
#[must_use = "a worker does nothing before `run`"]
pub struct EventualWorker<T> {
    table: EventualTable<T>,
    queue: Queue,
}

impl<T: TableEntity> EventualWorker<T> {
    /// Runs until `stop` completes.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        notes::run(&self.queue, self, stop).await
    }

    /// Handles all notes that are due, and returns how many there were.
    pub async fn run_until_idle(&self) -> Result<u64, Error> {
        notes::run_until_idle(&self.queue, self).await
    }
}

impl<T: TableEntity> notes::Settle for EventualWorker<T> {
    async fn settle(&self, body: &[u8]) -> Result<notes::Settled, Error> {
        let note = match Note::parse(body) {
            Ok(note) if note.kind == kind::<T>() => note,
            Ok(_) => return Ok(notes::Settled::NotOurs),
            Err(reason) => return Ok(notes::Settled::NotANote(reason)),
        };
        Ok(match self.table.settle(&note).await? {
            Settled::Done => notes::Settled::Done,
            // The note returns when the claim can be judged.
            Settled::TooYoung => notes::Settled::After(self.table.how.claim_age),
        })
    }
}
