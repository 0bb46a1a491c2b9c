//! Options of a local engine: durability, bounds, and fault injection for tests.

use crate::meter::EngineMeter;
use lazuli_engine::{Acknowledged, ClockSource, Limits, Nature, Writers};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What an acknowledgement means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Synced to the device: survives power loss.
    Sync,
    /// Written to the operating system, and synced at most this much later: survives a crash of the
    /// process, but a power loss loses everything acknowledged since the last sync. Views show
    /// commits that are not synced yet.
    Interval(Duration),
    /// Written to the operating system, and synced when it decides or the engine closes.
    Memory,
}

/// Options of a local engine. Every bound is on memory or on waiting.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    pub durability: Durability,
    /// Blocks of data, filters and indexes kept in memory.
    pub cache_bytes: u64,
    /// Size of the write buffer before it is flushed to a file. Start-up replays the journal, so
    /// this also bounds recovery time.
    pub memtable_bytes: u64,
    /// Memory for keys, values and functions of commits waiting for the committer.
    pub queue_bytes_max: usize,
    /// How long a commit waits for a place in the queue before it fails with `Busy`.
    pub queue_wait_max: Duration,
    /// Maximum commits per sync.
    pub group_commits_max: usize,
    /// No further commit joins a group that will write this many bytes of keys and values.
    pub group_bytes_max: usize,
    /// Maximum entries that one call of `reclaim` deletes.
    pub reclaim_rows_max: usize,
    /// How long a view may be used after a commit has replaced its snapshot.
    pub view_ms_max: u64,
    /// Threads that flush and compact. With more than one, fjall reserves the first for flushes,
    /// and that one spins while a compaction waits for another: one more core for slightly less
    /// waiting under the heaviest load.
    pub worker_threads: usize,
    /// The engine's metrics.
    pub meter: Arc<EngineMeter>,
    /// For tests: makes writes and syncs fail.
    pub faults: Option<Arc<dyn Faults>>,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            cache_bytes: 128 * 1024 * 1024,
            memtable_bytes: 16 * 1024 * 1024,
            queue_bytes_max: 64 * 1024 * 1024,
            queue_wait_max: Duration::from_secs(10),
            group_commits_max: 1024,
            group_bytes_max: 8 * 1024 * 1024,
            reclaim_rows_max: 2_000,
            view_ms_max: Limits::DEFAULT.view_ms_max,
            worker_threads: 1,
            meter: Arc::default(),
            faults: None,
        }
    }
}

impl LocalOptions {
    pub(crate) fn limits(&self) -> Limits {
        Limits { view_ms_max: self.view_ms_max, ..Limits::DEFAULT }
    }

    /// The directory is locked, so there is no other writer. An engine that reopens its store after
    /// a failed write may lose commits that it acknowledged before they were synced.
    pub(crate) fn nature(&self) -> Nature {
        let acknowledged = match self.durability {
            Durability::Sync => Acknowledged::Kept,
            Durability::Interval(_) | Durability::Memory => Acknowledged::MayVanish,
        };
        Nature { clock: ClockSource::Caller, writers: Writers::Sole, acknowledged }
    }
}

/// Injects disk failures.
pub trait Faults: Send + Sync + fmt::Debug {
    /// Called before a group is written; an error simulates a failed write.
    fn before_write(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called after a group was written and before it is visible; an error simulates a failed sync
    /// of data that may have reached the disk.
    fn after_write(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called before a sync that no commit waits for.
    fn before_sync(&self) -> io::Result<()> {
        Ok(())
    }
}
