//! A group of commits in the making: each is judged against the store and what those before it
//! leave behind.

use crate::committer::Chore;
use crate::store::Changes;
use crate::view::Snapshot;
use bytes::Bytes;
use lazuli_engine::{
    Commit, CommitError, EngineError, Found, Key, KeyRange, Limits, Modify, Revision, Write,
};

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
    pub(crate) fn apply(&mut self, commit: Commit) -> Result<Revision, CommitError> {
        for (index, check) in commit.checks.iter().enumerate() {
            let found = self.current(&check.key)?.map(|found| found.revision);
            if !check.expect.holds(found) {
                return Err(CommitError::CheckFailed { index, found });
            }
        }
        let values = self.new_values(&commit.writes)?;
        let revision = commit.not_before.max(Revision(self.staged.last.0.saturating_add(1)));
        self.staged.last = revision;
        self.staged.changes.reserve(commit.writes.len());
        for (write, value) in commit.writes.into_iter().zip(values) {
            let (Write::Put(key, _) | Write::Delete(key) | Write::Modify(key, _)) = write;
            let change = value.map(|value| Found { value, revision });
            self.staged.changes.insert(key, change);
        }
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
            Some(change) => Ok(change.clone()),
            None => self.base.find(key.as_slice()),
        }
    }

    /// The value each write leaves behind; `None` where it deletes.
    fn new_values(&self, writes: &[Write]) -> Result<Vec<Option<Bytes>>, CommitError> {
        let next = |(index, write): (usize, &Write)| match write {
            Write::Put(_, value) => Ok(Some(value.clone())),
            Write::Delete(_) => Ok(None),
            Write::Modify(key, function) => self.modified(index, key, function.as_ref()).map(Some),
        };
        writes.iter().enumerate().map(next).collect()
    }

    fn modified(
        &self,
        index: usize,
        key: &Key,
        function: &dyn Modify,
    ) -> Result<Bytes, CommitError> {
        let current = self.current(key)?;
        let value = function
            .modify(current.as_ref().map(|found| found.value.as_ref()))
            .map_err(|reason| CommitError::Refused { index, reason })?;
        self.limits.check_value(value.len())?;
        Ok(value.into())
    }
}
