//! What a commit says: conditions, writes, and functions that the engine runs where it orders commits.

use crate::{BoxError, Found, Key, Revision};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// Writes that happen together if all guards and checks hold.
///
/// An engine judges in this order, and answers with the first failure: guards, checks, the functions
/// of the writes, the derivation, derived checks, the functions of derived writes.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The caller's clock: the revision will not lie before it. An engine whose clock is the store's
    /// does not look at it.
    pub not_before: Revision,
    /// What must have held at some moment between the call and the point of the commit. A guard is
    /// not a lock: many commits under one guard do not wait for each other.
    pub guards: Vec<Check>,
    /// What must hold at the very point of the commit.
    pub checks: Vec<Check>,
    /// No key may be written twice, by these and the derived writes together.
    pub writes: Vec<Write>,
    /// What follows from the writes; most commits have none, and then pay nothing.
    pub derive: Option<Arc<dyn Derive>>,
}

impl Commit {
    /// A commit of `writes` without conditions.
    pub fn new(not_before: Revision, writes: Vec<Write>) -> Self {
        Self { not_before, guards: Vec::new(), checks: Vec::new(), writes, derive: None }
    }

    /// What the commit holds in memory until an engine takes it up: keys, values, and what its
    /// functions say they hold.
    pub fn held_bytes(&self) -> usize {
        let checked =
            self.guards.iter().chain(&self.checks).map(|check| check.key.as_slice().len());
        let written = self.writes.iter().map(Write::held_bytes);
        let derive = self.derive.as_ref().map_or(0, |derive| derive.held_bytes());
        checked.chain(written).sum::<usize>() + derive
    }
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
    /// Stores a value, not empty, under [`Key::appended`]: the prefix, the revision of the commit, and
    /// the place among the appends of the commit, counted from 0, its own before derived ones.
    Append(Key, Bytes),
}

impl Write {
    /// The key that is written; `None` for an append, whose key the commit makes.
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

/// The value of a key at the point of a commit, before it.
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
    /// commit, and must then answer the same for the same input. An error refuses the whole
    /// commit as [`CommitError::Refused`](crate::CommitError::Refused).
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError>;

    /// What it holds in memory, in bytes. It counts against the bounds of the engine's queue.
    fn held_bytes(&self) -> usize;
}

/// A pure function from what a commit changes to what else it must do: index entries, moments of
/// expiry, a feed.
///
/// It runs where the commit is ordered, so that neither a read precedes the commit nor a retry follows.
/// It sees the keys that the commit writes and no others: what depends on another key goes through a
/// derived check, or a derived [`Write::Modify`] of that key. Nothing is derived from derived writes.
pub trait Derive: Send + Sync + fmt::Debug {
    /// Adds to `derived` what follows from `changes`: all changes of the commit at once, in the order
    /// of its writes, so that the state it leaves can be judged as a whole. Appends are not among
    /// them. May be called more than once, as [`Modify::modify`].
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal>;

    /// What it holds in memory, as [`Modify::held_bytes`].
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

/// A refusal of the whole commit, blamed on one of its writes.
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

/// A check that refuses the commit when it does not hold.
#[derive(Debug)]
pub struct DerivedCheck {
    pub check: Check,
    pub refusal: Refusal,
}

/// A write, and the write of the commit that caused it, to which a refusal of its function is blamed.
#[derive(Debug)]
pub struct DerivedWrite {
    pub cause: usize,
    pub write: Write,
}

impl Derived {
    /// Refuses the commit, blaming write `cause`, unless `check` holds at the point of the commit.
    pub fn check(&mut self, cause: usize, check: Check, reason: impl Into<BoxError>) {
        let refusal = Refusal { index: cause, reason: reason.into() };
        self.checks.push(DerivedCheck { check, refusal });
    }

    /// Adds a write that follows from write `cause`.
    pub fn write(&mut self, cause: usize, write: Write) {
        self.writes.push(DerivedWrite { cause, write });
    }
}
