//! Reads and changes the settings of a table, which are part of its catalog record.

use crate::error::TableError;
use crate::service::TableService;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{Check, Commit, CommitError, Expect, Found, Key, Write};
use lazuli_layout::settings::{BuildRecord, IndexState, TableIndex, TableSettings, decode_used};
use lazuli_layout::table::{self as stored, CatalogRecord};
use lazuli_layout::{IndexId, key};
use lazuli_model::limits::INDEX_PROPERTIES_MAX;
use lazuli_model::{
    AccountName, IndexDefinition, IndexDefinitions, IndexName, TableName, Timestamp,
};

/// A declared index, and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStatus {
    pub definition: IndexDefinition,
    pub state: IndexState,
    /// When it entered its state.
    pub since: Timestamp,
    /// Entities examined so far.
    pub done: u64,
    /// Entities to examine, an estimate.
    pub total: u64,
    /// Whether the server declared it by itself.
    pub is_automatic: bool,
    /// Why its building waits, if the last step failed.
    pub trouble: Option<String>,
    /// When it was last used, to within an hour; known only for automatic indexes.
    pub last_used: Option<Timestamp>,
}

impl TableService {
    /// The indexes of a table.
    pub async fn indexes(
        &self,
        account: &AccountName,
        name: &TableName,
    ) -> Result<Vec<IndexStatus>, TableError> {
        let view = self.store.engine.view().await?;
        let found = view.get(&key::catalog(account, name.lower())).await?;
        let record = CatalogRecord::decode(&found.ok_or(TableError::TableNotFound)?.value)?;
        let mut statuses = Vec::new();
        for index in record.settings.indexes {
            let build = match index.state {
                IndexState::Building => view.get(&index.id(record.id).build()).await?,
                IndexState::Ready | IndexState::Failed(_) => None,
            };
            let used = match index.is_automatic {
                true => view.get(&index.id(record.id).used()).await?,
                false => None,
            };
            let last_used = used.map(|found| decode_used(&found.value)).transpose()?;
            statuses.push(IndexStatus { last_used, ..status(index, build.as_ref())? });
        }
        Ok(statuses)
    }

    /// Declares all indexes of a table: new ones are built, and those not named are dropped. An
    /// index with a new definition, or whose building failed, is built again.
    pub async fn declare_indexes(
        &self,
        account: &AccountName,
        name: &TableName,
        definitions: &IndexDefinitions,
    ) -> Result<(), TableError> {
        let now = self.store.clock.now();
        self.change_catalog(account, name, |record| {
            let mut writes = Vec::new();
            let is_kept = |index: &TableIndex| {
                index.is_maintained()
                    && definitions.iter().any(|definition| *definition == index.definition)
            };
            let table = record.id;
            let settings = &mut record.settings;
            for dropped in settings.indexes.iter().filter(|index| !is_kept(index)) {
                writes.extend(drop_index(dropped.id(table), now));
            }
            settings.indexes.retain(is_kept);
            let mut indexes = Vec::new();
            for definition in definitions.iter() {
                let kept = settings.indexes.iter().find(|index| index.definition == *definition);
                if let Some(kept) = kept {
                    // Keep the case of the name as given last, and that a user now wants the index.
                    let definition = definition.clone();
                    indexes.push(TableIndex { definition, is_automatic: false, ..kept.clone() });
                    continue;
                }
                let index = new_index(settings, definition.clone(), now, false);
                let build = BuildRecord::new(account.clone(), name.clone());
                writes.push(Write::Put(index.id(table).build().into(), build.encode().into()));
                indexes.push(index);
            }
            settings.indexes = indexes;
            writes
        })
        .await
    }

    /// Builds an index again from the entities, whatever its state. Queries do not use it until it
    /// is ready. Returns whether the table has such an index.
    pub async fn rebuild_index(
        &self,
        account: &AccountName,
        name: &TableName,
        index: &IndexName,
    ) -> Result<bool, TableError> {
        let now = self.store.clock.now();
        let is_known = std::sync::atomic::AtomicBool::new(false);
        self.change_catalog(account, name, |record| {
            let table = record.id;
            let place =
                record.settings.indexes.iter().position(|known| known.definition.name() == index);
            is_known.store(place.is_some(), std::sync::atomic::Ordering::Relaxed);
            let Some(old) = place.and_then(|place| record.settings.indexes.get(place).cloned())
            else {
                return Vec::new();
            };
            let new =
                new_index(&mut record.settings, old.definition.clone(), now, old.is_automatic);
            let build = BuildRecord::new(account.clone(), name.clone());
            let mut writes: Vec<Write> = drop_index(old.id(table), now).into();
            writes.push(Write::Put(new.id(table).build().into(), build.encode().into()));
            if let Some(slot) = place.and_then(|place| record.settings.indexes.get_mut(place)) {
                *slot = new;
            }
            writes
        })
        .await?;
        Ok(is_known.into_inner())
    }

    /// Rewrites the catalog record of a table, together with the writes that `change` returns. Every
    /// write of an entity that began before fails its guard and starts again under the new record.
    pub(crate) async fn change_catalog(
        &self,
        account: &AccountName,
        name: &TableName,
        change: impl Fn(&mut CatalogRecord) -> Vec<Write>,
    ) -> Result<(), TableError> {
        let guard = self.guard_deletion(account, name);
        let outcome = self.retry(|| self.try_to_change(account, name, &change)).await;
        let outcome = outcome.unwrap_or_else(Err);
        let is_known = !matches!(outcome, Err(TableError::Undetermined | TableError::Engine(_)));
        if let (true, Some(guard)) = (is_known, guard) {
            guard.release();
        }
        self.forget(account, name);
        outcome
    }

    async fn try_to_change(
        &self,
        account: &AccountName,
        name: &TableName,
        change: impl Fn(&mut CatalogRecord) -> Vec<Write>,
    ) -> Attempt<Result<(), TableError>> {
        let catalog = Key::from(key::catalog(account, name.lower()));
        let (old, revision) = match self.catalog_record(&catalog).await {
            Ok(found) => found,
            Err(error) => return Attempt::Done(Err(error)),
        };
        let mut new = old.clone();
        let mut writes = change(&mut new);
        if new == old && writes.is_empty() {
            return Attempt::Done(Ok(()));
        }
        let value = new.encode();
        writes.push(Write::Put(catalog.clone(), value.clone().into()));
        let commit = Commit {
            checks: vec![Check { key: catalog.clone(), expect: Expect::At(revision) }],
            ..Commit::new(self.store.now(), writes)
        };
        Attempt::Done(match self.store.engine.commit(commit).await {
            Ok(_) => Ok(()),
            Err(CommitError::CheckFailed { .. } | CommitError::Conflict) => return Attempt::Again,
            Err(CommitError::Undetermined(_)) => match self.store.read_one(&catalog).await {
                // Whichever process wrote it, the table is as requested, and the other writes came with it.
                Ok(Some(found)) if found.value == value => Ok(()),
                Ok(Some(found)) if found.revision == revision => return Attempt::Again,
                _ => Err(TableError::Undetermined),
            },
            Err(error) => Err(error.into()),
        })
    }

    async fn catalog_record(
        &self,
        catalog: &Key,
    ) -> Result<(CatalogRecord, lazuli_engine::Revision), TableError> {
        let found = self.store.read_one(catalog).await?.ok_or(TableError::TableNotFound)?;
        Ok((CatalogRecord::decode(&found.value)?, found.revision))
    }
}

/// An index to be built, with its own number.
pub(crate) fn new_index(
    settings: &mut TableSettings,
    definition: IndexDefinition,
    now: Timestamp,
    is_automatic: bool,
) -> TableIndex {
    let number = settings.next_index;
    settings.next_index += 1;
    TableIndex {
        is_cut_short: definition.on().len() == INDEX_PROPERTIES_MAX,
        number,
        definition,
        state: IndexState::Building,
        since: now,
        examined: 0,
        is_automatic,
    }
}

/// The writes that drop an index, apart from its removal from the catalog record.
pub(crate) fn drop_index(index: IndexId, now: Timestamp) -> [Write; 3] {
    [
        Write::Delete(index.used().into()),
        Write::Delete(index.build().into()),
        Write::Put(index.dropped().into(), stored::encode_reclaim(now).into()),
    ]
}

fn status(index: TableIndex, build: Option<&Found>) -> Result<IndexStatus, TableError> {
    let (done, total, trouble) = match build {
        None => (index.examined, index.examined, None),
        Some(found) => {
            let build = BuildRecord::decode(&found.value)?;
            (build.done, build.total.max(build.done), build.trouble)
        }
    };
    let TableIndex { definition, state, since, is_automatic, .. } = index;
    let last_used = None;
    Ok(IndexStatus { definition, state, since, done, total, is_automatic, trouble, last_used })
}
