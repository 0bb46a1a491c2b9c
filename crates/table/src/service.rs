//! [`TableService`], and what all its verbs share: finding a table, and committing under it.
//!
//! The verbs stand where their meaning does: `tables.rs` creates and deletes tables and keeps their
//! policies, `list.rs` lists them, `query.rs` reads entities, `mutate.rs` and `batch.rs` change them.

use crate::error::TableError;
use crate::known_tables::{Bar, KnownTables, Moment};
use crate::table_ids::TableIds;
use lazuli_engine::{Check, Engine, Expect, Key, Revision, View};
use lazuli_layout::table::CatalogRecord;
use lazuli_layout::{TableId, key};
use lazuli_model::{AccountName, Clock, TableName, Timestamp};
use std::sync::Arc;

/// Attempts at one commit before the service says that it is busy.
pub(crate) const COMMIT_ATTEMPTS_MAX: usize = 32;

/// The table service of every account, on one engine. Cheap to clone.
#[derive(Clone)]
pub struct TableService {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<TableIds>,
    known: Option<Arc<KnownTables>>,
}

/// A table as a view shows it.
#[derive(Clone)]
pub(crate) struct OpenTable {
    pub(crate) id: TableId,
    /// Holds as long as the table is not dropped: the first check of every commit under it.
    pub(crate) lives: Check,
}

impl TableService {
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Self {
        Self { engine, clock, ids: Arc::default(), known: None }
    }

    /// The same service, which remembers where it found tables. It and its clones must be the only
    /// ones that write to the engine, and the engine must not lose what it has acknowledged.
    pub fn remembering_tables(self) -> Self {
        Self { known: Some(Arc::default()), ..self }
    }

    /// A view of the engine, in which tables are found.
    pub(crate) async fn view(&self) -> Result<TableView<'_>, TableError> {
        let before = self.known.as_ref().map(|known| known.now());
        Ok(TableView { service: self, before, entries: self.engine.view().await? })
    }

    /// Makes sure that a table which is about to be deleted is not remembered.
    pub(crate) fn bar(&self, account: &AccountName, name: &TableName) -> Option<Bar> {
        self.known.as_ref().map(|known| known.bar(account, name))
    }

    /// Finds a table in a view.
    pub(crate) async fn open(
        &self,
        view: &dyn View,
        account: &AccountName,
        name: &TableName,
    ) -> Result<OpenTable, TableError> {
        let key = key::catalog(account, name.lower());
        let found = view.get(&key).await?.ok_or(TableError::TableNotFound)?;
        let lives = Check { key: key.into(), expect: Expect::At(found.revision) };
        Ok(OpenTable { id: CatalogRecord::decode_id(&found.value)?, lives })
    }

    /// Finds a table as it is now.
    pub(crate) async fn open_now(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<OpenTable, TableError> {
        let remembered =
            self.known.as_ref().and_then(|known| known.find(account, name, OpenTable::clone));
        match remembered {
            Some(table) => Ok(table),
            None => self.view().await?.open(account, name).await,
        }
    }

    pub(crate) fn now(&self) -> Revision {
        Revision(self.clock.now().ticks())
    }

    /// Whether a commit whose answer was lost has certainly not happened.
    ///
    /// Had it happened, no key it wrote could still carry a revision older than `not_before`:
    /// revisions of a key only grow, and a deleted key carries none. Anything else proves nothing,
    /// and neither does a store that cannot be read.
    pub(crate) async fn did_not_happen(&self, not_before: Revision, written: &[Key]) -> bool {
        let Ok(view) = self.engine.view().await else { return false };
        let Ok(found) = view.multi_get(written).await else { return false };
        found.iter().flatten().any(|found| found.revision < not_before)
    }
}

/// A view of the engine, and what is remembered of tables.
pub(crate) struct TableView<'s> {
    service: &'s TableService,
    /// When it was taken, or before.
    before: Option<Moment>,
    pub(crate) entries: Arc<dyn View>,
}

impl TableView<'_> {
    /// Finds a table for what only reads it.
    pub(crate) async fn table_id(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<TableId, TableError> {
        let known = self.service.known.as_ref();
        match known.and_then(|known| known.find(account, name, |table| table.id)) {
            Some(id) => Ok(id),
            None => Ok(self.open(account, name).await?.id),
        }
    }

    /// Finds a table in the view, and remembers it.
    async fn open(&self, account: &AccountName, name: &TableName) -> Result<OpenTable, TableError> {
        let table = self.service.open(&*self.entries, account, name).await?;
        if let (Some(known), Some(before)) = (&self.service.known, self.before) {
            known.remember(before, account, name, &table);
        }
        Ok(table)
    }
}

/// The Timestamp that a revision stands for. The clock, and so every revision, ends with year 9999.
pub(crate) fn timestamp(revision: Revision) -> Timestamp {
    Timestamp::from_ticks(revision.0).unwrap_or(Timestamp::MAX)
}
