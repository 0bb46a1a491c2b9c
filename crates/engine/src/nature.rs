//! What callers may rely on: who writes, whose clock stamps, what is durable, and the limits.

use crate::{CommitError, Key, Write};

/// The properties of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    pub clock: ClockSource,
    pub writers: Writers,
    pub acknowledged: Acknowledged,
}

impl Nature {
    /// Of a store that several processes write to, and that stamps and keeps what it acknowledges.
    pub const SHARED: Self = Self {
        clock: ClockSource::Store,
        writers: Writers::Many,
        acknowledged: Acknowledged::Kept,
    };

    /// Whether this process can cache the state of the store until it changes it itself: there is
    /// no other writer, and acknowledged commits cannot be lost.
    pub fn only_we_change_it(self) -> bool {
        self.writers == Writers::Sole && self.acknowledged == Acknowledged::Kept
    }
}

/// Whose clock stamps the revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// The caller's, by [`Commit::not_before`](crate::Commit::not_before).
    Caller,
    /// The store's own; `not_before` is ignored.
    Store,
}

/// Who writes to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Only this process.
    Sole,
    /// Any number of processes.
    Many,
}

/// Whether an acknowledged commit lasts while the engine value is in use, whatever the engine does
/// to recover from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// It lasts.
    Kept,
    /// It may be lost when the engine recovers, because it was acknowledged before it was durable;
    /// [`Engine::losses`](crate::Engine::losses) counts such recoveries.
    MayVanish,
}

/// What an engine accepts.
#[derive(Clone, Debug)]
pub struct Limits {
    pub key_bytes_max: usize,
    pub value_bytes_max: usize,
    /// Total value bytes of one commit, including computed and derived values.
    pub commit_bytes_max: usize,
    /// Writes of one commit, including derived ones; the same limit applies to checks and to
    /// guards.
    pub commit_writes_max: usize,
    /// How long a view may be used, in milliseconds.
    pub view_ms_max: u64,
    /// The same for a view that is kept between requests. `u64::MAX` means no limit, but the engine
    /// may drop such a view when it must, with
    /// [`EngineError::Expired`](crate::EngineError::Expired).
    pub kept_view_ms_max: u64,
    /// How many views may be kept between requests.
    pub kept_views_max: usize,
}

impl Limits {
    /// Enough for one transaction of the Table service, with 4 MiB of body and 100 operations, and
    /// the writes derived for 16 unique indexes, a change feed and expiry: at most 71 writes per
    /// operation.
    pub const DEFAULT: Self = Self {
        key_bytes_max: 16 * 1024,
        value_bytes_max: 8 * 1024 * 1024,
        commit_bytes_max: 128 * 1024 * 1024,
        commit_writes_max: 8 * 1024,
        view_ms_max: 60_000,
        kept_view_ms_max: u64::MAX,
        kept_views_max: usize::MAX,
    };

    /// Refuses a commit that exceeds these limits whatever its functions return.
    pub fn check(&self, commit: &crate::Commit) -> Result<(), CommitError> {
        self.check_writes(commit.writes.len())?;
        self.check_checks(commit.checks.len())?;
        within("guards of a commit", self.commit_writes_max, commit.guards.len())?;
        for check in commit.guards.iter().chain(&commit.checks) {
            self.check_key(&check.key)?;
        }
        let mut bytes = 0;
        for write in &commit.writes {
            self.check_write(write)?;
            bytes += write.value_bytes();
        }
        self.check_bytes(bytes)
    }

    /// Refuses a write whose key or value is too long.
    pub fn check_write(&self, write: &Write) -> Result<(), CommitError> {
        match write {
            Write::Put(key, value) => {
                self.check_key(key)?;
                self.check_value(value.len())
            }
            Write::Append(prefix, value) => {
                let key_bytes = prefix.as_slice().len() + crate::APPENDED_SUFFIX_BYTES;
                within(KEY_BYTES, self.key_bytes_max, key_bytes)?;
                self.check_value(value.len())
            }
            Write::Delete(key) | Write::Modify(key, _) => self.check_key(key),
        }
    }

    pub fn check_key(&self, key: &Key) -> Result<(), CommitError> {
        within(KEY_BYTES, self.key_bytes_max, key.as_slice().len())
    }

    /// Refuses a value that is too long, such as the result of a [`Modify`](crate::Modify).
    pub fn check_value(&self, bytes: usize) -> Result<(), CommitError> {
        within("bytes of a value", self.value_bytes_max, bytes)
    }

    /// Refuses a commit of too many writes.
    pub fn check_writes(&self, writes: usize) -> Result<(), CommitError> {
        within("writes of a commit", self.commit_writes_max, writes)
    }

    /// Refuses a commit of too many checks.
    pub fn check_checks(&self, checks: usize) -> Result<(), CommitError> {
        within("checks of a commit", self.commit_writes_max, checks)
    }

    /// Refuses a commit whose values have too many bytes.
    pub fn check_bytes(&self, bytes: usize) -> Result<(), CommitError> {
        within("bytes of a commit", self.commit_bytes_max, bytes)
    }
}

const KEY_BYTES: &str = "bytes of a key";

fn within(what: &'static str, max: usize, got: usize) -> Result<(), CommitError> {
    if got > max { Err(CommitError::TooLarge { what, max, got }) } else { Ok(()) }
}
