//! How a local engine behaves: durability, bounds, and a way for tests to break it.

use crate::meter::EngineMeter;
use lazuli_engine::{Acknowledged, ClockSource, Limits, Nature, Writers};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What an acknowledgement means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Synced to the device: survives the loss of power.
    Sync,
    /// Handed to the operating system, and synced at most this much later: survives the end of the
    /// process, while a loss of power takes what was acknowledged since. Views show commits that
    /// are not synced yet.
    Interval(Duration),
    /// Handed to the operating system, and synced when that pleases or the engine closes.
    Memory,
}

/// How a local engine behaves. Every bound is on memory or on waiting.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    pub durability: Durability,
    /// Blocks of data, filters and indexes kept in memory.
    pub cache_bytes: u64,
    /// What is gathered in memory before it is written to a file of its own. What lies in the
    /// journal is read again at the start, so this also bounds recovery.
    pub memtable_bytes: u64,
    /// Keys, values and functions of commits that wait for the committer.
    pub queue_bytes_max: usize,
    /// How long a commit waits for a place in the queue before it fails with `Busy`.
    pub queue_wait_max: Duration,
    /// Commits that share one sync, at most.
    pub group_commits_max: usize,
    /// No further commit joins a group that will write this many bytes of keys and values.
    pub group_bytes_max: usize,
    /// Entries that one call of `reclaim` deletes, at most.
    pub reclaim_rows_max: usize,
    /// How long a view may be used after a commit has replaced what it shows.
    pub view_ms_max: u64,
    /// Threads that flush and compact. With more than one, fjall keeps the first for flushes, and
    /// that one spins while a compaction waits for another: a core more for a little less waiting
    /// under the heaviest load.
    pub worker_threads: usize,
    /// Measures what the engine does.
    pub meter: Arc<EngineMeter>,
    /// For tests: lets writes and syncs fail.
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

    /// The directory is locked, so that nobody else writes. An engine that reopens its store after a
    /// failed write may miss what it acknowledged before it was synced.
    pub(crate) fn nature(&self) -> Nature {
        let acknowledged = match self.durability {
            Durability::Sync => Acknowledged::Kept,
            Durability::Interval(_) | Durability::Memory => Acknowledged::MayVanish,
        };
        Nature { clock: ClockSource::Caller, writers: Writers::Sole, acknowledged }
    }
}

/// Fails where a disk may fail.
pub trait Faults: Send + Sync + fmt::Debug {
    /// Called before a group is written; an error stands for a write that failed.
    fn before_write(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called after a group was written and before anybody sees it; an error stands for a sync that
    /// failed, of data that may have reached the disk.
    fn after_write(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called before a sync that no commit waits for.
    fn before_sync(&self) -> io::Result<()> {
        Ok(())
    }
}
