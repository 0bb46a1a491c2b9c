//! The fjall database beneath: two keyspaces, one batch per group, snapshots.
//!
//! `data` holds the entries; a stored value is its revision, 8 bytes big-endian, and then the
//! payload. `meta` holds the last revision given out, which outlives every entry that carried it.

use crate::directory::{Directory, OpenError};
use crate::options::{Faults, LocalOptions};
use crate::view::Snapshot;
use bytes::Bytes;
use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, LsmError, OwnedWriteBatch,
    PersistMode, Slice,
};
use lazuli_engine::{EngineError, Found, Key, Revision};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

const DATA: &str = "data";
const META: &str = "meta";
const LAST_REVISION: &[u8] = b"last revision";
const REVISION_BYTES: usize = 8;

/// The write buffer. Up to four more may wait to be flushed before fjall holds writers back. Fixed
/// when a store is created.
const MEMTABLE_BYTES: u64 = 32 * 1024 * 1024;
/// fjall's least. The journal is what a start must read again, so this bounds recovery.
const JOURNAL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What a group leaves of each key it wrote: a value, or nothing.
pub(crate) type Changes = HashMap<Key, Option<Found>>;

pub(crate) struct Store {
    database: Database,
    data: Keyspace,
    meta: Keyspace,
    faults: Option<Arc<dyn Faults>>,
}

/// A write or sync that failed.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub(crate) error: fjall::Error,
    /// Whether anything may have reached the disk.
    pub(crate) undetermined: bool,
}

impl Store {
    pub(crate) fn open(directory: &Directory, options: &LocalOptions) -> Result<Self, OpenError> {
        let open =
            |path: &Path| Self::open_at(path, options).map_err(|e| open_error(directory.path(), e));
        directory.create_store(|path| open(path)?.sync().map_err(|e| open_error(path, e.error)))?;
        open(&directory.store())
    }

    fn open_at(path: &Path, options: &LocalOptions) -> Result<Self, fjall::Error> {
        let database = Database::builder(path)
            .cache_size(options.cache_bytes)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .worker_threads(options.worker_threads.max(1))
            // Each batch says itself how far it is to be persisted.
            .manual_journal_persist(true)
            .open()?;
        Ok(Self {
            data: database.keyspace(DATA, data_options)?,
            meta: database.keyspace(META, KeyspaceCreateOptions::default)?,
            database,
            faults: options.faults.clone(),
        })
    }

    /// The state after the last write. The committer alone calls this, between writes: fjall moves
    /// its visible sequence number also when it flushes or compacts, so that a snapshot taken
    /// during a write could show half of it.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.database.snapshot(), self.data.clone())
    }

    pub(crate) fn last_revision(&self) -> Result<Revision, EngineError> {
        match self.meta.get(LAST_REVISION).map_err(engine_error)? {
            None => Ok(Revision(0)),
            Some(value) => match value.as_ref().try_into() {
                Ok(bytes) => Ok(Revision(u64::from_be_bytes(bytes))),
                Err(_) => Err(EngineError::Corrupt("the last revision has a wrong length".into())),
            },
        }
    }

    /// Writes `changes` and `last` together, persisted as `mode` says before anything of them can be
    /// seen: fjall writes and syncs its journal first, and fills the memtable after.
    pub(crate) fn write(
        &self,
        changes: Changes,
        last: Revision,
        mode: PersistMode,
    ) -> Result<(), WriteFailure> {
        self.fault(|faults| faults.before_write())?;
        let mut batch = OwnedWriteBatch::with_capacity(self.database.clone(), changes.len() + 1)
            .durability(Some(mode));
        for (key, change) in changes {
            match change {
                Some(found) => batch.insert(&self.data, key.as_slice(), encode(&found)),
                None => batch.remove(&self.data, key.as_slice()),
            }
        }
        batch.insert(&self.meta, LAST_REVISION, last.0.to_be_bytes());
        batch.commit()?;
        self.fault(|faults| faults.after_write())
    }

    /// Syncs all that was written before.
    pub(crate) fn sync(&self) -> Result<(), WriteFailure> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
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

impl From<fjall::Error> for WriteFailure {
    fn from(error: fjall::Error) -> Self {
        // fjall looks at its poison flag before it touches the journal.
        let undetermined = !matches!(error, fjall::Error::Poisoned);
        Self { error, undetermined }
    }
}

fn data_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .data_block_size_policy(BlockSizePolicy::all(4 * 1024))
        .data_block_compression_policy(CompressionPolicy::new([
            CompressionType::None,
            CompressionType::None,
            CompressionType::Lz4,
        ]))
}

fn encode(found: &Found) -> Vec<u8> {
    [&found.revision.0.to_be_bytes(), found.value.as_ref()].concat()
}

/// Splits what is stored into revision and payload; the payload stays where it lies.
pub(crate) fn decode(stored: Slice) -> Result<Found, EngineError> {
    let (revision, _) = decode_ref(&stored)?;
    Ok(Found { value: Bytes::from(stored).slice(REVISION_BYTES..), revision })
}

pub(crate) fn decode_ref(stored: &[u8]) -> Result<(Revision, &[u8]), EngineError> {
    match stored.split_first_chunk::<REVISION_BYTES>() {
        Some((revision, value)) => Ok((Revision(u64::from_be_bytes(*revision)), value)),
        None => Err(EngineError::Corrupt(format!(
            "a stored value has {} bytes, fewer than its revision",
            stored.len()
        ))),
    }
}

pub(crate) fn engine_error(error: fjall::Error) -> EngineError {
    match error {
        fjall::Error::Io(e) | fjall::Error::Storage(LsmError::Io(e)) => EngineError::Io(e.into()),
        fjall::Error::Poisoned => EngineError::Unavailable("an earlier write failed".into()),
        other => EngineError::Corrupt(other.to_string()),
    }
}

fn open_error(dir: &Path, error: fjall::Error) -> OpenError {
    let dir = dir.to_path_buf();
    match error {
        fjall::Error::Locked => OpenError::Locked { dir },
        fjall::Error::Io(source) | fjall::Error::Storage(LsmError::Io(source)) => {
            OpenError::Io { dir, source }
        }
        other => OpenError::Corrupt { dir, reason: other.to_string() },
    }
}
