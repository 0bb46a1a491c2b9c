//! Creates and deletes tables, keeps their access policies and the properties of the service.

use crate::error::TableError;
use crate::list::TableInfo;
use crate::scan::step;
use crate::service::{OpenTable, TableService};
use bytes::Bytes;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{
    BoxError, Check, Commit, CommitError, Current, Expect, Found, Key, KeyRange, Modify, Reclaimed,
    Revision, Visit, Write, Writers,
};
use lazuli_layout::table::{self as stored, CatalogRecord};
use lazuli_layout::{TableId, key};
use lazuli_model::limits::REQUEST_MS_MAX;
use lazuli_model::{
    AccessPolicies, AccountName, ServiceProperties, ServicePropertiesPatch, TableName,
};
use std::sync::Arc;

/// Marks of dropped tables that are looked at to find one whose time has come: the oldest ids come
/// first, and most often the oldest drops.
const RECLAIM_ROWS_EXPECTED: usize = 2;

impl TableService {
    /// Create Table.
    pub async fn create_table(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<(), TableError> {
        // Most creations of a table that exists end here, without a table id.
        match self.open_now(account, name).await {
            Err(TableError::TableNotFound) => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(TableError::TableAlreadyExists),
        }
        let record = CatalogRecord {
            id: self.next_table_id().await?,
            name: name.clone(),
            created: self.clock.now(),
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
            ..Commit::new(self.now(), vec![Write::Put(key.clone(), record.encode().into())])
        };
        Attempt::Done(match self.engine.commit(commit).await {
            Ok(_) => Ok(()),
            Err(CommitError::CheckFailed { .. }) => Err(TableError::TableAlreadyExists),
            Err(CommitError::Conflict) => return Attempt::Again,
            // Nobody else has this id: if the catalog shows it, the table is ours.
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
        let found = self.read_one(key::catalog(account, name.lower())).await?;
        let found = found.ok_or(TableError::TableNotFound)?;
        Ok(CatalogRecord::decode(&found.value)?.into())
    }

    /// Delete Table: one small commit, whatever the table holds. The space is given back by
    /// [`reclaim_some`](Self::reclaim_some).
    pub async fn delete_table(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<(), TableError> {
        let dropped = stored::encode_reclaim(self.clock.now());
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
        match self.read_one(key::service_properties(account)).await? {
            Some(found) => Ok(stored::decode_service_properties(&found.value)?),
            None => Ok(ServiceProperties::default()),
        }
    }

    /// Set Table Service Properties: sections that the patch lacks keep their values (T-9.7).
    pub async fn set_service_properties(
        &self,
        account: &AccountName,
        patch: ServicePropertiesPatch,
    ) -> Result<(), TableError> {
        let key = Key::from(key::service_properties(account));
        let function: Arc<dyn Modify> = Arc::new(PropertiesPatch::new(patch));
        self.retry(|| self.try_to_write(Write::Modify(key.clone(), Arc::clone(&function)))).await?
    }

    async fn try_to_write(&self, write: Write) -> Attempt<Result<(), TableError>> {
        match self.engine.commit(Commit::new(self.now(), vec![write])).await {
            Ok(_) => Attempt::Done(Ok(())),
            Err(CommitError::Conflict) => Attempt::Again,
            Err(error) => Attempt::Done(Err(error.into())),
        }
    }

    /// Gives back some of the space of a dropped table. Says [`Reclaimed::Fully`] when there is none
    /// that could be given back now.
    ///
    /// The engine wants nobody to look at what it reclaims. No commit does, after the drop; a query
    /// may, whose view is older than the drop, for as long as a view may be used.
    pub async fn reclaim_some(&self) -> Result<Reclaimed, TableError> {
        let Some(table) = self.reclaimable_table().await? else {
            return Ok(Reclaimed::Fully);
        };
        let range = key::table_range(table);
        let range = KeyRange::new(range.start, range.end);
        if self.engine.reclaim(range).await? == Reclaimed::Fully {
            let forget = Write::Delete(key::reclaim(table).into());
            let commit = Commit::new(self.now(), vec![forget]);
            match self.engine.commit(commit).await {
                // Reclaiming and forgetting are both idempotent: the next call does it again.
                Ok(_) | Err(CommitError::Conflict | CommitError::Undetermined(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Reclaimed::Partly)
    }

    /// Commits what `writes` says for a table, on the condition that the table lives at that very
    /// point: a guard would let two deletions both succeed, and policies outlive their table.
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
        let not_before = self.now();
        let writes = writes(&table);
        let keys: Vec<Key> = writes.iter().filter_map(Write::key).cloned().collect();
        let commit = Commit { checks: vec![table.lives], ..Commit::new(not_before, writes) };
        match self.engine.commit(commit).await {
            Ok(_) => Attempt::Done(Ok(())),
            Err(CommitError::CheckFailed { .. }) => {
                self.forget(account, name);
                Attempt::Again
            }
            Err(CommitError::Conflict) => Attempt::Again,
            Err(CommitError::Undetermined(_)) if self.did_not_happen(not_before, &keys).await => {
                Attempt::Again
            }
            Err(error) => Attempt::Done(Err(error.into())),
        }
    }

    async fn read_one(&self, key: Vec<u8>) -> Result<Option<Found>, TableError> {
        let key = Key::from(key);
        Ok(self.engine.read(std::slice::from_ref(&key)).await?.pop().flatten())
    }

    /// How long after its drop a table may still be read or written by requests that began before.
    fn drop_settles_ms(&self) -> u64 {
        let view_ms_max = self.engine.limits().view_ms_max;
        match self.nature().writers {
            Writers::Sole => view_ms_max,
            // A commit of another process that saw the table alive may still be under way.
            Writers::Many => view_ms_max.saturating_add(REQUEST_MS_MAX),
        }
    }

    /// A dropped table that no query can be reading any more.
    async fn reclaimable_table(&self) -> Result<Option<TableId>, TableError> {
        let view = self.engine.view().await?;
        let (now, settles_ms) = (self.clock.now(), self.drop_settles_ms());
        let mut found = None;
        let range = key::reclaim_range();
        let mut look = |key: &[u8], value: &[u8], _: Revision| {
            let dropped = stored::decode_reclaim(value)?;
            if now.millis_since(dropped) < settles_ms {
                return Ok(Visit::Continue);
            }
            found = Some(key::decode_reclaim(key)?);
            Ok(Visit::StopBefore)
        };
        let range = KeyRange::new(range.start, range.end);
        step(&*view, range, RECLAIM_ROWS_EXPECTED, &mut look).await?;
        Ok(found)
    }
}

/// Changes the stored properties where the commit is ordered, so that two patches never undo each
/// other.
#[derive(Debug)]
struct PropertiesPatch {
    patch: ServicePropertiesPatch,
    held_bytes: usize,
}

impl PropertiesPatch {
    /// It holds about what it stores: the lists of its CORS rules.
    fn new(patch: ServicePropertiesPatch) -> Self {
        let stored = ServiceProperties::default().patched(patch.clone());
        let held_bytes = stored::encode_service_properties(&stored).len();
        Self { patch, held_bytes }
    }
}

impl Modify for PropertiesPatch {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let properties = match current {
            Some(current) => stored::decode_service_properties(current.value)?,
            None => ServiceProperties::default(),
        };
        let properties = properties.patched(self.patch.clone());
        Ok(Some(stored::encode_service_properties(&properties)))
    }

    fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}
