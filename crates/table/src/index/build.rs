//! Builds indexes online, step by step, while writes go on.
//!
//! Writes maintain an index from the moment it is declared; the builder adds the entries of the
//! entities that were there before. A step reads some entities and adds their entries in one commit,
//! on the condition that these entities have not changed since, so that an entry never outlives the
//! value it is for. Progress is part of the same commit.

use super::fill::{Build, Duplicate, Filled, Gathered, Target};
use crate::error::TableError;
use crate::index::IndexConflict;
use crate::service::{TableService, opened};
use crate::settings::drop_index;
use bytes::Bytes;
use lazuli_engine::{
    Check, Commit, CommitError, Expect, Found, GUARD_AGE_MS_MAX, Key, KeyRange, Reclaimed,
    Revision, ScanEnd, View, Visit, Write, Writers,
};
use lazuli_layout::key::index::{builds, decode_build, join_entity};
use lazuli_layout::settings::{BuildRecord, IndexState, TableIndex, decode_owner};
use lazuli_layout::{CorruptRecord, IndexId, key};
use lazuli_meter::Counter;
use lazuli_service::{Rows, key_range, step};
use std::sync::atomic::{AtomicBool, Ordering};

/// Entities counted per step.
const STEP_COUNTED_MAX: u64 = 64 * 1024;
/// On a store with other writers a write may finish this long after the index was declared without
/// knowing of it: it was guarded by the settings before. The rest is room for the clock of the store.
pub(crate) const SETTLES_MS: u64 = 2 * GUARD_AGE_MS_MAX + 10_000;
/// Builds examined in one step.
const BUILDS_PER_STEP: usize = 16;
/// Duplicates named when an index cannot be unique.
const DUPLICATES_NAMED: usize = 3;

impl TableService {
    /// Takes one step of building an index. Returns [`Reclaimed::Fully`] if there is nothing to do
    /// now.
    pub async fn build_some(&self) -> Result<Reclaimed, TableError> {
        let view = self.store.engine.view().await?;
        let mut keys = Vec::new();
        let mut visit = |key: &[u8], value: &[u8], revision: Revision| {
            keys.push((
                decode_build(key)?,
                Found { value: Bytes::copy_from_slice(value), revision },
            ));
            Ok(Visit::Continue)
        };
        step(&*view, key_range(builds()), Rows::at_most(BUILDS_PER_STEP), &mut visit).await?;
        self.builds.building.set(i64::try_from(keys.len()).unwrap_or(i64::MAX));
        let mut worked = Reclaimed::Fully;
        for (id, found) in keys {
            if self.build_one(&*view, id, found).await? == Reclaimed::Partly {
                worked = Reclaimed::Partly;
            }
        }
        Ok(worked)
    }

    async fn build_one(
        &self,
        view: &dyn View,
        id: IndexId,
        found: Found,
    ) -> Result<Reclaimed, TableError> {
        let record = BuildRecord::decode(&found.value)?;
        let catalog = Key::from(key::catalog(&record.account, record.table.lower()));
        let Some(listed) = view.get(catalog.as_slice()).await? else {
            return self.abandon(id, found.revision).await;
        };
        let declared = listed.revision;
        let table = opened(catalog, Some(listed))?;
        let settings = table.settings.as_deref().filter(|_| table.id == id.table);
        let Some(target) = settings.and_then(|settings| Target::of(settings, id.number)) else {
            return self.abandon(id, found.revision).await;
        };
        let revision = found.revision;
        let mut build = Build { id, record, revision, table, declared, target };
        if !self.has_settled(&build).await? {
            return Ok(Reclaimed::Fully);
        }
        match &build.record.count_from {
            Some(from) => self.count(view, &build, from.clone()).await,
            None => match self.fill(view, &mut build).await? {
                Filled::Partly => Ok(Reclaimed::Partly),
                Filled::Whole { examined } => self.finish(&build, examined).await,
                Filled::Duplicate(duplicate) => self.fail(&build, &[duplicate]).await,
                Filled::Taken(owners) => {
                    let duplicates = self.duplicates(&build, &owners).await?;
                    self.fail(&build, &duplicates).await
                }
            },
        }
    }

    /// Whether every write that did not know of the index has finished. The store's clock decides:
    /// the record is written again until its revision is late enough.
    async fn has_settled(&self, build: &Build) -> Result<bool, TableError> {
        if self.nature().writers == Writers::Sole {
            return Ok(true);
        }
        const TICKS_PER_MS: u64 = 10_000;
        let waited = build.revision.0.saturating_sub(build.declared.0);
        if waited >= self.index_settles_ms.unwrap_or(SETTLES_MS) * TICKS_PER_MS {
            return Ok(true);
        }
        self.commit_step(build, build.record.clone(), Gathered::default()).await?;
        Ok(false)
    }

    /// Counts some entities, for the estimate of the work.
    async fn count(
        &self,
        view: &dyn View,
        build: &Build,
        from: Vec<u8>,
    ) -> Result<Reclaimed, TableError> {
        let all = key::table_range(build.id.table);
        let mut next = Some(KeyRange::new(from.max(all.start), all.end));
        let mut counted = 0;
        while let Some(range) = next.take_if(|_| counted < STEP_COUNTED_MAX) {
            let mut visit = |_: &[u8], _: &[u8], _: Revision| {
                counted += 1;
                Ok(Visit::Continue)
            };
            let end = step(view, range, Rows::expecting(usize::MAX), &mut visit).await?;
            if let ScanEnd::More(rest) = end {
                next = Some(rest);
            }
        }
        let record = BuildRecord {
            total: build.record.total + counted,
            count_from: next.map(|rest| rest.start),
            ..build.record.clone()
        };
        self.commit_step(build, record, Gathered::default()).await?;
        Ok(Reclaimed::Partly)
    }

    async fn finish(&self, build: &Build, examined: u64) -> Result<Reclaimed, TableError> {
        if let Target::Moments(_) = build.target {
            return self.abandon(build.id, build.revision).await;
        }
        let since = self.store.clock.now();
        self.end(build, &self.builds.ready, |index| {
            *index = TableIndex { state: IndexState::Ready, since, examined, ..index.clone() };
            vec![Write::Delete(build.id.build().into())]
        })
        .await
    }

    async fn fail(&self, build: &Build, duplicates: &[Duplicate]) -> Result<Reclaimed, TableError> {
        let all = duplicates.iter().flat_map(|(first, second)| [first, second]);
        for entity in all {
            // The values of expired entities are free.
            let key = join_entity(build.id.table, entity);
            if has_expiry(build) && self.sweep_one(&build.table, &key).await? {
                return Ok(Reclaimed::Partly);
            }
        }
        let named: Vec<String> = duplicates
            .iter()
            .take(DUPLICATES_NAMED)
            .map(|(a, b)| Ok(format!("{} and {}", named(build, a)?, named(build, b)?)))
            .collect::<Result<_, CorruptRecord>>()?;
        let reason = format!("entities have the same values: {}", named.join("; "));
        let since = self.store.clock.now();
        self.end(build, &self.builds.failed, |index| {
            *index = TableIndex {
                state: IndexState::Failed(reason.clone()),
                since,
                examined: build.record.done,
                ..index.clone()
            };
            // What it has is of no use: a later try has a number of its own.
            drop_index(build.id, since).into()
        })
        .await
    }

    /// Ends the building of an index that is still being built, and counts it as `ended`.
    async fn end(
        &self,
        build: &Build,
        ended: &Counter,
        change: impl Fn(&mut TableIndex) -> Vec<Write>,
    ) -> Result<Reclaimed, TableError> {
        let is_ours = AtomicBool::new(false);
        let changed = self.change_catalog(&build.record.account, &build.record.table, |catalog| {
            let is_same_table = catalog.id == build.id.table;
            let mut indexes = catalog.settings.indexes.iter_mut();
            match indexes.find(|index| index.number == build.id.number) {
                Some(index) if is_same_table && index.state == IndexState::Building => {
                    is_ours.store(true, Ordering::Relaxed);
                    change(index)
                }
                _ => {
                    is_ours.store(false, Ordering::Relaxed);
                    Vec::new()
                }
            }
        });
        match changed.await {
            Ok(()) => {
                if is_ours.load(Ordering::Relaxed) {
                    ended.increment();
                }
                Ok(Reclaimed::Partly)
            }
            Err(TableError::TableNotFound | TableError::Undetermined) => Ok(Reclaimed::Partly),
            Err(error) => Err(error),
        }
    }

    /// Removes the record of an index that is no longer being built.
    async fn abandon(&self, id: IndexId, revision: Revision) -> Result<Reclaimed, TableError> {
        let key = Key::from(id.build());
        let commit = Commit {
            checks: vec![Check { key: key.clone(), expect: Expect::At(revision) }],
            ..Commit::new(self.store.now(), vec![Write::Delete(key)])
        };
        match self.store.engine.commit(commit).await {
            Ok(_)
            | Err(
                CommitError::CheckFailed { .. }
                | CommitError::Conflict
                | CommitError::Undetermined(_),
            ) => Ok(Reclaimed::Partly),
            Err(error) => Err(error.into()),
        }
    }

    /// Entities of the step that failed whose values belong to others.
    async fn duplicates(
        &self,
        build: &Build,
        owners: &[Key],
    ) -> Result<Vec<Duplicate>, TableError> {
        let view = self.store.engine.view().await?;
        let mut gathered = Gathered::default();
        let all = key::table_range(build.id.table);
        let range = KeyRange::new(build.record.from.clone().max(all.start), all.end);
        let mut visit = |key: &[u8], value: &[u8], revision: Revision| {
            gathered.add(build, key, value, revision)?;
            Ok(Visit::Continue)
        };
        step(&*view, range, Rows::at_most(owners.len()), &mut visit).await?;
        let mut duplicates = Vec::new();
        for (key, (entity, _)) in gathered.owners {
            if let Some(found) = view.get(key.as_slice()).await? {
                let owner = decode_owner(&found.value)?;
                if *owner != *entity {
                    duplicates.push((owner.into(), entity));
                }
            }
            if duplicates.len() >= DUPLICATES_NAMED {
                break;
            }
        }
        Ok(duplicates)
    }
}

fn has_expiry(build: &Build) -> bool {
    build.table.settings.as_ref().is_some_and(|settings| settings.expiry.is_some())
}

/// An entity as an error names it.
fn named(build: &Build, entity: &[u8]) -> Result<String, CorruptRecord> {
    let key = join_entity(build.id.table, entity);
    let names = key::decode_entity(&key)?;
    Ok(format!("(PartitionKey='{}',RowKey='{}')", names.partition, names.row))
}

impl From<IndexConflict> for TableError {
    fn from(conflict: IndexConflict) -> Self {
        Self::IndexConflict(conflict)
    }
}
