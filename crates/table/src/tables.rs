//! Creates and deletes tables, keeps their access policies and the properties of the service.

use crate::error::TableError;
use crate::list::TableInfo;
use crate::scan::step;
use crate::service::{COMMIT_ATTEMPTS_MAX, OpenTable, TableService};
use crate::yielding::yield_now;
use bytes::Bytes;
use lazuli_engine::{
    BoxError, Check, Commit, CommitError, Expect, Key, KeyRange, Modify, Reclaimed, Revision,
    Visit, Write,
};
use lazuli_layout::table::{self as stored, CatalogRecord};
use lazuli_layout::{TableId, key};
use lazuli_model::limits::REQUEST_MS_MAX;
use lazuli_model::{
    AccessPolicies, AccountName, ServiceProperties, ServicePropertiesPatch, TableName,
};
use std::sync::Arc;

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
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let commit = Commit {
                not_before: self.now(),
                checks: vec![Check { key: key.clone(), expect: Expect::Absent }],
                writes: vec![Write::Put(key.clone(), record.encode().into())],
            };
            match self.engine.commit(commit).await {
                Ok(_) => return Ok(()),
                Err(CommitError::CheckFailed { .. }) => return Err(TableError::TableAlreadyExists),
                Err(CommitError::Conflict) => yield_now().await,
                // Nobody else has this id: if the catalog shows it, the table is ours.
                Err(CommitError::Undetermined(_)) => match self.open_now(account, name).await {
                    Ok(table) if table.id == record.id => return Ok(()),
                    _ => return Err(TableError::Undetermined),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Err(TableError::Busy)
    }

    /// Reads one table of the list.
    pub async fn get_table(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<TableInfo, TableError> {
        let view = self.engine.view().await?;
        let found = view.get(&key::catalog(account, name.lower())).await?;
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
        let bar = self.bar(account, name);
        let outcome = self.commit_under(account, name, writes).await;
        let is_known = matches!(
            outcome,
            Ok(())
                | Err(TableError::TableNotFound | TableError::Busy | TableError::TooLarge { .. })
        );
        if let (true, Some(bar)) = (is_known, bar) {
            bar.lift();
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
        let view = self.engine.view().await?;
        match view.get(&key::service_properties(account)).await? {
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
        let function: Arc<dyn Modify> = Arc::new(PropertiesPatch(patch));
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let commit = Commit {
                not_before: self.now(),
                checks: Vec::new(),
                writes: vec![Write::Modify(key.clone(), Arc::clone(&function))],
            };
            match self.engine.commit(commit).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Conflict) => yield_now().await,
                Err(error) => return Err(error.into()),
            }
        }
        Err(TableError::Busy)
    }

    /// Gives back some of the space of a dropped table. Says [`Reclaimed::Fully`] when there is none
    /// that could be given back now.
    ///
    /// The engine wants nobody to look at what it reclaims. No commit can, after the drop; a query
    /// may, whose view is older than the drop, but no request lives longer than
    /// [`REQUEST_MS_MAX`].
    pub async fn reclaim_some(&self) -> Result<Reclaimed, TableError> {
        let Some(table) = self.reclaimable_table().await? else {
            return Ok(Reclaimed::Fully);
        };
        let range = key::table_range(table);
        let range = KeyRange::new(range.start, range.end);
        if self.engine.reclaim(range).await? == Reclaimed::Fully {
            let commit = Commit {
                not_before: self.now(),
                checks: Vec::new(),
                writes: vec![Write::Delete(key::reclaim(table).into())],
            };
            match self.engine.commit(commit).await {
                // Reclaiming and forgetting are both idempotent: the next call does it again.
                Ok(_) | Err(CommitError::Conflict | CommitError::Undetermined(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Reclaimed::Partly)
    }

    /// Commits what `writes` says for a table, under the condition that the table lives.
    async fn commit_under(
        &self,
        account: &AccountName,
        name: &TableName,
        writes: impl Fn(&OpenTable) -> Vec<Write>,
    ) -> Result<(), TableError> {
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let table = self.open_now(account, name).await?;
            let not_before = self.now();
            let writes = writes(&table);
            let keys: Vec<Key> = writes.iter().map(|write| write.key().clone()).collect();
            let checks = vec![table.lives];
            match self.engine.commit(Commit { not_before, checks, writes }).await {
                Ok(_) => return Ok(()),
                Err(CommitError::CheckFailed { .. } | CommitError::Conflict) => {}
                Err(CommitError::Undetermined(_))
                    if self.did_not_happen(not_before, &keys).await => {}
                Err(error) => return Err(error.into()),
            }
            yield_now().await;
        }
        Err(TableError::Busy)
    }

    /// A dropped table that no query can be reading any more.
    async fn reclaimable_table(&self) -> Result<Option<TableId>, TableError> {
        let view = self.engine.view().await?;
        let now = self.clock.now();
        let mut found = None;
        let range = key::reclaim_range();
        let mut look = |key: &[u8], value: &[u8], _: Revision| {
            let dropped = stored::decode_reclaim(value)?;
            if now.millis_since(dropped) < REQUEST_MS_MAX {
                return Ok(Visit::Continue);
            }
            found = Some(key::decode_reclaim(key)?);
            Ok(Visit::StopBefore)
        };
        step(&*view, KeyRange::new(range.start, range.end), &mut look).await?;
        Ok(found)
    }
}

/// Changes the stored properties where the commit is ordered, so that two patches never undo each
/// other.
#[derive(Debug)]
struct PropertiesPatch(ServicePropertiesPatch);

impl Modify for PropertiesPatch {
    fn modify(&self, current: Option<&[u8]>) -> Result<Vec<u8>, BoxError> {
        let properties = match current {
            Some(bytes) => stored::decode_service_properties(bytes)?,
            None => ServiceProperties::default(),
        };
        let properties = properties.patched(self.0.clone());
        Ok(stored::encode_service_properties(&properties))
    }
}
