//! Wakes listeners for changes of a table when this process commits one.

use crate::error::TableError;
use crate::service::TableService;
use lazuli_engine::{Key, Revision, Writers};
use lazuli_layout::{FeedId, TableId};
use lazuli_model::{AccountName, TableName};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The listeners of each table.
#[derive(Default)]
pub(crate) struct News {
    /// How many there are, so that a commit without listeners takes no lock.
    listening: AtomicUsize,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    next: u64,
    listeners: BTreeMap<TableId, BTreeMap<u64, Ear>>,
}

/// One listener.
#[derive(Default)]
struct Ear {
    is_told: bool,
    waker: Option<Waker>,
}

impl Ear {
    fn tell(&mut self) {
        self.is_told = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl News {
    /// Wakes the listeners of a table after a change was committed.
    pub(crate) fn tell(&self, table: TableId) {
        if self.listening.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut tables = self.tables();
        let ears = tables.listeners.get_mut(&table);
        ears.into_iter().flat_map(BTreeMap::values_mut).for_each(Ear::tell);
    }

    /// Wakes all listeners: a table or a feed is gone, and its listeners must check.
    pub(crate) fn tell_all(&self) {
        if self.listening.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut tables = self.tables();
        tables.listeners.values_mut().flat_map(BTreeMap::values_mut).for_each(Ear::tell);
    }

    fn listen(&self, table: TableId) -> u64 {
        let mut tables = self.tables();
        let id = tables.next;
        tables.next += 1;
        tables.listeners.entry(table).or_default().insert(id, Ear::default());
        self.listening.fetch_add(1, Ordering::SeqCst);
        id
    }

    fn stop(&self, table: TableId, id: u64) {
        let mut tables = self.tables();
        let Some(ears) = tables.listeners.get_mut(&table) else { return };
        if ears.remove(&id).is_some() {
            self.listening.fetch_sub(1, Ordering::SeqCst);
        }
        if ears.is_empty() {
            tables.listeners.remove(&table);
        }
    }

    /// No code under the lock can panic halfway.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notices changes of a table committed after it was created. Create it before reading the existing
/// changes, so that none is missed in between.
pub struct ChangeListener {
    service: TableService,
    feed: FeedId,
    id: u64,
    /// The head of the feed when last checked, on a store with other writers.
    head: Option<Revision>,
}

impl TableService {
    /// Listens for changes of a table that has a feed.
    pub async fn listen_for_changes(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<ChangeListener, TableError> {
        let table = self.open_now(account, name).await?;
        let feed = table.feed_id().ok_or(TableError::NoFeed)?;
        let id = self.news.listen(feed.table);
        let mut listener = ChangeListener { service: self.clone(), feed, id, head: None };
        listener.has_news().await?;
        Ok(listener)
    }
}

impl ChangeListener {
    /// Waits until this process changes the table. Changes by other processes show only in
    /// [`has_news`](Self::has_news).
    pub async fn changed(&mut self) {
        let (news, table, id) = (&self.service.news, self.feed.table, self.id);
        poll_fn(|context| {
            let mut tables = news.tables();
            let ears = tables.listeners.get_mut(&table);
            match ears.and_then(|ears| ears.get_mut(&id)) {
                Some(ear) if !ear.is_told => {
                    ear.waker = Some(context.waker().clone());
                    Poll::Pending
                }
                Some(ear) => {
                    ear.is_told = false;
                    Poll::Ready(())
                }
                None => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Whether other processes change the table, so that the listener must poll.
    pub fn must_look(&self) -> bool {
        self.service.nature().writers == Writers::Many
    }

    /// Checks whether the feed has changed since the last check: one point read. Always false where
    /// this process is the only writer.
    pub async fn has_news(&mut self) -> Result<bool, TableError> {
        if !self.must_look() {
            return Ok(false);
        }
        let found = self.service.store.read_one(&Key::from(self.feed.head())).await?;
        let head = found.map(|found| found.revision);
        Ok(std::mem::replace(&mut self.head, head) != head)
    }
}

impl Drop for ChangeListener {
    fn drop(&mut self) {
        self.service.news.stop(self.feed.table, self.id);
    }
}
