//! The committer: one thread that owns the writes.
//!
//! It takes the queued commits as one group, evaluates each in turn, writes the group as one batch
//! with one sync, publishes the new snapshot, and only then replies. So one sync serves all commits
//! that arrived during the last one, and no reply, not even a failed check, reveals a state that
//! could still be lost.

use crate::options::{Durability, LocalOptions};
use crate::poison::Poison;
use crate::stage::{Prepared, Stage, Staged};
use crate::store::{Store, WriteFailure};
use crate::view::Snapshot;
use arc_swap::ArcSwap;
use fjall::PersistMode;
use lazuli_engine::{CommitError, EngineError, Key, KeyRange, Limits, Revision};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

const WRITES_REFUSED: &str = "a write failed, and writes are refused until the store is reopened";

/// A job for the committer.
pub(crate) enum Job {
    Commit {
        commit: Prepared,
        /// The commit's place in the queue, released when the job starts.
        place: OwnedSemaphorePermit,
        reply: oneshot::Sender<Result<Revision, CommitError>>,
    },
    Chore {
        chore: Chore,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
}

/// The steps of a reclaim that must be ordered with the commits.
pub(crate) enum Chore {
    /// Deletes keys that no commit and no view uses any more.
    Delete(Vec<Key>),
    /// Records that the files of a range will be dropped.
    NoteDropped(KeyRange),
    /// Publishes a snapshot without the dropped files, and removes the files.
    ReleaseFiles,
}

pub(crate) struct Committer {
    pub(crate) store: Arc<Store>,
    pub(crate) limits: Limits,
    pub(crate) options: LocalOptions,
    /// Ends when the engine closes, after the last job.
    pub(crate) jobs: Receiver<Job>,
    pub(crate) published: Arc<ArcSwap<Snapshot>>,
    /// The last revision assigned.
    pub(crate) last: Revision,
    /// Why writes are refused, if they are.
    pub(crate) poison: Arc<Poison>,
    /// When the oldest unsynced write must be synced.
    pub(crate) sync_due: Option<Instant>,
    /// Whether dropped files have not been removed yet.
    pub(crate) release_due: bool,
}

impl Committer {
    /// Works until the engine closes. After a panic, writes are refused as after a failed write:
    /// what the panic left undone is unknown. Commits in the interrupted group have an unknown
    /// outcome, and their callers get that error.
    pub(crate) fn run(mut self) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work())) {
            let panic = panic_message(panic.as_ref());
            self.poison.set(format!("{WRITES_REFUSED}: the committer panicked: {panic}"));
        }
    }

    /// Works until the engine closes, then syncs.
    fn work(&mut self) {
        while let Some(first) = self.next_job() {
            self.commit(first);
        }
        if self.poison.get().is_none()
            && let Err(failure) = self.store.end(self.last)
        {
            self.poisoned(failure);
        }
    }

    /// Waits for a job, and syncs when due.
    fn next_job(&mut self) -> Option<Job> {
        loop {
            let Some(due) = self.sync_due else {
                return self.jobs.recv().ok();
            };
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.sync();
                continue;
            }
            match self.jobs.recv_timeout(left) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => self.sync(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Evaluates `first` and the commits queued after it, within the bounds of a group, writes
    /// them, publishes, replies.
    ///
    /// The byte bound applies to what the group will write: a small commit may change large values.
    fn commit(&mut self, first: Job) {
        let base = self.published.load_full();
        let mut stage = Stage::new(&base, &self.limits, self.last);
        let mut answers = vec![first.stage(&mut stage)];
        while answers.len() < self.options.group_commits_max
            && stage.bytes() < self.options.group_bytes_max
            && let Ok(job) = self.jobs.try_recv()
        {
            answers.push(job.stage(&mut stage));
        }
        self.options.meter.grouped(answers.len());
        let staged = stage.into_staged();
        drop(base);
        let release_files = staged.release_files;
        let outcome = self.write(staged);
        for answer in answers {
            answer.send(outcome.as_ref());
        }
        if outcome.is_ok() {
            self.tidy(release_files);
        }
    }

    fn write(&mut self, staged: Staged) -> Result<(), Refusal> {
        self.refusal()?;
        let last = staged.last;
        if !staged.is_empty() {
            let mode = match self.options.durability {
                // fdatasync also writes the metadata needed to read the data; a full fsync would
                // only add the modification time.
                Durability::Sync => PersistMode::SyncData,
                Durability::Interval(_) | Durability::Memory => PersistMode::Buffer,
            };
            let began = Instant::now();
            self.store
                .write(staged.changes, &staged.dropped, last, mode)
                .map_err(|failure| self.poisoned(failure))?;
            let written = Instant::now();
            if mode == PersistMode::SyncData {
                self.options.meter.synced(written.duration_since(began));
            }
            if let Durability::Interval(interval) = self.options.durability {
                self.sync_due = self.sync_due.or_else(|| written.checked_add(interval));
            }
            let replaced = self.published.swap(Arc::new(self.store.snapshot()));
            replaced.replace(written);
            self.options.meter.view_replaced(&replaced);
        }
        self.last = last;
        Ok(())
    }

    /// Periodic work of the store. No caller waits for it.
    fn tidy(&mut self, release_files: bool) {
        self.release_due |= release_files;
        if let Err(failure) = self.release_files().and_then(|()| self.store.make_room()) {
            self.poisoned(failure);
        }
    }

    fn release_files(&mut self) -> Result<(), WriteFailure> {
        if self.release_due {
            self.release_due = !self.store.release_files()?;
        }
        Ok(())
    }

    fn sync(&mut self) {
        self.sync_due = None;
        let began = Instant::now();
        if self.poison.get().is_none()
            && let Err(failure) = self.store.sync()
        {
            self.poisoned(failure);
        }
        self.options.meter.synced(began.elapsed());
    }

    /// It is unknown what a failed write or sync left on disk, and a second sync may succeed
    /// without writing what the first one lost. So nothing more is written until the directory is
    /// reopened and its content is known.
    fn poisoned(&self, failure: WriteFailure) -> Refusal {
        let reason = self.poison.set(format!("{WRITES_REFUSED}: {failure}"));
        Refusal { reason: reason.to_owned(), undetermined: failure.undetermined }
    }

    fn refusal(&self) -> Result<(), Refusal> {
        match self.poison.get() {
            None => Ok(()),
            Some(reason) => Err(Refusal { reason: reason.to_owned(), undetermined: false }),
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref().map(String::as_str)).unwrap_or("no message")
}

/// Why a group was not written.
struct Refusal {
    reason: String,
    /// Whether it may be on disk anyway.
    undetermined: bool,
}

impl Job {
    fn stage(self, stage: &mut Stage<'_>) -> Answer {
        match self {
            Self::Commit { commit, place, reply } => {
                drop(place);
                Answer::Commit(reply, stage.apply(commit))
            }
            Self::Chore { chore, reply } => {
                stage.chore(chore);
                Answer::Chore(reply)
            }
        }
    }
}

/// A reply that waits until its group is durable. It is dropped if its caller is gone.
enum Answer {
    Commit(oneshot::Sender<Result<Revision, CommitError>>, Result<Revision, CommitError>),
    Chore(oneshot::Sender<Result<(), EngineError>>),
}

impl Answer {
    fn send(self, outcome: Result<&(), &Refusal>) {
        match (self, outcome) {
            (Self::Commit(reply, result), Ok(())) => drop(reply.send(result)),
            (Self::Commit(reply, Ok(_)), Err(refusal)) if refusal.undetermined => {
                drop(reply.send(Err(CommitError::Undetermined(refusal.reason.clone().into()))));
            }
            // Failed checks too: they may have seen a commit that is now lost.
            (Self::Commit(reply, _), Err(refusal)) => {
                drop(reply.send(Err(refusal.unavailable().into())));
            }
            (Self::Chore(reply), Ok(())) => drop(reply.send(Ok(()))),
            (Self::Chore(reply), Err(refusal)) => drop(reply.send(Err(refusal.unavailable()))),
        }
    }
}

impl Refusal {
    fn unavailable(&self) -> EngineError {
        EngineError::Unavailable(self.reason.clone())
    }
}
