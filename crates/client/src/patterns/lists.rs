//! Lists of the entities with a value (P-4): all employees named Jones by one read, and one more for each.
//!
//! A list in the entities' partition is updated in the same transaction. A list in another partition or a blob follows
//! the entities as the copies of P-2 do: a note is left first, the entity is the truth, and a list contains an item if
//! and only if the entity, read after the list, says so.

mod items;
#[cfg(test)]
mod model;
mod note;
#[cfg(test)]
mod orders;
mod overflow;
mod reconcile;
mod store;
mod verify;
mod worker;
mod write;

pub use worker::ListWorker;
pub use write::ListsWritten;

use crate::Account;
use crate::codec;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::Error;
use crate::key::Key;
use crate::list::{ListDef, ListKey};
use crate::queue::Queue;
use crate::table::Table;
use items::quote;
use lazuli_model::EntityKey;
use note::Entry;
use reconcile::Store as _;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// Attempts of a write that other clients disturb (P-4.4).
const ATTEMPTS: u32 = 16;

impl Account {
    /// The table named by a type with lists.
    pub fn lists<T: TableEntity>(&self) -> Result<ListTable<T>, Error> {
        let name = T::TABLE.ok_or_else(|| {
            Error::config(format!("{} names no table", std::any::type_name::<T>()))
        })?;
        ListTable::new(&self.tables().table(name)?)
    }
}

/// A table whose type has lists: `#[index_list(..)]`. Cheap to clone.
///
/// ```
/// # use lazuli_client::prelude::*;
/// #[derive(TableEntity)]
/// #[table(name = "Employees", kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// #[index_list(last_name, option = 2, row = "lastname_{last_name}", items = "EmployeeIDs", item = "{id:06}")]
/// struct Employee { department: String, id: u32, last_name: String }
///
/// # async fn run(account: Account, jones: Employee) -> Result<(), Error> {
/// let employees = account.lists::<Employee>()?;
/// employees.insert(&jones).await?;                                                            // a read, a transaction
/// let ids = employees.ids_by(&Employee::list_last_name("Sales", "Jones")?).await?;            // one read
/// let all = employees.get_listed(&Employee::list_last_name("Sales", "Jones")?).await?;        // one more for each
/// # Ok(())
/// # }
/// ```
pub struct ListTable<T> {
    rows: Table<Entity>,
    queue: Option<Queue>,
    grace: Duration,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for ListTable<T> {
    fn clone(&self) -> Self {
        let (rows, queue) = (self.rows.clone(), self.queue.clone());
        Self { rows, queue, grace: self.grace, of: PhantomData }
    }
}

impl<T> fmt::Debug for ListTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListTable").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<T: TableEntity> ListTable<T> {
    /// The entities of a type with lists in a table.
    pub fn new<U: TableEntity>(table: &Table<U>) -> Result<Self, Error> {
        if T::LISTS.is_empty() {
            return Err(Error::config("the type has no lists: `#[index_list(..)]`"));
        }
        // Rows are read as plain entities: the type's encryption must be set in the account (E-50).
        let mut rows: Table<Entity> = table.retyped();
        rows.account.1 = table.account.1.declaring(T::PROPERTIES)?;
        Ok(Self { rows, queue: None, grace: Duration::from_secs(60), of: PhantomData })
    }

    /// Leaves notes in a queue, which must exist and must be read by a [`ListTable::worker`]: for lists in other
    /// partitions and blobs. Without notes, a crash leaves them wrong until [`ListTable::repair`].
    pub fn notes(mut self, queue: &str) -> Result<Self, Error> {
        self.queue = Some(self.rows.account.queues().queue(queue)?);
        Ok(self)
    }

    /// How long notes are hidden from workers: longer than any write takes. 60 s by default.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// The rows as they are stored, including lists.
    pub fn rows(&self) -> &Table<Entity> {
        &self.rows
    }

    /// Reads an entity by its key.
    pub async fn get(&self, key: Key<T>) -> Result<Option<Loaded<T>>, Error> {
        match self.rows.get(key.into_entity_key()).await? {
            Some(found) => found.decode(),
            None => Ok(None),
        }
    }

    /// The items of a list, in order: one read. A list in another partition or in a blob may lag behind.
    pub async fn ids_by(&self, list: &ListKey<T>) -> Result<Vec<String>, Error> {
        let found = self.read_list(list.number(), list.place()).await?;
        Ok(found.map(|found| found.items).unwrap_or_default())
    }

    /// The entities of a list: one read, and one concurrent read for each. An entity that is gone or has changed its
    /// value is left out, and a note is left for repair if the list may lag.
    pub async fn get_listed(&self, list: &ListKey<T>) -> Result<Vec<Loaded<T>>, Error> {
        let (number, place) = (list.number(), list.place());
        let items = self.ids_by(list).await?;
        let key = |item: &String| T::listed_key(number, place, item);
        let named: Vec<_> = items.iter().filter_map(|item| Some((item, key(item)?))).collect();
        let keys: Vec<EntityKey> = named.iter().map(|(_, key)| key.clone()).collect();
        let found = self.rows.get_many(keys).await?;
        let mut listed = Vec::new();
        for ((item, key), row) in named.into_iter().zip(found) {
            let entity = match row {
                Some(row) => row.decode::<T>()?,
                None => None,
            };
            match entity {
                Some(entity) if self.has_entry(&entity, number, place, item)? => {
                    listed.push(entity)
                }
                _ => self.note_for_repair(key, number, place, item).await,
            }
        }
        Ok(listed)
    }

    /// Whether a value belongs into a list as this item.
    fn has_entry(
        &self,
        value: &T,
        number: usize,
        place: &EntityKey,
        item: &str,
    ) -> Result<bool, Error> {
        let entry = value.list_entry(number)?;
        Ok(entry.is_some_and(|(at, own)| at == *place && quote(&own) == item))
    }

    /// The worker will repair the list; the result is correct without that.
    async fn note_for_repair(&self, key: EntityKey, number: usize, place: &EntityKey, item: &str) {
        let entry = Entry { number, place: place.clone(), item: item.to_owned() };
        let _ = self.leave_note(&key, &[entry]).await;
    }

    /// The lists of a value.
    fn entries(&self, value: &T) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for number in 0..T::LISTS.len() {
            if let Some((place, item)) = value.list_entry(number)? {
                entries.push(Entry { number, place, item: quote(&item) });
            }
        }
        Ok(entries)
    }

    /// The lists of the value in a row.
    fn entries_of_row(&self, row: Entity) -> Result<Vec<Entry>, Error> {
        match codec::decode::<T>(row)? {
            Some(decoded) => self.entries(&decoded.value),
            None => Ok(Vec::new()),
        }
    }

    fn def(&self, number: usize) -> Result<&'static ListDef, Error> {
        T::LISTS.get(number).ok_or_else(|| Error::protocol("a list that the type does not have"))
    }
}
