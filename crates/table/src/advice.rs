//! What the advice on traffic needs from the store: a place for its sketches, the indexes that writes
//! maintain, and automatic indexes, which the server declares itself.

use crate::error::TableError;
use crate::service::{OpenTable, TableService};
use crate::settings::{drop_index, new_index};
use bytes::Bytes;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{Commit, CommitError, Visit, Write};
use lazuli_layout::key;
use lazuli_layout::settings::{BuildRecord, TableIndex, encode_used};
use lazuli_model::limits::TABLE_INDEXES_MAX;
use lazuli_model::{AccountName, IndexDefinition, IndexName, TableName, Timestamp};
use lazuli_service::{Rows, key_range, step};
use std::sync::atomic::{AtomicBool, Ordering};

/// Values read at a time.
const KEPT_ROWS: usize = 16;

impl TableService {
    /// The stored sketches of an account, by table name.
    pub async fn kept_advice(
        &self,
        account: &AccountName,
    ) -> Result<Vec<(String, Bytes)>, TableError> {
        let view = self.store.engine.view().await?;
        let mut range = key_range(key::advice_range(account));
        let mut kept = Vec::new();
        loop {
            let mut last = None;
            let mut visit = |key: &[u8], value: &[u8], _| {
                let table = key::decode_advice(account, key)?.into_owned();
                kept.push((table, Bytes::copy_from_slice(value)));
                last = Some(key.to_vec());
                Ok(Visit::Continue)
            };
            step(&*view, range.clone(), Rows::at_most(KEPT_ROWS), &mut visit).await?;
            let Some(mut next) = last else { return Ok(kept) };
            next.push(0);
            range = key_range(next..key::advice_range(account).end);
        }
    }

    /// Stores the sketch of a table, or removes it.
    pub async fn keep_advice(
        &self,
        account: &AccountName,
        table: &str,
        sketch: Option<Vec<u8>>,
    ) -> Result<(), TableError> {
        let key = lazuli_engine::Key::from(key::advice(account, table));
        let write = match sketch {
            Some(bytes) => Write::Put(key, bytes.into()),
            None => Write::Delete(key),
        };
        let attempt = || async {
            match self.store.engine.commit(Commit::new(self.store.now(), vec![write.clone()])).await
            {
                Err(CommitError::Conflict) => Attempt::Again,
                outcome => Attempt::Done(outcome.map(|_| ()).map_err(TableError::from)),
            }
        };
        self.retry(attempt).await?
    }

    /// The user-declared indexes that writes maintain, if the table is cached.
    pub fn cached_indexes(&self, account: &AccountName, table: &TableName) -> Vec<IndexName> {
        let is_kept = |index: &&TableIndex| index.is_maintained() && !index.is_automatic;
        let names = |table: &OpenTable| {
            let settings = table.settings.as_ref()?;
            let kept = settings.indexes.iter().filter(is_kept);
            Some(kept.map(|index| index.definition.name().clone()).collect())
        };
        self.find_cached(account, table, names).flatten().unwrap_or_default()
    }

    /// Declares an automatic index, unless the table has `own_max` automatic indexes, the maximum number of
    /// indexes, or one with the same name or on the same properties: one on more properties does not serve a
    /// filter that compares only these. Returns whether it did.
    pub async fn declare_automatic_index(
        &self,
        account: &AccountName,
        name: &TableName,
        definition: &IndexDefinition,
        own_max: usize,
    ) -> Result<bool, TableError> {
        let now = self.store.clock.now();
        let is_new = AtomicBool::new(false);
        self.change_catalog(account, name, |record| {
            let indexes = &record.settings.indexes;
            let own = indexes.iter().filter(|index| index.is_automatic).count();
            let is_like = |index: &TableIndex| {
                index.definition.name() == definition.name()
                    || index.definition.on() == definition.on()
            };
            let has_room = own < own_max && indexes.len() < TABLE_INDEXES_MAX;
            let declares = has_room && !indexes.iter().any(is_like);
            is_new.store(declares, Ordering::Relaxed);
            if !declares {
                return Vec::new();
            }
            let index = new_index(&mut record.settings, definition.clone(), now, true);
            let build = BuildRecord::new(account.clone(), name.clone());
            let id = index.id(record.id);
            record.settings.indexes.push(index);
            vec![
                Write::Put(id.build().into(), build.encode().into()),
                Write::Put(id.used().into(), encode_used(now).into()),
            ]
        })
        .await?;
        Ok(is_new.into_inner())
    }

    /// Notes in the store that indexes of a table were used. Only automatic indexes are noted: on a shared
    /// store, all gateways must know of their use before one drops them.
    pub async fn note_index_uses(
        &self,
        account: &AccountName,
        name: &TableName,
        indexes: &[IndexName],
        at: Timestamp,
    ) -> Result<(), TableError> {
        let attempt = || async {
            let table = match self.open_now(account, name).await {
                Ok(table) => table,
                Err(error) => return Attempt::Done(Err(error)),
            };
            let settings = table.settings.iter().flat_map(|settings| &settings.indexes);
            let is_noted = |index: &&TableIndex| {
                index.is_automatic && indexes.contains(index.definition.name())
            };
            let note = |index: &TableIndex| {
                Write::Put(index.id(table.id).used().into(), encode_used(at).into())
            };
            let writes: Vec<Write> = settings.filter(is_noted).map(note).collect();
            if writes.is_empty() {
                return Attempt::Done(Ok(()));
            }
            let guards = vec![table.lives.clone()];
            let commit = Commit { guards, ..Commit::new(self.store.now(), writes) };
            match self.store.engine.commit(commit).await {
                Err(CommitError::GuardFailed { .. }) => {
                    self.forget(account, name);
                    Attempt::Again
                }
                Err(CommitError::Conflict) => Attempt::Again,
                outcome => Attempt::Done(outcome.map(|_| ()).map_err(TableError::from)),
            }
        };
        self.retry(attempt).await?
    }

    /// Drops an automatic index, unless a user has declared it since. Returns whether it did.
    pub async fn drop_automatic_index(
        &self,
        account: &AccountName,
        name: &TableName,
        index: &IndexName,
    ) -> Result<bool, TableError> {
        let now = self.store.clock.now();
        let is_dropped = AtomicBool::new(false);
        self.change_catalog(account, name, |record| {
            let is_it = |known: &TableIndex| known.is_automatic && known.definition.name() == index;
            let indexes = &mut record.settings.indexes;
            let place = indexes.iter().position(is_it);
            is_dropped.store(place.is_some(), Ordering::Relaxed);
            match place {
                Some(place) => drop_index(indexes.remove(place).id(record.id), now).into(),
                None => Vec::new(),
            }
        })
        .await?;
        Ok(is_dropped.into_inner())
    }
}
