//! The engine contract: an ordered map from bytes to bytes, with snapshots and conditional commits.
//!
//! Small enough to remember, wide enough for a tuned local engine and for a store that several
//! processes share: point reads, read views, and a one-shot conditional commit. There are no
//! interactive write transactions. Engines know bytes only; `lazuli-layout` says what the bytes mean.
//!
//! # What every engine promises
//!
//! - A [`View`] is one snapshot. It sees every commit acknowledged before [`Engine::view`] was
//!   called, and nothing of any commit that is not durable by the engine's own setting. Used for
//!   longer than [`Limits::view_ms_max`], it fails with [`EngineError::Expired`] or goes on showing
//!   the same snapshot; it never shows anything else.
//! - [`Engine::read`] gives each key as it was at some moment between call and answer.
//! - A [`Commit`] happens entirely or not at all, at one point between call and answer. Its checks
//!   hold at that very point, and what is derived from its writes happens with them: commits are
//!   linearizable. A guard held at some moment between the call and that point.
//! - Every value carries the [`Revision`] of the commit that wrote it. Revisions of one key strictly
//!   increase, also when a clock steps back, also across deletion and reopening.
//! - Where there is one writer, keys made by [`Write::Append`] under one prefix are in commit order:
//!   a view that shows one shows all that come before it.
//! - A commit that was not acknowledged may or may not have happened; it is never half done.
//!
//! What differs from engine to engine, and what a caller may build on, is in [`Nature`].
//!
//! `lazuli-testkit` holds one suite that every engine passes.

mod commit;
mod error;
mod memory;
mod nature;
pub mod optimistic;
pub mod queue;
mod range;
pub mod resolve;
pub mod retry;

pub use commit::{
    Change, Check, Commit, Current, Derive, Derived, DerivedCheck, DerivedWrite, Expect, Modify,
    Refusal, Write,
};
pub use error::{BoxError, CommitError, EngineError};
pub use memory::{MemoryEngine, MemoryOptions, ViewClock};
pub use nature::{Acknowledged, ClockSource, Limits, Nature, Writers};
pub use range::KeyRange;

use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A future as the contract returns it: boxed, because engines are chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An ordered, durable map from bytes to bytes.
pub trait Engine: Send + Sync + 'static {
    /// What one key, value, commit and view may be.
    fn limits(&self) -> &Limits;

    /// What callers may build on. It stays the same while the engine is open.
    fn nature(&self) -> Nature;

    /// The answers for `keys`, in their order, each as it was at some moment between call and answer;
    /// two keys may be of two moments. One round trip.
    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>>;

    /// A snapshot that sees every commit acknowledged before this call.
    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>>;

    /// Applies `commit` if its guards and checks hold; returns the revision it stamped.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>>;

    /// Gives back some of the space of `range`, whose keys nobody can name any more: no view shows the
    /// range again, and no commit that anybody could see writes there. Idempotent; call again while
    /// it says [`Reclaimed::Partly`]. Where there are many writers, a slow commit that was concurrent
    /// with the end of the range may still write there: a later call finds it.
    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>>;

    /// Whether the engine takes reads and commits now. Cheap, because readiness probes ask often.
    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>>;

    /// One bounded step of the engine's own upkeep. Call again soon while it says
    /// [`Reclaimed::Partly`]. An engine without upkeep, or with a thread for it, has nothing to do.
    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>>;

    /// Takes no more commits, finishes those it took, and makes durable what can be. Idempotent. After
    /// it every call may fail with [`EngineError::Unavailable`].
    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>>;
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
    /// How many entries the caller believes it will take: a hint for engines that fetch in chunks.
    /// It changes no answer.
    pub rows_expected: usize,
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

/// When a value was written: 100 ns ticks, strictly increasing per key. Where the clock is the
/// caller's, never before the time that the commit named in [`Commit::not_before`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A key: one to `key_bytes_max` bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

/// What follows the prefix of an appended key: revision and position, both big-endian.
const APPENDED_SUFFIX_BYTES: usize = size_of::<u64>() + size_of::<u32>();

impl Key {
    /// The key of a value that was appended under `prefix`: the prefix, the revision of the commit
    /// (8 bytes big-endian) and the place among the commit's appends (4 bytes big-endian).
    pub fn appended(prefix: &Self, revision: Revision, position: u32) -> Self {
        let mut key = Vec::with_capacity(prefix.0.len() + APPENDED_SUFFIX_BYTES);
        key.extend_from_slice(&prefix.0);
        key.extend_from_slice(&revision.0.to_be_bytes());
        key.extend_from_slice(&position.to_be_bytes());
        key.into()
    }

    /// Takes an appended key apart: prefix, revision, position. `None` for a key too short to be one.
    pub fn split_appended(key: &[u8]) -> Option<(&[u8], Revision, u32)> {
        let (rest, position) = key.split_last_chunk()?;
        let (prefix, revision) = rest.split_last_chunk()?;
        let revision = Revision(u64::from_be_bytes(*revision));
        Some((prefix, revision, u32::from_be_bytes(*position)))
    }

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

/// How far a chore came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimed {
    Fully,
    Partly,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_keys_order_by_revision_then_position() {
        let prefix = Key::from(b"Lf".to_vec());
        let stamps = [(1, 0), (1, 1), (1, 256), (2, 0), (256, 0), (u64::MAX, u32::MAX)];
        let keys = stamps.map(|(revision, at)| Key::appended(&prefix, Revision(revision), at));
        assert!(keys.is_sorted());
        for (key, (revision, at)) in keys.iter().zip(stamps) {
            let split = Key::split_appended(key.as_slice());
            assert_eq!(split, Some((prefix.as_slice(), Revision(revision), at)));
        }
        assert_eq!(Key::split_appended(b"too short"), None);
    }

    /// `docs/format.md` shows an appended key to the byte; the code makes the same.
    #[test]
    fn appended_key_is_as_the_page_of_the_format_shows_it() {
        let page = include_str!("../../../docs/format.md");
        let lines = page.lines().skip_while(|line| *line != "```engine-hex appended-key").skip(1);
        let shown = lines.take_while(|line| *line != "```").flat_map(|line| {
            let hex = line.split("  ").next().unwrap();
            hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap())
        });
        let prefix = Key::from([b"Lf".as_slice(), &7_u64.to_be_bytes()].concat());
        // 2025-01-01T00:00:00Z in ticks of 100 ns since the year 1.
        let revision = Revision(638_712_864_000_000_000);
        let made = Key::appended(&prefix, revision, 1);
        assert_eq!(made.as_slice(), shown.collect::<Vec<u8>>());
    }
}
