//! Snapshots that several requests read: a view of the engine, kept between requests.

use crate::error::TableError;
use crate::expiry::Judge;
use crate::query::{EntityQuery, EntityRef, QueryEnd, StoredEntity, stored};
use crate::service::{TableService, TableView};
use lazuli_engine::{BoxFuture, EngineError, Found, Key, Scan, ScanEnd, View, Visitor};
use lazuli_layout::key;
use lazuli_model::{AccountName, EntityKey, TableName, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// One state of all tables. While it is held, the space of dropped tables is not reclaimed.
pub struct Snapshot {
    entries: Arc<Entries>,
    at: Timestamp,
    held: Arc<AtomicUsize>,
}

/// How many snapshots the store lets clients keep, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLimits {
    pub kept_max: usize,
    /// A snapshot ends after this long, used or not.
    pub life: Option<Duration>,
}

impl Snapshot {
    /// The moment of the snapshot.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether a read has found that the store dropped it.
    pub fn has_ended(&self) -> bool {
        self.entries.has_ended.load(Ordering::Relaxed)
    }

    /// The error of a read; retrying is pointless if the snapshot has ended.
    fn error(&self, error: TableError) -> TableError {
        if self.has_ended() { TableError::SnapshotEnded } else { error }
    }
}

/// The view of a snapshot, and whether the store has dropped it.
struct Entries {
    view: Arc<dyn View>,
    has_ended: AtomicBool,
}

impl Entries {
    async fn note<T>(&self, read: BoxFuture<'_, Result<T, EngineError>>) -> Result<T, EngineError> {
        read.await.inspect_err(|error| {
            if matches!(error, EngineError::Expired) {
                self.has_ended.store(true, Ordering::Relaxed);
            }
        })
    }
}

impl View for Entries {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        Box::pin(self.note(self.view.get(key)))
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(self.note(self.view.multi_get(keys)))
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(self.note(self.view.scan(scan, visitor)))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TableService {
    pub fn snapshot_limits(&self) -> SnapshotLimits {
        let limits = self.store.engine.limits();
        let life = Some(limits.kept_view_ms_max).filter(|ms| *ms < u64::MAX);
        SnapshotLimits { kept_max: limits.kept_views_max, life: life.map(Duration::from_millis) }
    }

    /// The state of all tables now.
    pub async fn snapshot(&self) -> Result<Snapshot, TableError> {
        // Count it before the view exists, so that nothing it shows is reclaimed.
        self.snapshots_held.fetch_add(1, Ordering::SeqCst);
        let held = self.snapshots_held.clone();
        let at = self.store.clock.now();
        match self.store.engine.kept_view().await {
            Ok(view) => {
                let entries = Arc::new(Entries { view, has_ended: AtomicBool::new(false) });
                Ok(Snapshot { entries, at, held })
            }
            Err(error) => {
                held.fetch_sub(1, Ordering::SeqCst);
                Err(error.into())
            }
        }
    }

    /// Whether a snapshot may still read dropped data.
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
        let page = async {
            let view = TableView::of_snapshot(self, snapshot.entries.clone());
            let table = view.open_as_it_was(account, table).await?;
            let table = (table.id, table.settings.as_deref());
            self.page(&view, table, Some(snapshot.at), &query, sink, None).await
        };
        let (end, _) = page.await.map_err(|error| snapshot.error(error))?;
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
        let found = async {
            let view = TableView::of_snapshot(self, snapshot.entries.clone());
            let table = view.open_as_it_was(account, table).await?;
            let found = view.entries.get(&key::entity(table.id, entity)).await?;
            stored(found, Judge::of(table.settings.as_deref(), || snapshot.at))
        };
        found.await.map_err(|error| snapshot.error(error))
    }
}
