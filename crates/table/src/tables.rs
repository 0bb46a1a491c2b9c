//! Creates and deletes tables; reads and sets their access policies and the service properties.

use crate::error::TableError;
use crate::list::TableInfo;
use crate::service::{OpenTable, TableService};
use bytes::Bytes;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{Check, Commit, CommitError, Expect, Key, Reclaimed, Write};
use lazuli_layout::settings::TableSettings;
use lazuli_layout::table::{self as stored, CatalogRecord};
use lazuli_layout::{TableId, key};
use lazuli_model::{
    AccessPolicies, AccountName, ServiceProperties, ServicePropertiesPatch, TableName, Timestamp,
};

impl TableService {
    /// Create Table.
    pub async fn create_table(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<(), TableError> {
        // Most attempts to create an existing table end here, without using a table id.
        match self.open_now(account, name).await {
            Err(TableError::TableNotFound) => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(TableError::TableAlreadyExists),
        }
        let record = CatalogRecord {
            id: TableId(self.store.next_id().await?),
            name: name.clone(),
            created: self.store.clock.now(),
            settings: TableSettings::default(),
        };
        let key: Key = key::catalog(account, name.lower()).into();
        self.retry(|| self.try_to_create(account, name, &key, &record)).await?
    }

    async fn try_to_create(
        &self,
        account: &AccountName,
        name: &TableName,
        key: &Key,
        record: &CatalogRecord,
    ) -> Attempt<Result<(), TableError>> {
        let commit = Commit {
            checks: vec![Check { key: key.clone(), expect: Expect::Absent }],
            ..Commit::new(self.store.now(), vec![Write::Put(key.clone(), record.encode().into())])
        };
        Attempt::Done(match self.store.engine.commit(commit).await {
            Ok(_) => Ok(()),
            Err(CommitError::CheckFailed { .. }) => Err(TableError::TableAlreadyExists),
            Err(CommitError::Conflict) => return Attempt::Again,
            // Only this creation has the id: if the catalog shows it, the table is ours.
            Err(CommitError::Undetermined(_)) => match self.open_now(account, name).await {
                Ok(table) if table.id == record.id => Ok(()),
                _ => Err(TableError::Undetermined),
            },
            Err(error) => Err(error.into()),
        })
    }

    /// Reads one table of the list.
    pub async fn get_table(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<TableInfo, TableError> {
        let key = key::catalog(account, name.lower()).into();
        let found = self.store.read_one(&key).await?;
        let found = found.ok_or(TableError::TableNotFound)?;
        Ok(CatalogRecord::decode(&found.value)?.into())
    }

    /// Delete Table: one small commit, whatever the size. The space is reclaimed by
    /// [`reclaim_some`](Self::reclaim_some).
    pub async fn delete_table(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<(), TableError> {
        let dropped = stored::encode_reclaim(self.store.clock.now());
        let writes = |table: &OpenTable| {
            vec![
                Write::Delete(table.lives.key.clone()),
                Write::Delete(key::access_policies(table.id).into()),
                Write::Put(key::reclaim(table.id).into(), dropped.clone().into()),
            ]
        };
        let guard = self.guard_deletion(account, name);
        let outcome = self.commit_under(account, name, writes).await;
        let is_known = matches!(
            outcome,
            Ok(())
                | Err(TableError::TableNotFound | TableError::Busy | TableError::TooLarge { .. })
        );
        if let (true, Some(guard)) = (is_known, guard) {
            guard.release();
        }
        if outcome.is_ok() {
            self.store.dropped();
            self.news.tell_all();
        }
        outcome
    }

    /// Get Table ACL.
    pub async fn access_policies(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<AccessPolicies, TableError> {
        let view = self.view().await?;
        let table = view.table_id(account, name).await?;
        match view.entries.get(&key::access_policies(table)).await? {
            Some(found) => Ok(stored::decode_access_policies(&found.value)?),
            None => Ok(AccessPolicies::default()),
        }
    }

    /// Set Table ACL.
    pub async fn set_access_policies(
        &self,
        account: &AccountName,
        name: &TableName,
        policies: AccessPolicies,
    ) -> Result<(), TableError> {
        let value = Bytes::from(stored::encode_access_policies(&policies));
        let writes = |table: &OpenTable| {
            let key = key::access_policies(table.id).into();
            vec![Write::Put(key, value.clone())]
        };
        self.commit_under(account, name, writes).await
    }

    /// Get Table Service Properties.
    pub async fn service_properties(
        &self,
        account: &AccountName,
    ) -> Result<ServiceProperties, TableError> {
        Ok(self.store.service_properties(key::service_properties(account)).await?)
    }

    /// Set Table Service Properties: sections missing from the patch keep their values (T-9.7).
    pub async fn set_service_properties(
        &self,
        account: &AccountName,
        patch: ServicePropertiesPatch,
    ) -> Result<(), TableError> {
        let key = key::service_properties(account);
        Ok(self.store.set_service_properties(key, patch).await?)
    }

    /// Reclaims some of the space of a dropped table, index or change. Returns [`Reclaimed::Fully`] if
    /// nothing can be reclaimed at `now`, the time of the clock that stamps the revisions.
    ///
    /// The engine requires that no one reads a range while it is reclaimed. After the drop no commit
    /// does; a query may, as long as a view older than the drop may be used.
    pub async fn reclaim_some(&self, now: Timestamp) -> Result<Reclaimed, TableError> {
        if self.holds_snapshots() {
            return Ok(Reclaimed::Fully);
        }
        let Some(mark) = self.store.settled_mark(key::reclaim_range(), now).await? else {
            return self.reclaim_some_index(now).await;
        };
        let table = key::decode_reclaim(&mark.key)?;
        let derived = key::index::of_table(table).into_iter().chain(key::feed::of_table(table));
        let derived = derived.chain(key::expiry::of_table(table));
        let ranges = derived.chain([key::table_range(table)]);
        self.store.reclaim_marked(mark, ranges).await?;
        Ok(Reclaimed::Partly)
    }

    /// Reclaims some of the space of a dropped index.
    async fn reclaim_some_index(&self, now: Timestamp) -> Result<Reclaimed, TableError> {
        let marks = &self.dropped_indexes;
        let Some(mark) = marks.settled_mark(key::index::dropped(), now).await? else {
            return self.reclaim_some_changes(now).await;
        };
        let index = key::index::decode_dropped(&mark.key)?;
        let ranges = [index.entries(), index.owners(), key::expiry::moments(index)];
        marks.reclaim_marked(mark, ranges).await?;
        Ok(Reclaimed::Partly)
    }

    /// Commits `writes` for a table, on the condition that the table exists at the point of the
    /// commit: with a guard, two deletions could both succeed, and policies could outlive their table.
    async fn commit_under(
        &self,
        account: &AccountName,
        name: &TableName,
        writes: impl Fn(&OpenTable) -> Vec<Write>,
    ) -> Result<(), TableError> {
        self.retry(|| self.try_to_commit_under(account, name, &writes)).await?
    }

    async fn try_to_commit_under(
        &self,
        account: &AccountName,
        name: &TableName,
        writes: impl Fn(&OpenTable) -> Vec<Write>,
    ) -> Attempt<Result<(), TableError>> {
        let table = match self.open_to_prove(account, name).await {
            Ok(table) => table,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let not_before = self.store.now();
        let writes = writes(&table);
        let keys: Vec<Key> = writes.iter().filter_map(Write::key).cloned().collect();
        let commit = Commit { checks: vec![table.lives], ..Commit::new(not_before, writes) };
        match self.store.engine.commit(commit).await {
            Ok(_) => Attempt::Done(Ok(())),
            Err(CommitError::CheckFailed { .. }) => {
                self.forget(account, name);
                Attempt::Again
            }
            Err(CommitError::Conflict) => Attempt::Again,
            Err(CommitError::Undetermined(_))
                if self.store.did_not_happen(not_before, &keys).await =>
            {
                Attempt::Again
            }
            Err(error) => Attempt::Done(Err(error.into())),
        }
    }
}
