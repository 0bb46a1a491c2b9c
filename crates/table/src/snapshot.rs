//! Snapshots that several requests read: a view of the engine, kept.

use crate::error::TableError;
use crate::expiry::Judge;
use crate::query::{EntityQuery, EntityRef, QueryEnd, StoredEntity, stored};
use crate::service::{TableService, TableView};
use lazuli_engine::View;
use lazuli_layout::key;
use lazuli_model::{AccountName, EntityKey, TableName, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One state of all tables. While it is held, no space of a dropped table is reclaimed.
pub struct Snapshot {
    pub(crate) entries: Arc<dyn View>,
    at: Timestamp,
    held: Arc<AtomicUsize>,
}

impl Snapshot {
    /// Its moment.
    pub fn at(&self) -> Timestamp {
        self.at
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TableService {
    /// The state of all tables now.
    pub async fn snapshot(&self) -> Result<Snapshot, TableError> {
        // Counted before the view exists, so that nothing it shows is reclaimed.
        self.snapshots_held.fetch_add(1, Ordering::SeqCst);
        let held = self.snapshots_held.clone();
        let at = self.store.clock.now();
        match self.store.engine.view().await {
            Ok(entries) => Ok(Snapshot { entries, at, held }),
            Err(error) => {
                held.fetch_sub(1, Ordering::SeqCst);
                Err(error.into())
            }
        }
    }

    /// Whether a snapshot may still read what was dropped.
    pub(crate) fn holds_snapshots(&self) -> bool {
        self.snapshots_held.load(Ordering::SeqCst) > 0
    }

    /// A page of the state that `snapshot` shows.
    pub async fn query_at(
        &self,
        snapshot: &Snapshot,
        account: &AccountName,
        table: &TableName,
        query: EntityQuery,
        sink: &mut (dyn FnMut(EntityRef<'_>) + Send),
    ) -> Result<QueryEnd, TableError> {
        let view = TableView::of_snapshot(self, snapshot.entries.clone());
        let table = view.open_as_it_was(account, table).await?;
        let table = (table.id, table.settings.as_deref());
        let (end, _) = self.page(&view, table, Some(snapshot.at), &query, sink, None).await?;
        Ok(end)
    }

    /// An entity of the state that `snapshot` shows.
    pub async fn get_at(
        &self,
        snapshot: &Snapshot,
        account: &AccountName,
        table: &TableName,
        entity: &EntityKey,
    ) -> Result<StoredEntity, TableError> {
        let view = TableView::of_snapshot(self, snapshot.entries.clone());
        let table = view.open_as_it_was(account, table).await?;
        let found = view.entries.get(&key::entity(table.id, entity)).await?;
        stored(found, Judge::of(table.settings.as_deref(), || snapshot.at))
    }
}
