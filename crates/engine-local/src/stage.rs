//! A group of commits being assembled: each is evaluated against the store and the earlier commits
//! of the group.

use crate::committer::Chore;
use crate::store::{Changes, Stored, Unstamped};
use crate::view::Snapshot;
use lazuli_engine::{
    Change, Check, Commit, CommitError, Current, Derive, DerivedWrite, EngineError, Found, Key,
    KeyRange, Limits, Modify, Revision, Write, resolve,
};
use std::sync::Arc;

/// What a group will write.
pub(crate) struct Staged {
    /// Each key once, however many commits wrote it: a hundred merges of one entity in one group are
    /// one value in the journal.
    pub(crate) changes: Changes,
    /// Ranges whose files will be dropped.
    pub(crate) dropped: Vec<KeyRange>,
    /// Whether files were dropped, so that a write is needed to release them.
    pub(crate) release_files: bool,
    /// The last revision assigned.
    pub(crate) last: Revision,
}

impl Staged {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.dropped.is_empty() && !self.release_files
    }
}

/// A commit with its values encoded as they will be stored.
pub(crate) struct Prepared {
    not_before: Revision,
    guards: Vec<Check>,
    checks: Vec<Check>,
    writes: Vec<PreparedWrite>,
    derive: Option<Arc<dyn Derive>>,
}

enum PreparedWrite {
    Put(Key, Unstamped),
    Delete(Key),
    Modify(Key, Arc<dyn Modify>),
    Append(Key, Unstamped),
}

impl From<Commit> for Prepared {
    fn from(commit: Commit) -> Self {
        let Commit { not_before, guards, checks, writes, turns: _, derive } = commit;
        let writes = writes.into_iter().map(PreparedWrite::from).collect();
        Self { not_before, guards, checks, writes, derive }
    }
}

impl From<Write> for PreparedWrite {
    fn from(write: Write) -> Self {
        match write {
            Write::Put(key, value) => Self::Put(key, Unstamped::new(&value)),
            Write::Delete(key) => Self::Delete(key),
            Write::Modify(key, function) => Self::Modify(key, function),
            Write::Append(prefix, value) => Self::Append(prefix, Unstamped::new(&value)),
        }
    }
}

/// A write whose value is computed but not yet stamped.
enum Made {
    Put(Key, Unstamped),
    Delete(Key),
    Append(Key, Unstamped),
}

impl Made {
    /// What it adds to the group, in bytes: key and value.
    fn bytes(&self) -> usize {
        match self {
            Self::Put(key, value) | Self::Append(key, value) => key.as_slice().len() + value.len(),
            Self::Delete(key) => key.as_slice().len(),
        }
    }

    fn value_bytes(&self) -> usize {
        match self {
            Self::Put(_, value) | Self::Append(_, value) => value.len(),
            Self::Delete(_) => 0,
        }
    }

    /// The key and its next value, as passed to a [`Derive`]; `None` for an append.
    fn change(&self) -> Option<(&Key, Option<&[u8]>)> {
        match self {
            Self::Put(key, value) => Some((key, Some(value.payload()))),
            Self::Delete(key) => Some((key, None)),
            Self::Append(..) => None,
        }
    }
}

pub(crate) struct Stage<'s> {
    base: &'s Snapshot,
    limits: &'s Limits,
    staged: Staged,
    bytes: usize,
}

impl<'s> Stage<'s> {
    /// An empty group on top of `base`, whose last revision is `last`.
    pub(crate) fn new(base: &'s Snapshot, limits: &'s Limits, last: Revision) -> Self {
        let staged =
            Staged { changes: Changes::new(), dropped: Vec::new(), release_files: false, last };
        Self { base, limits, staged, bytes: 0 }
    }

    /// Bytes of keys and values staged so far, including those that later commits of the group
    /// replaced.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds `commit` to the group. On an error the group is unchanged.
    pub(crate) fn apply(&mut self, commit: Prepared) -> Result<Revision, CommitError> {
        let Prepared { not_before, guards, checks, writes, derive } = commit;
        if let Some((index, found)) = self.first_failure(&guards)? {
            return Err(CommitError::GuardFailed { index, found });
        }
        if let Some((index, found)) = self.first_failure(&checks)? {
            return Err(CommitError::CheckFailed { index, found });
        }
        let mut made = Vec::with_capacity(writes.len());
        for (index, write) in writes.into_iter().enumerate() {
            made.push(self.make(index, write)?);
        }
        if let Some(derive) = derive {
            self.derive(&*derive, checks.len(), &mut made)?;
        }
        self.limits.check_bytes(made.iter().map(Made::value_bytes).sum())?;
        let revision = not_before.max(Revision(self.staged.last.0.saturating_add(1)));
        self.staged.last = revision;
        self.stamp(made, revision);
        Ok(revision)
    }

    fn stamp(&mut self, made: Vec<Made>, revision: Revision) {
        self.staged.changes.reserve(made.len());
        let mut position = 0;
        for write in made {
            self.bytes += write.bytes();
            let (key, value) = match write {
                Made::Put(key, value) => (key, Some(value.stamp(revision))),
                Made::Delete(key) => (key, None),
                Made::Append(prefix, value) => {
                    let key = Key::appended(&prefix, revision, position);
                    position += 1;
                    (key, Some(value.stamp(revision)))
                }
            };
            self.staged.changes.insert(key, value);
        }
    }

    pub(crate) fn chore(&mut self, chore: Chore) {
        match chore {
            Chore::Delete(keys) => {
                self.staged.changes.extend(keys.into_iter().map(|key| (key, None)));
            }
            Chore::NoteDropped(range) => self.staged.dropped.push(range),
            Chore::ReleaseFiles => self.staged.release_files = true,
        }
    }

    pub(crate) fn into_staged(self) -> Staged {
        self.staged
    }

    fn current(&self, key: &Key) -> Result<Option<Found>, EngineError> {
        match self.staged.changes.get(key) {
            Some(change) => Ok(change.as_ref().map(Stored::found)),
            None => self.base.find(key.as_slice()),
        }
    }

    /// Which check fails first, and what it found.
    fn first_failure(
        &self,
        checks: &[Check],
    ) -> Result<Option<(usize, Option<Revision>)>, EngineError> {
        for (index, check) in checks.iter().enumerate() {
            let found = self.current(&check.key)?.map(|found| found.revision);
            if !check.expect.holds(found) {
                return Ok(Some((index, found)));
            }
        }
        Ok(None)
    }

    /// Computes the value of a write; `index` is the write of the commit to which errors are
    /// attributed.
    fn make(&self, index: usize, write: PreparedWrite) -> Result<Made, CommitError> {
        Ok(match write {
            PreparedWrite::Put(key, value) => Made::Put(key, value),
            PreparedWrite::Delete(key) => Made::Delete(key),
            PreparedWrite::Append(prefix, value) => Made::Append(prefix, value),
            PreparedWrite::Modify(key, function) => {
                let found = self.current(&key)?;
                let current = found.as_ref().map(Current::from);
                match resolve::modify(index, &*function, current, self.limits)? {
                    Some(value) => Made::Put(key, Unstamped::new(&value)),
                    None => Made::Delete(key),
                }
            }
        })
    }

    /// Adds to a commit what follows from its writes.
    fn derive(
        &self,
        function: &dyn Derive,
        checks: usize,
        made: &mut Vec<Made>,
    ) -> Result<(), CommitError> {
        let mut before = Vec::with_capacity(made.len());
        for (index, write) in made.iter().enumerate() {
            if let Some((key, after)) = write.change() {
                before.push((index, key, self.current(key)?, after));
            }
        }
        let changes: Vec<Change<'_>> = before
            .iter()
            .map(|(index, key, before, after)| Change {
                index: *index,
                key: key.as_slice(),
                before: before.as_ref().map(Current::from),
                after: *after,
            })
            .collect();
        let mut find = |key: &Key| self.current(key);
        let counts = (made.len(), checks);
        let derived = resolve::derive(function, &changes, counts, self.limits, &mut find)?;
        for DerivedWrite { cause, write } in derived.writes {
            made.push(self.make(cause, write.into())?);
        }
        Ok(())
    }
}
