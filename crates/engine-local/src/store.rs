//! The fjall database: two keyspaces, one batch per group, snapshots.
//!
//! `data` holds the entries; a stored value is its revision, 8 bytes big-endian, and then the
//! payload. `meta` holds the last assigned revision, which outlives every entry that carried it,
//! and the ranges whose files were dropped (see `reclaim.rs`). The last revision is part of every
//! batch, followed by whether all batches before it were durable (see `journal.rs`).

mod failure;
mod record;
mod report;

pub(crate) use failure::{WriteFailure, engine_error};
pub(crate) use record::{
    Stored, Unstamped, can_be_noted, decode, decode_ref, follows_synced, last_revision,
};

use crate::damage::DamageReporter;
use crate::directory::{Directory, OpenError};
use crate::journal;
use crate::journal_register::JournalRegister;
use crate::manifest;
use crate::meter::EngineMeter;
use crate::options::{Faults, LocalOptions};
use crate::view::Snapshot;
use failure::{open_error, with_file};
use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{
    AbstractTree, CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions,
    OwnedWriteBatch, PersistMode,
};
use lazuli_engine::{EngineError, Key, KeyRange, Revision};
use lsm_tree::{SeqNo, SequenceNumberCounter};
use record::{DROPPED_RANGE, LAST_REVISION, decode_last, decode_range, encode_last, encode_range};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const DATA: &str = "data";
const META: &str = "meta";
/// Where fjall keeps the tables of the second keyspace created.
const META_FILES: &str = "keyspaces/2";
/// A bound on the write buffer that is never reached: see `make_room`.
const MEMTABLE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Full write buffers that may wait to be flushed while writes continue. At four, fjall itself
/// would wait, and forever if the flush fails.
const MEMTABLES_WAITING_MAX: usize = 2;
/// Small files make small compactions, which the one worker can put between two flushes.
const TABLE_BYTES: u64 = 16 * 1024 * 1024;
/// By level. Large blocks make scans faster. They cost point reads nothing while cached; otherwise a
/// point read has to read and check a whole block. The two youngest levels hold about as much as the
/// cache.
const BLOCK_BYTES: [u32; 3] = [32 * 1024, 32 * 1024, 16 * 1024];
/// By level: young levels are small and soon rewritten. The fourth level begins at 700 MiB; a smaller
/// store is never compressed.
const COMPRESSION: [CompressionType; 4] =
    [CompressionType::None, CompressionType::None, CompressionType::None, CompressionType::Lz4];
/// fjall would flush whatever keeps journals from being removed once they exceed this. The store
/// does so itself, after the newest journal is registered: see `make_room`.
const JOURNALS_BYTES_MAX: u64 = u64::MAX;
/// A journal smaller than this is not full: fjall starts another at a flush, at 64 000 000 bytes.
const JOURNAL_BYTES_SAFE: u64 = 60_000_000;
/// The most that a batch and an entry take in a journal, in addition to key and value.
const JOURNAL_BATCH_BYTES: u64 = 26;
const JOURNAL_ENTRY_BYTES: u64 = 21;

/// What a group leaves for each key it wrote: a value, or nothing.
pub(crate) type Changes = HashMap<Key, Option<Stored>>;

pub(crate) struct Store {
    database: Database,
    data: Keyspace,
    meta: Keyspace,
    memtable_bytes: u64,
    view_life: Duration,
    /// Whether a batch has been written but not synced. Only the committer writes.
    is_unsynced: AtomicBool,
    has_written: AtomicBool,
    /// `None` while the store is being created.
    register: Mutex<Option<JournalRegister>>,
    /// Whether a journal was registered, and no step has been taken yet to have earlier ones
    /// removed.
    has_new_journal: AtomicBool,
    /// Upper bound on the bytes in the newest journal.
    journal_bytes: AtomicU64,
    meter: Arc<EngineMeter>,
    damage: Arc<DamageReporter>,
    faults: Option<Arc<dyn Faults>>,
}

impl Store {
    pub(crate) fn open(directory: &Directory, options: &LocalOptions) -> Result<Self, OpenError> {
        let open =
            |path: &Path| Self::open_at(path, options).map_err(|e| open_error(directory.path(), e));
        let sync = |store: &Self| store.sync().map_err(|e| open_error(directory.path(), e.error));
        directory.create_store(|path| sync(&open(path)?))?;
        manifest::inspect(&directory.store())?;
        let journals = journal::inspect(&directory.store())?;
        let with_file = |error| with_file(&directory.store(), error);
        let stored = || stored_revision(&directory.store()).map_err(|e| directory.unusable(e));
        let register = JournalRegister::inspect(&directory.store(), &journals, || {
            stored().map_err(with_file)
        })?;
        let mut store = open(&directory.store()).map_err(with_file)?;
        store.register = Mutex::new(Some(register));
        let newest = journals.last().map_or(0, |journal| journal.bytes);
        store.journal_bytes.store(newest, Ordering::Relaxed);
        store.is_unsynced.store(false, Ordering::Relaxed);
        Ok(store)
    }

    fn open_at(path: &Path, options: &LocalOptions) -> Result<Self, fjall::Error> {
        let database = Database::builder(path)
            .cache_size(options.cache_bytes)
            .max_journaling_size(JOURNALS_BYTES_MAX)
            .worker_threads(options.worker_threads.max(1))
            // Each batch sets its own persist mode.
            .manual_journal_persist(true)
            .open()?;
        Ok(Self {
            data: database.keyspace(DATA, data_options)?,
            meta: database.keyspace(META, KeyspaceCreateOptions::default)?,
            database,
            memtable_bytes: options.memtable_bytes,
            view_life: Duration::from_millis(options.view_ms_max),
            is_unsynced: AtomicBool::new(true),
            has_written: AtomicBool::new(false),
            register: Mutex::new(None),
            has_new_journal: AtomicBool::new(false),
            journal_bytes: AtomicU64::new(0),
            damage: Arc::new(DamageReporter::new(path)),
            meter: options.meter.clone(),
            faults: options.faults.clone(),
        })
    }

    /// The state after the last write. Only the committer calls this, between writes: fjall moves
    /// its visible sequence number also when it flushes or compacts, so that a snapshot taken
    /// during a write could show half of it.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let (data, damage) = (self.data.clone(), self.damage.clone());
        Snapshot::new(self.database.snapshot(), data, damage, self.view_life)
    }

    pub(crate) fn last_revision(&self) -> Result<Revision, EngineError> {
        decode_last(self.meta.get(LAST_REVISION).map_err(engine_error)?)
    }

    /// Writes `changes`, `dropped` and `last` together, persisted as `mode` says before any of it
    /// becomes visible: fjall writes and syncs its journal first, then fills the memtable.
    pub(crate) fn write(
        &self,
        changes: Changes,
        dropped: &[KeyRange],
        last: Revision,
        mode: PersistMode,
    ) -> Result<(), WriteFailure> {
        self.fault(|faults| faults.before_write())?;
        self.write_batch(changes, dropped, last, mode)?;
        self.fault(|faults| faults.after_write())
    }

    fn write_batch(
        &self,
        changes: Changes,
        dropped: &[KeyRange],
        last: Revision,
        mode: PersistMode,
    ) -> Result<(), fjall::Error> {
        let mut batch = OwnedWriteBatch::with_capacity(self.database.clone(), changes.len() + 1)
            .durability(Some(mode));
        let mut bytes = JOURNAL_BATCH_BYTES;
        let mut count = |key: &[u8], value: usize| {
            bytes += JOURNAL_ENTRY_BYTES + (key.len() + value) as u64;
        };
        for (key, change) in changes {
            count(key.as_slice(), change.as_ref().map_or(0, |stored| stored.bytes.len()));
            match change {
                Some(stored) => batch.insert(&self.data, key.into_bytes(), stored.bytes),
                None => batch.remove(&self.data, key.into_bytes()),
            }
        }
        for range in dropped {
            let key = encode_range(range);
            count(&key, 0);
            batch.insert(&self.meta, key, []);
        }
        let value = encode_last(last, !self.is_unsynced.load(Ordering::Relaxed));
        count(LAST_REVISION, value.len());
        batch.insert(&self.meta, LAST_REVISION, value);
        batch.commit()?;
        self.register_journals(last, bytes)?;
        self.is_unsynced.store(mode == PersistMode::Buffer, Ordering::Relaxed);
        self.has_written.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Call after writing a batch of `bytes` that ends with `last`, and before acknowledging it.
    fn register_journals(&self, last: Revision, bytes: u64) -> Result<(), fjall::Error> {
        let mut register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(register) = &mut *register else { return Ok(()) };
        if register.written(last)? {
            self.has_new_journal.store(true, Ordering::Relaxed);
            self.journal_bytes.store(0, Ordering::Relaxed);
        }
        self.journal_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the journal with a batch that changes nothing. Damage to the previous batch is then
    /// recognized as damage, not mistaken for a write that a crash cut off.
    pub(crate) fn end(&self, last: Revision) -> Result<(), WriteFailure> {
        if self.is_unsynced.load(Ordering::Relaxed) {
            self.sync()?;
        }
        if self.has_written.load(Ordering::Relaxed) {
            self.write_batch(Changes::new(), &[], last, PersistMode::SyncData)?;
        }
        Ok(())
    }

    /// Syncs everything written so far.
    pub(crate) fn sync(&self) -> Result<(), WriteFailure> {
        self.fault(|faults| faults.before_sync())?;
        self.database.persist(PersistMode::SyncAll)?;
        self.is_unsynced.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Hands a full memtable to the worker, and waits while too many are queued. fjall itself would
    /// ask the worker to rotate it, and a worker busy with a compaction would let the memtable grow
    /// without bound.
    ///
    /// After a journal was registered, hands over everything, so that earlier journals can be
    /// removed: what keeps them is what start-up must replay. The data goes first, because the last
    /// revision in the tables proves that the data is there (`journal_register.rs`).
    pub(crate) fn make_room(&self) -> Result<(), WriteFailure> {
        let has_new_journal = self.has_new_journal.swap(false, Ordering::Relaxed);
        if has_new_journal || self.data.tree.active_memtable().size() > self.memtable_bytes {
            self.data.rotate_memtable()?;
            self.meter.flushing();
        }
        if has_new_journal {
            self.meta.rotate_memtable()?;
        }
        while self.data.sealed_memtable_count() > MEMTABLES_WAITING_MAX {
            // Fails if the worker failed.
            self.database.persist(PersistMode::Buffer)?;
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Removes files that only snapshots older than the published one could name. Requires a write
    /// since they were dropped. Returns whether it could be done now.
    ///
    /// It flushes the last revision. If the journal were full and all data flushed, fjall could
    /// start another and remove this one before the new one is registered (`journal_register.rs`).
    pub(crate) fn release_files(&self) -> Result<bool, WriteFailure> {
        let is_full = self.journal_bytes.load(Ordering::Relaxed) > JOURNAL_BYTES_SAFE;
        if is_full && self.data.tree.active_memtable().is_empty() {
            return Ok(false);
        }
        self.meta.rotate_memtable()?;
        Ok(true)
    }

    /// Drops the files that hold nothing but keys of `range`. An older value may reappear where a
    /// dropped file held a newer one or a deletion. Blocks while a compaction runs.
    pub(crate) fn drop_files(&self, range: &KeyRange) -> Result<(), EngineError> {
        let bounds = range.start.as_slice()..range.end.as_slice();
        self.data.tree.drop_range(bounds).map_err(|e| engine_error(e.into()))
    }

    /// The ranges noted as dropped.
    pub(crate) fn dropped_ranges(&self) -> Result<Vec<KeyRange>, EngineError> {
        let keys = self.meta.prefix(DROPPED_RANGE).map(Guard::key);
        keys.map(|key| decode_range(&key.map_err(engine_error)?)).collect()
    }

    pub(crate) fn forget_dropped_ranges(&self, ranges: &[KeyRange]) -> Result<(), WriteFailure> {
        let mut batch = OwnedWriteBatch::with_capacity(self.database.clone(), ranges.len());
        for range in ranges {
            batch.remove(&self.meta, encode_range(range));
        }
        batch.commit()?;
        self.sync()
    }

    fn fault(
        &self,
        step: impl FnOnce(&dyn Faults) -> std::io::Result<()>,
    ) -> Result<(), WriteFailure> {
        match &self.faults {
            Some(faults) => Ok(step(faults.as_ref()).map_err(fjall::Error::Io)?),
            None => Ok(()),
        }
    }
}

/// Fixed when a store is created; an existing one keeps what it has.
fn data_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES_MAX)
        .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(TABLE_BYTES)))
        .data_block_size_policy(BlockSizePolicy::new(BLOCK_BYTES))
        .data_block_compression_policy(CompressionPolicy::new(COMPRESSION))
}

/// The last revision in the tables of the store at `store`, which must not be open.
fn stored_revision(store: &Path) -> Result<Revision, EngineError> {
    let tree = lsm_tree::Config::new(
        store.join(META_FILES),
        SequenceNumberCounter::default(),
        SequenceNumberCounter::default(),
    );
    let found = tree.open().and_then(|tree| tree.get(LAST_REVISION, SeqNo::MAX));
    decode_last(found.map_err(|error| engine_error(error.into()))?)
}

#[cfg(test)]
impl Store {
    /// Flushes everything written so far into table files.
    pub(crate) fn flush(&self) {
        self.data.rotate_memtable_and_wait().unwrap();
        self.meta.rotate_memtable_and_wait().unwrap();
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.data.disk_space()
    }
}
