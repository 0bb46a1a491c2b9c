//! The protocol for lists in other partitions and blobs (P-4.5).
//!
//! The entity is the truth, and a list contains an item if and only if the entity, read *after* the list, says so. A
//! client that may write a list has a note with the entity and the item, and deletes it when the list agrees with an
//! entity that was the same before and after the write.

use super::note::{Entry, Note};
use super::store::List;
use super::{ATTEMPTS, ListTable, items};
use crate::BoxFuture;
use crate::entity::{ETag, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::list::ListHome;
use crate::queue::Receipt;
use crate::update::pause;
use lazuli_model::EntityKey;

/// The requests that the protocol needs, one method each.
///
/// A test runs it on lists in memory, with every order of the requests of several clients.
pub(super) trait Store: Sync {
    /// A list that was read.
    type List: Send + Sync;
    type NoteId: Send + Sync;

    fn items<'l>(&self, list: &'l Self::List) -> &'l [String];

    fn list<'a>(&'a self, entry: &'a Entry) -> Reply<'a, Option<Self::List>>;

    /// Whether the entity wants to be in a list as this item; and its version.
    fn wants<'a>(
        &'a self,
        primary: &'a EntityKey,
        entry: &'a Entry,
    ) -> Reply<'a, (bool, Option<ETag>)>;

    /// Writes a list that must not have changed since it was read; false if it has.
    fn write<'a>(
        &'a self,
        entry: &'a Entry,
        items: &'a [String],
        read: Option<&'a Self::List>,
    ) -> Reply<'a, bool>;

    /// Sends a note that is hidden at first; `None` if there is nothing to note, or no queue.
    fn leave_note<'a>(
        &'a self,
        primary: &'a EntityKey,
        entries: &'a [Entry],
    ) -> Reply<'a, Option<Self::NoteId>>;

    fn delete_note<'a>(&'a self, note: &'a Self::NoteId) -> Reply<'a, ()>;

    /// Waits before the next round.
    fn pause(&self, attempts: u32) -> BoxFuture<'_, ()>;
}

pub(super) type Reply<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// Writes an entity by `commit`, and then the lists elsewhere that it joins or leaves. Returns whether lists are
/// left to the worker.
pub(super) async fn write<S: Store>(
    store: &S,
    primary: &EntityKey,
    remote: &[Entry],
    commit: impl Future<Output = Result<(), Error>>,
) -> Result<bool, Error> {
    let note = store.leave_note(primary, remote).await?;
    if let Err(error) = commit.await {
        // It was not carried out: there is nothing to clean up.
        if !error.may_have_been_applied() {
            forget(store, note.as_ref()).await;
        }
        return Err(error);
    }
    // From here on the write is acknowledged; anything that fails is left to the worker.
    let mut pending = false;
    for entry in remote {
        pending |= reconcile(store, primary, entry).await.is_err();
    }
    if !pending {
        forget(store, note.as_ref()).await;
    }
    Ok(pending)
}

/// The same for one item, without a write of the entity. Returns whether the list was written.
pub(super) async fn mend<S: Store>(
    store: &S,
    primary: &EntityKey,
    entry: &Entry,
) -> Result<bool, Error> {
    // A repair that crashes may leave something that no other note names.
    let note = store.leave_note(primary, std::slice::from_ref(entry)).await?;
    let has_written = reconcile(store, primary, entry).await?;
    forget(store, note.as_ref()).await;
    Ok(has_written)
}

/// If this is lost, the worker finds nothing to do.
async fn forget<S: Store>(store: &S, note: Option<&S::NoteId>) {
    if let Some(note) = note {
        let _ = store.delete_note(note).await;
    }
}

/// Makes the list contain the item if and only if the entity, read after the list, says so, with the entity the same
/// after the write as before it. Otherwise a writer suspended in between could leave an item that no note names.
///
/// It may run any number of times, in any process. Returns whether anything was written.
pub(super) async fn reconcile<S: Store>(
    store: &S,
    primary: &EntityKey,
    entry: &Entry,
) -> Result<bool, Error> {
    let mut has_written = false;
    for attempts in 1..=ATTEMPTS {
        let list = store.list(entry).await?;
        let (is_wanted, before) = store.wants(primary, entry).await?;
        let mut items = list.as_ref().map(|list| store.items(list).to_vec()).unwrap_or_default();
        if !items::set(&mut items, &entry.item, is_wanted) {
            return Ok(has_written);
        }
        if store.write(entry, &items, list.as_ref()).await? {
            has_written = true;
            if store.wants(primary, entry).await?.1 == before {
                return Ok(true);
            }
        }
        store.pause(attempts).await;
    }
    Err(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }))
}

impl<T: TableEntity> ListTable<T> {
    pub(super) async fn settle(&self, note: &Note) -> Result<(), Error> {
        for entry in &note.entries {
            let settled = reconcile(self, &note.primary, entry).await;
            settled
                .map_err(|error| error.at("list", Some(self.rows.name()), Some(&entry.place)))?;
        }
        Ok(())
    }
}

impl<T: TableEntity> Store for ListTable<T> {
    type List = List;
    type NoteId = Receipt;

    fn items<'l>(&self, list: &'l List) -> &'l [String] {
        &list.items
    }

    fn list<'a>(&'a self, entry: &'a Entry) -> Reply<'a, Option<List>> {
        Box::pin(self.read_list(entry.number, &entry.place))
    }

    fn wants<'a>(
        &'a self,
        primary: &'a EntityKey,
        entry: &'a Entry,
    ) -> Reply<'a, (bool, Option<ETag>)> {
        Box::pin(async move {
            let Some(row) = self.rows.get(primary.clone()).await? else {
                return Ok((false, None));
            };
            let etag = row.etag().clone();
            let is_of_row = self.entries_of_row(row.into_inner())?.contains(entry);
            // No list can hold an item without text (P-4.1).
            Ok((is_of_row && !entry.item.is_empty(), Some(etag)))
        })
    }

    fn write<'a>(
        &'a self,
        entry: &'a Entry,
        items: &'a [String],
        read: Option<&'a List>,
    ) -> Reply<'a, bool> {
        Box::pin(self.write_list(entry.number, &entry.place, items, read))
    }

    fn leave_note<'a>(
        &'a self,
        primary: &'a EntityKey,
        entries: &'a [Entry],
    ) -> Reply<'a, Option<Receipt>> {
        Box::pin(async move {
            let is_remote = |entry: &&Entry| {
                T::LISTS.get(entry.number).is_some_and(|def| def.home != ListHome::Beside)
            };
            let remote: Vec<Entry> = entries.iter().filter(is_remote).cloned().collect();
            self.send_note(primary, &remote).await
        })
    }

    fn delete_note<'a>(&'a self, note: &'a Receipt) -> Reply<'a, ()> {
        Box::pin(async move {
            match &self.queue {
                Some(queue) => queue.delete(note).await.map(drop),
                None => Ok(()),
            }
        })
    }

    fn pause(&self, attempts: u32) -> BoxFuture<'_, ()> {
        let env = &self.rows.account.0.env;
        Box::pin(async move { env.sleep(pause(env, attempts)).await })
    }
}
