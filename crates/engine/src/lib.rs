//! The engine contract: an ordered map from bytes to bytes, with snapshots and conditional commits.
//!
//! The contract is small, yet suits both a tuned local engine and a store shared by several
//! processes: point reads, read views, and a one-shot conditional commit. There are no interactive
//! write transactions. Engines see only bytes; `lazuli-layout` defines their meaning.
//!
//! # What every engine promises
//!
//! - A [`View`] is one snapshot. It sees every commit acknowledged before [`Engine::view`] was
//!   called, and nothing of any commit that is not durable by the engine's own setting. After
//!   [`Limits::view_ms_max`] it either fails with [`EngineError::Expired`] or keeps showing the
//!   same snapshot; it never shows anything else.
//! - [`Engine::read`] returns each key as of some moment during the call.
//! - A [`Commit`] is atomic, at one point during the call. Its checks hold at that point, and
//!   derived writes happen with it: commits are linearizable. A guard held at some moment between
//!   the call and that point, at most [`GUARD_AGE_MS_MAX`] before it.
//! - Every value carries the [`Revision`] of the commit that wrote it. Revisions of one key
//!   strictly increase, even if a clock steps back, and across deletion and reopening.
//! - With one writer, keys created by [`Write::Append`] under one prefix are in commit order: a
//!   view that shows one shows all earlier ones.
//! - An unacknowledged commit may or may not have happened; it is never half done.
//!
//! [`Nature`] describes what differs between engines and what callers may rely on.
//!
//! `lazuli-testkit` holds one suite that every engine passes.

pub mod chunks;
mod commit;
mod error;
mod memory;
pub mod meter;
mod nature;
pub mod optimistic;
pub mod queue;
mod range;
pub mod resolve;
pub mod retry;

pub use commit::{
    Change, Check, Commit, Current, Derive, Derived, DerivedCheck, DerivedWrite, Expect,
    GUARD_AGE_MS_MAX, Modify, Refusal, Write,
};
pub use error::{BoxError, CommitError, EngineError};
pub use memory::{MemoryEngine, MemoryOptions, ViewClock};
pub use nature::{Acknowledged, ClockSource, Limits, Nature, Writers};
pub use range::KeyRange;

use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The futures of the contract are boxed, because engines are chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An ordered, durable map from bytes to bytes.
pub trait Engine: Send + Sync + 'static {
    /// The limits on keys, values, commits and views.
    fn limits(&self) -> &Limits;

    /// What callers may rely on. It does not change while the engine is open.
    fn nature(&self) -> Nature;

    /// How often acknowledged commits may have been lost since the engine was opened: callers forget
    /// what they remember of the store when the number rises. It rises before anything can be read
    /// from the recovered store, and after the last view of the earlier one was opened. Always zero
    /// with [`Acknowledged::Kept`].
    fn losses(&self) -> u64 {
        0
    }

    /// The values of `keys`, in their order, each as of some moment during the call; two keys may
    /// be from different moments. One round trip.
    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>>;

    /// A snapshot that sees every commit acknowledged before this call.
    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>>;

    /// A view to keep between requests: it lives for [`Limits::kept_view_ms_max`]. It may hold a shared
    /// resource until it is dropped, so callers keep at most [`Limits::kept_views_max`]. With many
    /// writers it may still show reclaimed data; with one writer, do not reclaim what a kept view
    /// shows.
    fn kept_view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        self.view()
    }

    /// Applies `commit` if its guards and checks hold; returns its revision.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>>;

    /// Reclaims some of the space of `range`, whose keys are no longer reachable: no view reads the
    /// range again, and no visible commit writes to it. Idempotent; call again while it returns
    /// [`Reclaimed::Partly`]. With many writers, a slow commit that was concurrent with the drop of
    /// the range may still write to it: a later call finds it.
    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>>;

    /// Whether the engine accepts reads and commits now. Cheap, because readiness probes call it
    /// often.
    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>>;

    /// One bounded step of the engine's own maintenance. Call again soon while it returns
    /// [`Reclaimed::Partly`]. An engine that needs none, or has its own thread for it, does
    /// nothing.
    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>>;

    /// Accepts no more commits, finishes the accepted ones, and makes them durable if possible.
    /// Idempotent. Afterwards every call may fail with [`EngineError::Unavailable`].
    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>>;
}

/// One snapshot of the map.
pub trait View: Send + Sync {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>>;

    /// The values of `keys`, in their order.
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

/// Receives the entries of a scan: key, value, revision. The bytes are borrowed, so that an engine
/// can pass them without a copy.
pub type Visitor<'v> = dyn FnMut(&[u8], &[u8], Revision) -> Visit + Send + 'v;

/// What a visitor wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    Continue,
    /// Stop; the current entry is the first one not taken.
    StopBefore,
}

/// A bounded walk over a range.
#[derive(Clone, Debug)]
pub struct Scan {
    pub range: KeyRange,
    pub direction: Direction,
    /// Maximum number of entries; at least one.
    pub rows_max: usize,
    /// The scan ends after the entry that brings keys and values to this many bytes.
    pub bytes_max: usize,
    /// How many entries the caller expects to take: a hint for engines that fetch in chunks. It
    /// does not change the result.
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
    /// A bound was reached; the remaining entries are in this range.
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

/// When a value was written: 100 ns ticks, strictly increasing per key. With the caller's clock,
/// never before the time that the commit gives in [`Commit::not_before`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A key: one to `key_bytes_max` bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

/// What follows the prefix of an appended key: revision and position, both big-endian.
const APPENDED_SUFFIX_BYTES: usize = size_of::<u64>() + size_of::<u32>();

impl Key {
    /// The key of a value appended under `prefix`: the prefix, the revision of the commit (8 bytes
    /// big-endian) and the index among the commit's appends (4 bytes big-endian).
    pub fn appended(prefix: &Self, revision: Revision, position: u32) -> Self {
        let mut key = Vec::with_capacity(prefix.0.len() + APPENDED_SUFFIX_BYTES);
        key.extend_from_slice(&prefix.0);
        key.extend_from_slice(&revision.0.to_be_bytes());
        key.extend_from_slice(&position.to_be_bytes());
        key.into()
    }

    /// Splits an appended key into prefix, revision and position. `None` if the key is too short.
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

/// How far a maintenance call got.
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
        let (table, feed) = (7_u64.to_be_bytes(), 1_u32.to_be_bytes());
        let prefix = Key::from([b"Lf".as_slice(), &table, &feed].concat());
        // 2025-01-01T00:00:00Z in ticks of 100 ns since the year 1.
        let revision = Revision(638_712_864_000_000_000);
        let made = Key::appended(&prefix, revision, 1);
        assert_eq!(made.as_slice(), shown.collect::<Vec<u8>>());
    }
}
