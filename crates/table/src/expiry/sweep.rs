//! Deletes expired entities, so that their space is reclaimed.
//!
//! The sweeper reads the index of moments up to now. Each deletion is conditional on the revision
//! that it saw. An entry whose entity is gone, or expires at another time, is left over from an
//! earlier life: it is removed on the same condition.

use super::write::SLACK_TICKS;
use super::{Judge, moment};
use crate::derive::WriteKind;
use crate::error::TableError;
use crate::service::{OpenTable, TableService, opened};
use bytes::Bytes;
use lazuli_engine::retry::give_way;
use lazuli_engine::{
    Check, Commit, CommitError, Expect, Found, Key, Reclaimed, Revision, ScanEnd, View, Visit,
    Write, Writers,
};
use lazuli_layout::key::expiry::{bucket, decode_record, moments_until, records, split_moment};
use lazuli_layout::key::index::join_entity;
use lazuli_layout::settings::{ENTRY, ExpiryRecord};
use lazuli_layout::{CorruptRecord, EntityRecord, IndexId, key};
use lazuli_service::{Rows, key_range, step};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tables examined in one step.
const TABLES_PER_STEP: usize = 256;
/// Maximum entities per commit; each may be as large as 1 MiB, and is recorded in the feed.
const SWEEP_ENTITIES_MAX: usize = 32;
/// Commits for one table before the other tables get their turn.
const COMMITS_PER_TURN: usize = 64;

/// What to do about one entry.
struct Swept {
    /// The entity, which must not have changed.
    entity: Check,
    deletes_entity: bool,
    /// What happens to the entry, unless a derived write removes it.
    entry: Vec<Write>,
}

impl TableService {
    /// Deletes expired entities of all tables. Returns [`Reclaimed::Fully`] if there were none. A table
    /// that cannot be swept does not block others: its error is returned when there is nothing else to do.
    pub async fn sweep_some(&self) -> Result<Reclaimed, TableError> {
        let mut view = self.store.engine.view().await?;
        let (mut did_work, mut failure) = (false, None);
        let mut next = Some(key_range(records()));
        while let Some(range) = next.take() {
            let mut found = Vec::new();
            let mut visit = |key: &[u8], value: &[u8], _: Revision| {
                found.push((decode_record(key)?, ExpiryRecord::decode(value)));
                Ok(Visit::Continue)
            };
            let rows = Rows::at_most(TABLES_PER_STEP);
            if let ScanEnd::More(rest) = step(&*view, range, rows, &mut visit).await? {
                next = Some(rest);
            }
            for (id, record) in found {
                let swept = match record {
                    Ok(record) => self.sweep_table(&*view, id, &record).await,
                    Err(error) => Err(error.into()),
                };
                match swept {
                    Ok(false) => {}
                    Ok(true) => {
                        did_work = true;
                        // The last table took a while, and a view does not last.
                        view = self.store.engine.view().await?;
                    }
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        match failure {
            Some(error) if !did_work => Err(error),
            _ if did_work => Ok(Reclaimed::Partly),
            _ => Ok(Reclaimed::Fully),
        }
    }

    /// Sweeps part of the table of one setting. Returns whether there was anything to do.
    async fn sweep_table(
        &self,
        view: &dyn View,
        id: IndexId,
        record: &ExpiryRecord,
    ) -> Result<bool, TableError> {
        let catalog = Key::from(key::catalog(&record.account, record.table.lower()));
        // What a dropped table leaves is reclaimed with its space.
        let Some(listed) = view.get(catalog.as_slice()).await? else { return Ok(false) };
        let table = opened(catalog, Some(listed))?;
        let setting = table.settings.as_ref().and_then(|settings| settings.expiry.as_ref());
        if setting.map(|setting| setting.id(table.id)) != Some(id) {
            return Ok(false);
        }
        let now = self.store.clock.now();
        let mut did_work = false;
        let mut next = Some(key_range(moments_until(id, bucket(now))));
        for _ in 0..COMMITS_PER_TURN {
            let Some(range) = next.take() else { break };
            let mut entries = Vec::new();
            let mut visit = |key: &[u8], _: &[u8], _: Revision| {
                entries.push(Key::from(key.to_vec()));
                Ok(Visit::Continue)
            };
            let rows = Rows::at_most(SWEEP_ENTITIES_MAX);
            if let ScanEnd::More(rest) = step(view, range, rows, &mut visit).await? {
                next = Some(rest);
            }
            let swept = self.judge_entries(view, &table, &entries).await?;
            did_work |= !swept.is_empty();
            self.sweep(&table, swept).await?;
            give_way().await;
        }
        Ok(did_work)
    }

    /// What to do about `entries`.
    async fn judge_entries(
        &self,
        view: &dyn View,
        table: &OpenTable,
        entries: &[Key],
    ) -> Result<Vec<Swept>, TableError> {
        let mut keys = Vec::with_capacity(entries.len());
        for entry in entries {
            let (_, entity) = split_moment(entry.as_slice())?;
            keys.push(Key::from(join_entity(table.id, entity)));
        }
        let found = view.multi_get(&keys).await?;
        let mut swept = Vec::new();
        let mut seen = BTreeSet::new();
        for ((entry, key), found) in entries.iter().zip(keys).zip(found) {
            // Another entry of the same entity waits for the next round.
            if seen.insert(key.clone()) {
                swept.extend(self.judge_entry(table, entry, key, found.as_ref())?);
            }
        }
        Ok(swept)
    }

    fn judge_entry(
        &self,
        table: &OpenTable,
        entry: &Key,
        key: Key,
        found: Option<&Found>,
    ) -> Result<Option<Swept>, CorruptRecord> {
        let now = self.store.clock.now();
        let (Some(found), Some(setting), Some(judge)) = (
            found,
            table.settings.as_ref().and_then(|settings| settings.expiry.as_ref()),
            Judge::of(table.settings.as_deref(), || now),
        ) else {
            let entity = Check { key, expect: Expect::Absent };
            let entry = vec![Write::Delete(entry.clone())];
            return Ok(Some(Swept { entity, deletes_entity: false, entry }));
        };
        let record = EntityRecord::parse(&found.value)?;
        let (bucket, name) = split_moment(entry.as_slice())?;
        let moment = moment(&setting.expiry, &record, found.revision);
        let is_own = moment.is_some_and(|m| m.buckets(SLACK_TICKS).any(|own| own == bucket));
        let deletes_entity = judge.has_expired(&record, found.revision);
        if is_own && !deletes_entity {
            return Ok(None);
        }
        let mut writes = Vec::new();
        if !is_own {
            writes.push(Write::Delete(entry.clone()));
        }
        if let Some(moment) = moment.filter(|_| !is_own && !deletes_entity) {
            // The entry of a slow commit lies early, and may be the only one.
            let own = key::expiry::moment(setting.id(table.id), moment.bucket(), name);
            writes.push(Write::Put(own.into(), Bytes::from_static(ENTRY)));
        }
        let entity = Check { key, expect: Expect::At(found.revision) };
        Ok(Some(Swept { entity, deletes_entity, entry: writes }))
    }

    /// Deletes entities and entries in one commit, except those that have changed.
    async fn sweep(&self, table: &OpenTable, mut swept: Vec<Swept>) -> Result<(), TableError> {
        while !swept.is_empty() {
            match self.store.engine.commit(self.sweeping(table, &swept)).await {
                Ok(_) => {
                    let deleted = swept.iter().filter(|swept| swept.deletes_entity).count() as u64;
                    self.changes.expired.add(deleted);
                    if let Some(feed) = table.feed_id() {
                        self.changes.recorded.add(deleted);
                        self.news.tell(feed.table);
                    }
                    return Ok(());
                }
                Err(CommitError::CheckFailed { index, .. }) if index < swept.len() => {
                    swept.remove(index);
                }
                // The settings changed, or another process sweeps too. The next round tries again.
                Err(
                    CommitError::GuardFailed { .. }
                    | CommitError::CheckFailed { .. }
                    | CommitError::Conflict
                    | CommitError::Undetermined(_),
                ) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sweeping(&self, table: &OpenTable, swept: &[Swept]) -> Commit {
        let deleted = swept.iter().filter(|swept| swept.deletes_entity);
        let mut writes: Vec<Write> =
            deleted.map(|swept| Write::Delete(swept.entity.key.clone())).collect();
        let kinds: Arc<[WriteKind]> = vec![WriteKind::Expire; writes.len()].into();
        writes.extend(swept.iter().flat_map(|swept| swept.entry.iter().cloned()));
        let derive = table.derive.clone().filter(|_| !kinds.is_empty());
        let writers = self.nature().writers;
        let is_recorded = derive.is_some() && writers == Writers::Many;
        let head = table.feed_id().filter(|_| is_recorded).map(|feed| feed.head().into());
        let now = self.store.clock.now();
        Commit {
            guards: vec![table.lives.clone()],
            checks: swept.iter().map(|swept| swept.entity.clone()).collect(),
            derive: derive.map(|derivation| derivation.of_commit(&kinds, now, writers)),
            turns: head.into_iter().collect(),
            ..Commit::new(self.store.now(), writes)
        }
    }

    /// Deletes one entity, by its whole key, if it has expired, because its unique values are free
    /// . Returns whether another attempt may succeed.
    pub(crate) async fn sweep_one(
        &self,
        table: &OpenTable,
        entity: &[u8],
    ) -> Result<bool, TableError> {
        let key = Key::from(entity.to_vec());
        let Some(found) = self.store.read_one(&key).await? else { return Ok(true) };
        let judge = Judge::of(table.settings.as_deref(), || self.store.clock.now());
        let is_expired = match judge {
            Some(judge) => judge.is_expired(&found.value, found.revision)?,
            None => false,
        };
        if !is_expired {
            return Ok(false);
        }
        let entity = Check { key, expect: Expect::At(found.revision) };
        let swept = Swept { entity, deletes_entity: true, entry: Vec::new() };
        self.sweep(table, vec![swept]).await?;
        Ok(true)
    }
}
