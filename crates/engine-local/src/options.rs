//! How a local engine behaves: durability, bounds, and a way for tests to break it.

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
    /// Keys and values of commits that wait for the committer.
    pub queue_bytes_max: usize,
    /// How long a commit waits for a place in the queue before it is answered `Busy`.
    pub queue_wait_max: Duration,
    /// Commits that share one sync, at most.
    pub group_commits_max: usize,
    /// No further commit joins a group that has this many bytes.
    pub group_bytes_max: usize,
    /// Entries that one call of `reclaim` deletes, at most.
    pub reclaim_rows_max: usize,
    /// Threads that flush and compact. With more than one, fjall keeps the first for flushes, and
    /// that one spins while a compaction waits for another: a core more for a little less waiting
    /// under the heaviest load.
    pub worker_threads: usize,
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
            worker_threads: 1,
            faults: None,
        }
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
