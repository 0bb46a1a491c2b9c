//! A group of commits in the making: each is judged against the store and what those before it
//! leave behind.

use crate::committer::Chore;
use crate::store::{Changes, Stored, Unstamped};
use crate::view::Snapshot;
use lazuli_engine::{
    Check, Commit, CommitError, EngineError, Found, Key, KeyRange, Limits, Modify, Revision, Write,
};
use std::sync::Arc;

/// What a group will write.
pub(crate) struct Staged {
    /// A key is there once, however many commits wrote it: a hundred merges of one entity in one
    /// group are one value in the journal.
    pub(crate) changes: Changes,
    /// Ranges whose files will be dropped.
    pub(crate) dropped: Vec<KeyRange>,
    /// Whether files were dropped, so that something must be written to let go of them.
    pub(crate) release_files: bool,
    /// The last revision given out.
    pub(crate) last: Revision,
}

impl Staged {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.dropped.is_empty() && !self.release_files
    }
}

/// A commit whose values are laid out as they will be stored.
pub(crate) struct Prepared {
    not_before: Revision,
    checks: Vec<Check>,
    writes: Vec<(Key, PreparedChange)>,
}

enum PreparedChange {
    Put(Unstamped),
    Delete,
    Modify(Arc<dyn Modify>),
}

impl From<Commit> for Prepared {
    fn from(commit: Commit) -> Self {
        let prepared = |write| match write {
            Write::Put(key, value) => (key, PreparedChange::Put(Unstamped::new(&value))),
            Write::Delete(key) => (key, PreparedChange::Delete),
            Write::Modify(key, function) => (key, PreparedChange::Modify(function)),
        };
        let Commit { not_before, checks, writes } = commit;
        Self { not_before, checks, writes: writes.into_iter().map(prepared).collect() }
    }
}

pub(crate) struct Stage<'s> {
    base: &'s Snapshot,
    limits: &'s Limits,
    staged: Staged,
}

impl<'s> Stage<'s> {
    /// An empty group upon `base`, the state of which `last` is the last revision.
    pub(crate) fn new(base: &'s Snapshot, limits: &'s Limits, last: Revision) -> Self {
        let staged =
            Staged { changes: Changes::new(), dropped: Vec::new(), release_files: false, last };
        Self { base, limits, staged }
    }

    /// Adds `commit` to the group, or says why it cannot be; then the group is as it was.
    pub(crate) fn apply(&mut self, commit: Prepared) -> Result<Revision, CommitError> {
        for (index, check) in commit.checks.iter().enumerate() {
            let found = self.current(&check.key)?.map(|found| found.revision);
            if !check.expect.holds(found) {
                return Err(CommitError::CheckFailed { index, found });
            }
        }
        let next = |(index, (key, change))| Ok((self.next(index, &key, change)?, key));
        let values: Vec<_> =
            commit.writes.into_iter().enumerate().map(next).collect::<Result<_, CommitError>>()?;
        let revision = commit.not_before.max(Revision(self.staged.last.0.saturating_add(1)));
        self.staged.last = revision;
        let stamped = |(value, key): (Option<Unstamped>, Key)| {
            (key, value.map(|value| value.stamp(revision)))
        };
        self.staged.changes.extend(values.into_iter().map(stamped));
        Ok(revision)
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

    /// The value that a write leaves behind; `None` where it deletes.
    fn next(
        &self,
        index: usize,
        key: &Key,
        change: PreparedChange,
    ) -> Result<Option<Unstamped>, CommitError> {
        match change {
            PreparedChange::Put(value) => Ok(Some(value)),
            PreparedChange::Delete => Ok(None),
            PreparedChange::Modify(function) => {
                let current = self.current(key)?;
                let value = function
                    .modify(current.as_ref().map(|found| found.value.as_ref()))
                    .map_err(|reason| CommitError::Refused { index, reason })?;
                self.limits.check_value(value.len())?;
                Ok(Some(Unstamped::new(&value)))
            }
        }
    }
}
