//! The engine contract: an ordered map from bytes to bytes, with snapshots and conditional commits.
//!
//! Small enough to hold in the head, wide enough for a tuned local engine and for a transactional
//! cluster: a read view, and a one-shot conditional commit. There are no interactive write
//! transactions. Engines know bytes only; what the bytes mean is `lazuli-layout`'s matter.
//!
//! # What every engine promises
//!
//! - A [`View`] is one snapshot. It sees every commit acknowledged before [`Engine::view`] was
//!   called, and nothing of any commit that is not durable by the engine's own setting.
//! - A [`Commit`] happens entirely or not at all, at one point between call and answer, and its
//!   checks hold at that very point: commits are linearizable.
//! - Every value carries the [`Revision`] of the commit that wrote it. Revisions of one key strictly
//!   increase, also when the clock steps back, also across deletion and reopening.
//! - A commit that was not acknowledged may or may not have happened; it is never half done.
//!
//! `lazuli-testkit` holds one suite that every engine passes.

mod error;
mod memory;
mod range;

pub use error::{BoxError, CommitError, EngineError};
pub use memory::{MemoryEngine, MemoryOptions};
pub use range::KeyRange;

use bytes::Bytes;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A future as the contract returns it: boxed, because engines are chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An ordered, durable map from bytes to bytes.
pub trait Engine: Send + Sync + 'static {
    /// What one key, value and commit may hold.
    fn limits(&self) -> &Limits;

    /// A snapshot that sees every commit acknowledged before this call.
    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>>;

    /// Applies `commit` if its checks hold; returns the revision it stamped.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>>;

    /// Gives back some of the space of `range`, whose keys nobody can name any more: no commit or
    /// view touches the range again. Idempotent; call again while it says [`Reclaimed::Partly`].
    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>>;
}

/// One snapshot of the map.
pub trait View: Send + Sync {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>>;

    /// The answers for `keys`, in their order.
    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>>;

    /// Shows the entries of a range to `visitor`, in order, until it stops, the range ends, or the
    /// scan's own bounds are reached.
    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>>;
}

/// Sees the entries of a scan: key, value, revision. The bytes are borrowed, so that an engine may
/// show them where they lie.
pub type Visitor<'v> = dyn FnMut(&[u8], &[u8], Revision) -> Visit + Send + 'v;

/// What a visitor wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    Continue,
    /// End here; the entry just shown is the first that was not taken.
    StopBefore,
}

/// A bounded walk over a range.
#[derive(Clone, Debug)]
pub struct Scan {
    pub range: KeyRange,
    pub direction: Direction,
    /// Entries shown at most; at least one.
    pub rows_max: usize,
    /// The scan ends after the entry that brings keys and values to this many bytes.
    pub bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// How a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// Every entry of the range was shown.
    Done,
    /// A bound was reached; the entries not yet shown all lie in this range.
    More(KeyRange),
    /// The visitor stopped.
    Stopped,
}

/// A value as stored, and the revision that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub value: Bytes,
    pub revision: Revision,
}

/// When a value was written: 100 ns ticks, strictly increasing per key, never behind the time that
/// the commit named in [`Commit::not_before`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A key: one to `key_bytes_max` bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl std::borrow::Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// Writes that happen together if all checks hold.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The caller's clock: the revision will not lie before it.
    pub not_before: Revision,
    pub checks: Vec<Check>,
    /// No key may be written twice.
    pub writes: Vec<Write>,
}

/// What must be true of a key for a commit to happen.
#[derive(Clone, Debug)]
pub struct Check {
    pub key: Key,
    pub expect: Expect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Present,
    /// Present and last written at this revision.
    At(Revision),
}

impl Expect {
    /// Whether the state `found` satisfies the expectation.
    pub fn holds(self, found: Option<Revision>) -> bool {
        match self {
            Self::Absent => found.is_none(),
            Self::Present => found.is_some(),
            Self::At(revision) => found == Some(revision),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Write {
    /// Stores a value; it must not be empty.
    Put(Key, Bytes),
    Delete(Key),
    /// Stores what the function makes of the current value. It runs where the commit is ordered, so
    /// that many writers of one key need neither a read before nor a retry after.
    Modify(Key, Arc<dyn Modify>),
}

impl Write {
    pub fn key(&self) -> &Key {
        match self {
            Self::Put(key, _) | Self::Delete(key) | Self::Modify(key, _) => key,
        }
    }
}

/// A pure function from the current value of a key to its next.
pub trait Modify: Send + Sync + fmt::Debug {
    /// May be called more than once for one commit, and must then answer the same for the same
    /// input. An error refuses the whole commit as [`CommitError::Refused`].
    fn modify(&self, current: Option<&[u8]>) -> Result<Vec<u8>, BoxError>;
}

/// What an engine accepts.
#[derive(Clone, Debug)]
pub struct Limits {
    pub key_bytes_max: usize,
    pub value_bytes_max: usize,
    pub commit_bytes_max: usize,
    pub commit_writes_max: usize,
}

impl Limits {
    /// Enough for one transaction of the Table service: 4 MiB of body, 100 operations, their table.
    pub const DEFAULT: Self = Self {
        key_bytes_max: 16 * 1024,
        value_bytes_max: 8 * 1024 * 1024,
        commit_bytes_max: 128 * 1024 * 1024,
        commit_writes_max: 1024,
    };

    /// Refuses a commit that no engine of these limits takes.
    pub fn check(&self, commit: &Commit) -> Result<(), CommitError> {
        within("writes of a commit", self.commit_writes_max, commit.writes.len())?;
        within("checks of a commit", self.commit_writes_max, commit.checks.len())?;
        let mut bytes = 0;
        for check in &commit.checks {
            within("bytes of a key", self.key_bytes_max, check.key.0.len())?;
        }
        for write in &commit.writes {
            within("bytes of a key", self.key_bytes_max, write.key().0.len())?;
            if let Write::Put(_, value) = write {
                self.check_value(value.len())?;
                bytes += value.len();
            }
        }
        within("bytes of a commit", self.commit_bytes_max, bytes)
    }

    /// Refuses a value of too many bytes, such as a [`Modify`] may make.
    pub fn check_value(&self, bytes: usize) -> Result<(), CommitError> {
        within("bytes of a value", self.value_bytes_max, bytes)
    }
}

fn within(what: &'static str, max: usize, got: usize) -> Result<(), CommitError> {
    if got > max { Err(CommitError::TooLarge { what, max, got }) } else { Ok(()) }
}

/// How far a reclaim came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimed {
    Fully,
    Partly,
}
