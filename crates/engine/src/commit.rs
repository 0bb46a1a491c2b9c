//! What a commit contains: conditions, writes, and functions that the engine runs when it orders
//! commits.

use crate::{BoxError, Found, Key, Revision};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// How long before its commit point a commit's guards may have held, in milliseconds by the store's
/// clock; with a single writer they hold at that point itself. After changing a guarded key, wait twice
/// this long to see every commit made under the old state: the change itself may have been as slow.
pub const GUARD_AGE_MS_MAX: u64 = 15_000;

/// Writes that happen together if all guards and checks hold.
///
/// An engine evaluates in this order and returns the first failure: guards, checks, the functions
/// of the writes, the derivation, derived checks, the functions of derived writes.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The caller's clock: the revision will not be earlier. An engine that uses the store's clock
    /// ignores it.
    pub not_before: Revision,
    /// Conditions that held at some moment between the call and the point of the commit, at most
    /// [`GUARD_AGE_MS_MAX`] before it. A guard is not a lock: commits under one guard do not wait for
    /// each other.
    pub guards: Vec<Check>,
    /// Conditions that hold at the point of the commit itself.
    pub checks: Vec<Check>,
    /// No key may be written twice, including by derived writes.
    pub writes: Vec<Write>,
    /// Keys that it writes and that many commits write at the same time, whatever the old value; derived
    /// writes may write them. A hint: an engine whose store would make such commits conflict lets those of
    /// one process take turns, or sends them together.
    pub turns: Vec<Key>,
    /// Computes derived writes. Most commits have none, which costs nothing.
    pub derive: Option<Arc<dyn Derive>>,
}

impl Commit {
    /// A commit of `writes` without conditions.
    pub fn new(not_before: Revision, writes: Vec<Write>) -> Self {
        Self {
            not_before,
            guards: Vec::new(),
            checks: Vec::new(),
            writes,
            turns: Vec::new(),
            derive: None,
        }
    }

    /// The memory that the commit uses until an engine starts it: keys, values, and what its
    /// functions report.
    pub fn held_bytes(&self) -> usize {
        let checked =
            self.guards.iter().chain(&self.checks).map(|check| check.key.as_slice().len());
        let written = self.writes.iter().map(Write::held_bytes);
        let derive = self.derive.as_ref().map_or(0, |derive| derive.held_bytes());
        checked.chain(written).sum::<usize>() + derive
    }
}

/// A condition on a key.
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
    /// Stores the result of applying the function to the current value. It runs when the commit is
    /// ordered, so that concurrent writers of one key need neither read first nor retry.
    Modify(Key, Arc<dyn Modify>),
    /// Stores a value, not empty, under [`Key::appended`]: the prefix, the revision of the commit,
    /// and the index among the commit's appends, counted from 0, its own before derived ones.
    Append(Key, Bytes),
}

impl Write {
    /// The key that is written; `None` for an append, whose key is created with the commit.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Put(key, _) | Self::Delete(key) | Self::Modify(key, _) => Some(key),
            Self::Append(..) => None,
        }
    }

    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Self::Put(_, value) | Self::Append(_, value) => value.len(),
            Self::Delete(_) | Self::Modify(..) => 0,
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Self::Put(key, value) | Self::Append(key, value) => key.as_slice().len() + value.len(),
            Self::Delete(key) => key.as_slice().len(),
            Self::Modify(key, function) => key.as_slice().len() + function.held_bytes(),
        }
    }
}

/// The value of a key just before a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current<'c> {
    pub value: &'c [u8],
    pub revision: Revision,
}

impl<'c> From<&'c Found> for Current<'c> {
    fn from(found: &'c Found) -> Self {
        Self { value: &found.value, revision: found.revision }
    }
}

/// A pure function from the current value of a key to its next.
pub trait Modify: Send + Sync + fmt::Debug {
    /// The next value, not empty; `None` deletes the key. May be called more than once for one
    /// commit, and must return the same result for the same input. An error fails the whole commit
    /// with [`CommitError::Refused`](crate::CommitError::Refused).
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError>;

    /// Whether the result depends on [`Current::revision`]. A function of the value alone can be applied to
    /// a value that another commit is about to write, before its revision is known.
    fn reads_revision(&self) -> bool {
        true
    }

    /// Its memory use in bytes, which counts against the bound of the engine's queue.
    fn held_bytes(&self) -> usize;
}

/// A pure function from the changes of a commit to its derived writes and checks: index entries,
/// expiry times, a change feed.
///
/// It runs when the commit is ordered, so that callers need neither read first nor retry. It sees
/// only the keys that the commit writes: a dependency on another key is a derived check, or a
/// derived [`Write::Modify`] of that key. Derived writes derive nothing further.
pub trait Derive: Send + Sync + fmt::Debug {
    /// Adds to `derived` what follows from `changes`: all changes of the commit together, in the
    /// order of its writes, so that the function can check the final state as a whole. Appends are
    /// not included. May be called more than once, like [`Modify::modify`].
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal>;

    /// Its memory use, like [`Modify::held_bytes`].
    fn held_bytes(&self) -> usize;
}

/// What a commit does to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'c> {
    /// Which write of the commit it is.
    pub index: usize,
    pub key: &'c [u8],
    pub before: Option<Current<'c>>,
    pub after: Option<&'c [u8]>,
}

/// A refusal of the whole commit, attributed to one of its writes.
#[derive(Debug)]
pub struct Refusal {
    pub index: usize,
    pub reason: BoxError,
}

/// What a [`Derive`] adds to its commit.
#[derive(Debug, Default)]
pub struct Derived {
    pub checks: Vec<DerivedCheck>,
    pub writes: Vec<DerivedWrite>,
}

/// A check that fails the commit if it does not hold.
#[derive(Debug)]
pub struct DerivedCheck {
    pub check: Check,
    pub refusal: Refusal,
}

/// A write, and the index of the write that caused it, to which a refusal of its function is
/// attributed.
#[derive(Debug)]
pub struct DerivedWrite {
    pub cause: usize,
    pub write: Write,
}

impl Derived {
    /// Fails the commit, attributed to write `cause`, unless `check` holds at the point of the
    /// commit.
    pub fn check(&mut self, cause: usize, check: Check, reason: impl Into<BoxError>) {
        let refusal = Refusal { index: cause, reason: reason.into() };
        self.checks.push(DerivedCheck { check, refusal });
    }

    /// Adds a write that follows from write `cause`.
    pub fn write(&mut self, cause: usize, write: Write) {
        self.writes.push(DerivedWrite { cause, write });
    }
}
