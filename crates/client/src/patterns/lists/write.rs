//! Writes an entity and the lists it is in (P-4.3 to P-4.5).

use super::note::Entry;
use super::{ATTEMPTS, ListTable, items, overflow, reconcile, store};
use crate::BoxError;
use crate::batch::{self, BatchFault, Operation};
use crate::codec::encode_whole;
use crate::entity::{Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::index::as_lone;
use crate::key::Key;
use crate::list::ListHome;
use crate::options::CallOptions;
use crate::update::{Change, pause};
use crate::write::WriteVerb;
use lazuli_model::EntityKey;

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListsWritten {
    /// Whether lists in other partitions or blobs are left to the worker.
    pub pending: bool,
}

/// Where an entity was listed, and where it is to be listed.
struct Move {
    old: Vec<Entry>,
    new: Vec<Entry>,
}

impl Move {
    /// The list that the entity would join as an item without text, which no list can hold (P-4.1). An entity that
    /// another program has written so is in no list, and stays so when it is changed.
    fn without_text(&self) -> Option<usize> {
        let numbers = |entries: &[Entry]| -> Vec<usize> {
            entries.iter().filter(|e| e.item.is_empty()).map(|e| e.number).collect()
        };
        let old = numbers(&self.old);
        numbers(&self.new).into_iter().find(|number| !old.contains(number))
    }
}

impl<T: TableEntity> ListTable<T> {
    /// Inserts an entity, and adds it to its lists.
    pub async fn insert(&self, value: &T) -> Result<ListsWritten, Error> {
        let entries = Move { old: Vec::new(), new: self.entries(value)? };
        let write = Operation::write(WriteVerb::Insert, encode_whole(value), None)?;
        self.write("insert", write, entries).await
    }

    /// Replaces an entity that was read, if it has not changed since, and moves it between lists if its value has
    /// changed.
    pub async fn replace(&self, loaded: &Loaded<T>) -> Result<ListsWritten, Error> {
        let (key, properties) = encode_whole(&**loaded)?;
        if key != *loaded.loaded_key() {
            return Err(Error::config("a replace cannot change the key"));
        }
        // As of when it was read, even if the value has been modified since.
        let old = self.read_entries(loaded).await?;
        let entries = Move { old, new: self.entries(loaded)? };
        let etag = Some(loaded.etag().as_str());
        let mut write = Operation::write(WriteVerb::Replace, Ok((key, properties)), etag)?;
        write.base = loaded.write_ids().clone();
        self.write("replace", write, entries).await
    }

    /// Deletes an entity that was read, if it has not changed since, and removes it from its lists.
    pub async fn delete(&self, loaded: &Loaded<T>) -> Result<ListsWritten, Error> {
        let entries = Move { old: self.read_entries(loaded).await?, new: Vec::new() };
        let write = Operation::remove(loaded.loaded_key().clone(), loaded.etag().as_str());
        self.write("delete", write, entries).await
    }

    /// Reads an entity, applies `change`, and writes it back if it has not changed in the meantime; otherwise starts
    /// over.
    pub async fn update_with<F>(&self, key: Key<T>, mut change: F) -> Result<ListsWritten, Error>
    where
        F: FnMut(&mut T) -> Result<Change, BoxError> + Send,
    {
        let env = &self.rows.account.0.env;
        let place = |error: Error| {
            error.at("update_with", Some(self.rows.name()), Some(key.as_entity_key()))
        };
        for attempts in 1..=ATTEMPTS {
            let found = self.get(key.clone()).await?;
            let mut found = found.ok_or_else(|| place(Error::new(ErrorKind::NotFound)))?;
            let refused = |source| {
                place(Error::new(ErrorKind::Refused).with(|context| context.source = Some(source)))
            };
            if change(&mut found).map_err(refused)? == Change::Keep {
                return Ok(ListsWritten { pending: false });
            }
            match self.replace(&found).await {
                Err(error) if error.may_have_been_applied() => {
                    return Err(error.with_kind(ErrorKind::OutcomeUnknown));
                }
                Err(error) if error.is_precondition_failed() || error.is_not_found() => {
                    env.sleep(pause(env, attempts)).await;
                }
                outcome => return outcome,
            }
        }
        Err(place(Error::new(ErrorKind::Contended { attempts: ATTEMPTS })))
    }

    /// The lists of the version that was read: one point read. If the entity has changed since, the write fails anyway.
    async fn read_entries(&self, loaded: &Loaded<T>) -> Result<Vec<Entry>, Error> {
        match self.rows.get(loaded.loaded_key().clone()).await? {
            Some(row) if row.etag() == loaded.etag() => self.entries_of_row(row.into_inner()),
            Some(_) => Err(Error::new(ErrorKind::PreconditionFailed)),
            None => Err(Error::new(ErrorKind::NotFound)),
        }
        .map_err(|error| error.at("replace", Some(self.rows.name()), Some(loaded.loaded_key())))
    }

    async fn write(
        &self,
        verb: &'static str,
        write: Operation,
        entries: Move,
    ) -> Result<ListsWritten, Error> {
        let key = write.key.clone();
        let place = |error: Error| error.at(verb, Some(self.rows.name()), Some(&key));
        if let Some(number) = entries.without_text() {
            return Err(place(store::textless(self.def(number)?)));
        }
        let is_beside =
            |entry: &&Entry| self.def(entry.number).is_ok_and(|def| def.home == ListHome::Beside);
        // Unchanged entries need no write, and those without text are in no list.
        let changed = |from: &[Entry], to: &[Entry]| -> Vec<Entry> {
            let changed = |entry: &&Entry| !entry.item.is_empty() && !to.contains(entry);
            from.iter().filter(changed).cloned().collect()
        };
        let removed = changed(&entries.old, &entries.new);
        let added = changed(&entries.new, &entries.old);
        let remote: Vec<Entry> =
            removed.iter().chain(&added).filter(|entry| !is_beside(entry)).cloned().collect();
        let removed: Vec<_> = removed.iter().filter(is_beside).collect();
        let added: Vec<_> = added.iter().filter(is_beside).collect();
        let commit = self.commit(&key, write, &removed, &added);
        let pending = reconcile::write(self, &key, &remote, commit).await.map_err(place)?;
        Ok(ListsWritten { pending })
    }

    /// Writes the entity and the lists in its partition in one transaction, retrying if others change a list.
    async fn commit(
        &self,
        key: &EntityKey,
        write: Operation,
        removed: &[&Entry],
        added: &[&Entry],
    ) -> Result<(), Error> {
        let (account, table) = (&self.rows.account, &self.rows.name);
        let env = &account.0.env;
        for attempts in 1..=ATTEMPTS {
            let mut operations = vec![write.clone()];
            let (mut defs, mut old, mut new) = (Vec::new(), Vec::new(), Vec::new());
            let changes =
                removed.iter().map(|e| (*e, false)).chain(added.iter().map(|e| (*e, true)));
            for (entry, is_in) in changes {
                let def = self.def(entry.number)?;
                let list = self.read_list(entry.number, &entry.place).await?;
                let mut items = list.as_ref().map(|list| list.items.clone()).unwrap_or_default();
                // Written even if nothing changes, so that a concurrent repair of the list fails.
                items::set(&mut items, &entry.item, is_in);
                let write = self.operation(def, &entry.place, &items, list.as_ref()).await?;
                if let Some((write, blob)) = write {
                    operations.push(write);
                    defs.push(def);
                    old.extend(list.and_then(|list| list.overflow));
                    new.extend(blob);
                }
            }
            let own = env.guid();
            let sent = batch::send_with_id(account, table, operations, own, CallOptions::default());
            let error = match sent.await {
                Ok(_) => {
                    for blob in &old {
                        overflow::discard(Some(blob)).await;
                    }
                    return Ok(());
                }
                Err(error) => error,
            };
            if error.may_have_been_applied() {
                return Err(as_lone(error));
            }
            for blob in &new {
                overflow::discard(Some(blob)).await;
            }
            match error.kind() {
                ErrorKind::InvalidBatch(refused) => {
                    let BatchFault::Write(kind) = &refused.reason else { return Err(error) };
                    let def = refused.index.checked_sub(1).and_then(|index| defs.get(index));
                    let (kind, def) = ((**kind).clone(), def.copied());
                    let error = error.with_kind(kind);
                    return Err(match def {
                        Some(def) => store::full(error, def),
                        None => error,
                    });
                }
                // The entity itself is operation 0 (P-4.4).
                ErrorKind::Batch { index: Some(0) } => return Err(as_lone(error)),
                ErrorKind::Batch { index: Some(_) } => {}
                _ => return Err(error),
            }
            env.sleep(pause(env, attempts)).await;
        }
        let error = Error::new(ErrorKind::Contended { attempts: ATTEMPTS });
        Err(error.with(|context| context.key = Some(key.clone())))
    }
}
