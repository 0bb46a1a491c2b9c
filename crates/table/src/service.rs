//! [`TableService`], and what all its verbs share: finding a table, and committing to it.
//!
//! The verbs are in other files: `tables.rs` creates and deletes tables and keeps their policies,
//! `list.rs` lists them, `query.rs` reads entities, `mutate.rs` and `batch.rs` change them.

use crate::derive::{Derivation, entity_of};
use crate::error::TableError;
use crate::feed::news::News;
use crate::index::build::Round;
use crate::index::fill::Pace as BuildPace;
use crate::index::meter::BuildMeter;
use crate::index::trouble::BuildTroubles;
use crate::index::waits::Waits;
use crate::known_tables::{DeletionGuard, KnownTables, Moment};
use crate::statistics::Statistics;
use lazuli_engine::retry::{Attempt, Pace};
use lazuli_engine::{Check, Engine, Expect, Found, Key, Nature, Revision, View};
use lazuli_layout::settings::TableSettings;
use lazuli_layout::table::CatalogRecord;
use lazuli_layout::{FeedId, TableId, key};
use lazuli_meter::{Counter, Family, Source, Value};
use lazuli_model::{AccountName, Clock, TableName, Timestamp};
use lazuli_service::Store;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The table service of every account, on one engine. Cheap to clone.
///
/// On an engine that only this process writes to ([`Nature::only_we_change_it`]), the service and its
/// clones must be the only writers: then its table cache is always correct. On any other engine a
/// cached table is a hint, which each use verifies.
#[derive(Clone)]
pub struct TableService {
    pub(crate) store: Store,
    known: Arc<KnownTables>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) snapshots_held: Arc<AtomicUsize>,
    /// Counts dropped indexes separately from dropped tables.
    pub(crate) dropped_indexes: Store,
    /// Counts dropped changes separately from both.
    pub(crate) dropped_changes: Store,
    pub(crate) news: Arc<News>,
    pub(crate) build_pace: Arc<BuildPace>,
    pub(crate) build_round: Arc<Round>,
    pub(crate) build_troubles: Arc<BuildTroubles>,
    pub(crate) build_waits: Arc<Waits>,
    pub(crate) builds: Arc<BuildMeter>,
    pub(crate) changes: Arc<ChangeMeter>,
    /// How long the building of an index waits on a store with other writers; by default as long as
    /// a request can last.
    pub(crate) index_settles_ms: Option<u64>,
}

/// What changed that no client asked for.
#[derive(Default)]
pub(crate) struct ChangeMeter {
    pub(crate) expired: Counter,
    pub(crate) recorded: Counter,
}

impl Source for ChangeMeter {
    fn report(&self) -> Vec<Family> {
        let expired = "Expired entities that were deleted";
        let recorded = "Changes recorded in change feeds";
        vec![
            Family::of("lazuli_expired_entities", expired, &self.expired),
            Family::of("lazuli_feed_entries", recorded, &self.recorded),
        ]
    }
}

/// A table as found in the catalog.
#[derive(Clone)]
pub(crate) struct OpenTable {
    pub(crate) id: TableId,
    /// Holds until the table is dropped or its settings change: the guard of every entity write.
    pub(crate) lives: Check,
    /// Most tables have none.
    pub(crate) settings: Option<Arc<TableSettings>>,
    /// What follows from a change of an entity.
    pub(crate) derive: Option<Arc<Derivation>>,
}

impl OpenTable {
    /// Whether its entities expire.
    pub(crate) fn expiring(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.expiry.is_some())
    }

    /// Whether `key` is that of an entity of the table.
    pub(crate) fn has_entity(&self, key: &[u8]) -> bool {
        entity_of(self.id, key).is_some()
    }

    /// The table's feed, if it has one.
    pub(crate) fn feed_id(&self) -> Option<FeedId> {
        let settings = self.settings.as_ref().filter(|settings| settings.feed.is_some())?;
        Some(FeedId { table: self.id, number: settings.feeds })
    }

    /// Whether `found`, read at the table's catalog key, is the record that this table was opened with.
    pub(crate) fn is_proven_by(&self, found: Option<&Found>) -> bool {
        self.lives.expect.holds(found.map(|found| found.revision))
    }
}

impl TableService {
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Self {
        let marks = || Store::new(engine.clone(), clock.clone());
        let (dropped_indexes, dropped_changes) = (marks(), marks());
        Self {
            store: Store::new(engine, clock),
            known: Arc::default(),
            statistics: Arc::default(),
            snapshots_held: Arc::default(),
            dropped_indexes,
            dropped_changes,
            news: Arc::default(),
            build_pace: Arc::default(),
            build_round: Arc::default(),
            build_troubles: Arc::default(),
            build_waits: Arc::default(),
            builds: Arc::default(),
            changes: Arc::default(),
            index_settles_ms: None,
        }
    }

    /// The same service, whose index builder waits this long for writes of other processes that do
    /// not know of a new index. Only a test without such writes may shorten it.
    pub fn with_index_settles_ms(self, ms: u64) -> Self {
        Self { index_settles_ms: Some(ms), ..self }
    }

    /// The same service, waiting with `pace` before it retries a commit. Engines with other writers
    /// need a real pace.
    pub fn with_pace(self, pace: Arc<dyn Pace>) -> Self {
        Self { store: self.store.with_pace(pace), ..self }
    }

    /// The same service, which caches at most `tables_max` tables.
    pub fn with_known_tables_max(self, tables_max: usize) -> Self {
        Self { known: Arc::new(KnownTables::new(tables_max)), ..self }
    }

    /// The nature of the service's engine.
    pub fn nature(&self) -> Nature {
        self.store.nature()
    }

    /// Whether cached tables need no verification.
    pub(crate) fn remembers_facts(&self) -> bool {
        self.nature().only_we_change_it()
    }

    /// A view of the engine, in which tables are found.
    pub(crate) async fn view(&self) -> Result<TableView<'_>, TableError> {
        let before = self.known.now();
        Ok(TableView { service: self, before, entries: self.store.engine.view().await? })
    }

    /// Keeps a table that is about to be deleted out of the cache. Hints need no guard.
    pub(crate) fn guard_deletion(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Option<DeletionGuard> {
        self.remembers_facts().then(|| self.known.guard_deletion(account, name))
    }

    /// Removes a cached table that turned out to be wrong.
    pub(crate) fn forget(&self, account: &AccountName, name: &TableName) {
        self.known.forget(account, name);
    }

    /// Reads something from a cached table; it may be outdated if others write to the store.
    pub(crate) fn find_cached<T>(
        &self,
        account: &AccountName,
        name: &TableName,
        about: impl Fn(&OpenTable) -> T,
    ) -> Option<T> {
        self.known.find(account, name, about)
    }

    /// A cached table that the caller must verify by using it; `None` if cached tables are always correct.
    pub(crate) fn hint(&self, account: &AccountName, name: &TableName) -> Option<OpenTable> {
        match self.remembers_facts() {
            true => None,
            false => self.known.find(account, name, OpenTable::clone),
        }
    }

    /// Finds a table as it is now, or was: if cached tables are hints, the caller must verify it.
    pub(crate) async fn open_to_prove(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<OpenTable, TableError> {
        match self.known.find(account, name, OpenTable::clone) {
            Some(table) => Ok(table),
            None => self.look_up(account, name).await,
        }
    }

    /// Finds a table as it is now.
    pub(crate) async fn open_now(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<OpenTable, TableError> {
        match self.remembers_facts() {
            true => self.open_to_prove(account, name).await,
            false => self.look_up(account, name).await,
        }
    }

    /// Finds a table in the catalog, and caches it.
    async fn look_up(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<OpenTable, TableError> {
        let before = self.known.now();
        let catalog = Key::from(key::catalog(account, name.lower()));
        let found = self.store.read_one(&catalog).await?;
        let table = opened(catalog, found)?;
        self.known.remember(before, account, name, &table);
        Ok(table)
    }

    /// Retries until an attempt is done, or the service is busy.
    pub(crate) async fn retry<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T, TableError>
    where
        F: Future<Output = Attempt<T>>,
    {
        Ok(self.store.retry(attempt).await?)
    }
}

impl Source for TableService {
    fn report(&self) -> Vec<Family> {
        let waiting = Value::Gauge(self.store.drops_waiting() as f64);
        let help = "Dropped tables whose space is not yet reclaimed";
        let mut families = self.builds.report();
        families.extend(self.changes.report());
        families.push(Family::of("lazuli_reclaim_waiting_tables", help, &waiting));
        families
    }
}

/// A view of the engine, and the table cache.
pub(crate) struct TableView<'s> {
    service: &'s TableService,
    /// When it was taken, or earlier.
    before: Moment,
    pub(crate) entries: Arc<dyn View>,
}

impl<'s> TableView<'s> {
    /// A view as of a snapshot.
    pub(crate) fn of_snapshot(service: &'s TableService, entries: Arc<dyn View>) -> Self {
        Self { service, before: service.known.now(), entries }
    }

    /// Finds a table in the view, which may be old, so the result is not cached.
    pub(crate) async fn open_as_it_was(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<OpenTable, TableError> {
        let catalog = Key::from(key::catalog(account, name.lower()));
        let found = self.entries.get(catalog.as_slice()).await?;
        opened(catalog, found)
    }
}

impl TableView<'_> {
    /// Finds a table for a query, with the settings that hold in this very view: an index that
    /// became ready later may lack entries here.
    pub(crate) async fn table(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<(TableId, Option<Arc<TableSettings>>), TableError> {
        let plain = |table: &OpenTable| table.settings.is_none().then_some(table.id);
        let known = match self.service.remembers_facts() {
            true => self.service.known.find(account, name, plain).flatten(),
            false => None,
        };
        if let Some(id) = known {
            return Ok((id, None));
        }
        let table = self.open(account, name).await?;
        Ok((table.id, table.settings))
    }

    /// Finds a table for reading one entity, with settings that hold at some moment of the read.
    pub(crate) async fn table_to_get(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<(TableId, Option<Arc<TableSettings>>), TableError> {
        let known = match self.service.remembers_facts() {
            true => {
                let facts = |table: &OpenTable| (table.id, table.settings.clone());
                self.service.known.find(account, name, facts)
            }
            false => None,
        };
        match known {
            Some(known) => Ok(known),
            None => {
                let table = self.open(account, name).await?;
                Ok((table.id, table.settings))
            }
        }
    }

    /// Finds a table for reading.
    pub(crate) async fn table_id(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<TableId, TableError> {
        let known = match self.service.remembers_facts() {
            true => self.service.known.find(account, name, |table| table.id),
            false => None,
        };
        match known {
            Some(id) => Ok(id),
            None => Ok(self.open(account, name).await?.id),
        }
    }

    /// Finds a table in the view, and caches it.
    async fn open(&self, account: &AccountName, name: &TableName) -> Result<OpenTable, TableError> {
        let catalog = Key::from(key::catalog(account, name.lower()));
        let found = self.entries.get(catalog.as_slice()).await?;
        let table = opened(catalog, found)?;
        self.service.known.remember(self.before, account, name, &table);
        Ok(table)
    }
}

/// The table whose catalog record `found` is.
pub(crate) fn opened(catalog: Key, found: Option<Found>) -> Result<OpenTable, TableError> {
    let found = found.ok_or(TableError::TableNotFound)?;
    let lives = Check { key: catalog, expect: Expect::At(found.revision) };
    let (id, settings) = CatalogRecord::decode_facts(&found.value)?;
    let settings = settings.map(Arc::new);
    let derive = settings.as_ref().and_then(|settings| Derivation::of(id, settings));
    Ok(OpenTable { id, lives, settings, derive })
}

/// The Timestamp of a revision. The clock, and so every revision, ends with the year 9999.
pub(crate) fn timestamp(revision: Revision) -> Timestamp {
    Timestamp::from_ticks(revision.0).unwrap_or(Timestamp::MAX)
}
