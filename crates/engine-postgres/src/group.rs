//! Commits that modify one key and wait for each other are committed together.
//!
//! A commit that finds the key free is sent at once. Those that arrive while it is in flight wait, and go
//! into one statement when it is done: each function is applied to the result of the previous one, and the
//! row is written once. Each commit still gets its own revision, because the statement takes as many
//! revisions as there are changes: the last is that of the row, and the earlier ones were overwritten
//! immediately. So two merges never share an ETag.
//!
//! The statement names the revision that the first commit relied on, so a change by another gateway is
//! detected. A commit that does not fit this pattern (no row yet, a deletion, a failed guard) is sent back to
//! be committed alone.

use crate::Store;
use crate::committer::EAGER;
use crate::fault::same;
use crate::locked::Locked;
use crate::patience::Patience;
use bytes::Bytes;
use lazuli_engine::meter::Retry;
use lazuli_engine::optimistic::BUDGET;
use lazuli_engine::resolve::modify;
use lazuli_engine::retry::{Attempt, retry};
use lazuli_engine::{
    Check, Commit, CommitError, Current, EngineError, Expect, Found, Key, Limits, Revision, Write,
};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// Maximum commits per group. Bounds how long the first waits for the functions of the others.
const COMMITS_MAX: usize = 64;

/// Maximum memory that their functions hold together.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The key whose group a commit may join. It modifies one key, by a function of the value alone, and has
/// conditions that one statement can express.
pub(crate) fn key_of(commit: &Commit) -> Option<&Key> {
    let [Write::Modify(key, function)] = commit.writes.as_slice() else { return None };
    let is_plain = commit.derive.is_none() && !function.reads_revision();
    let checks_itself = commit.checks.iter().all(|check| check.key == *key);
    let is_guarded_once = match commit.guards.as_slice() {
        [] => true,
        [guard] => guard.expect != Expect::Absent,
        _ => false,
    };
    (is_plain && checks_itself && is_guarded_once).then_some(key)
}

/// The waiting commits by key. A key is present while one of its commits is in flight.
pub(crate) struct Groups {
    places_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_key: HashMap<Key, VecDeque<Waiting>>,
    places: usize,
    /// The last id given to a waiting commit.
    ids: i64,
}

/// A waiting commit, and its caller's channel.
pub(crate) struct Waiting {
    pub(crate) commit: Commit,
    id: i64,
    patience: Patience,
    place: OwnedSemaphorePermit,
    answer: oneshot::Sender<Answer>,
}

pub(crate) enum Answer {
    Done(Result<Revision, CommitError>),
    /// To be committed alone.
    Alone(Commit, OwnedSemaphorePermit),
}

/// What a commit finds when it enters its key's queue.
pub(crate) enum Entered {
    /// Empty: the caller commits now, and calls [`Groups::next`] afterwards.
    First(Commit, OwnedSemaphorePermit),
    Waits(i64, oneshot::Receiver<Answer>),
}

impl Groups {
    pub(crate) fn new(places_max: usize) -> Self {
        Self { places_max, state: Mutex::default() }
    }

    pub(crate) fn enter(
        &self,
        key: &Key,
        commit: Commit,
        place: OwnedSemaphorePermit,
        patience: Patience,
    ) -> Result<Entered, CommitError> {
        let mut state = self.state();
        if !state.by_key.contains_key(key) {
            state.by_key.insert(key.clone(), VecDeque::new());
            return Ok(Entered::First(commit, place));
        }
        if state.places >= self.places_max {
            return Err(CommitError::Busy);
        }
        state.places += 1;
        let (answer, answered) = oneshot::channel();
        state.ids += 1;
        let id = state.ids;
        if let Some(line) = state.by_key.get_mut(key) {
            line.push_back(Waiting { commit, id, patience, place, answer });
        }
        Ok(Entered::Waits(id, answered))
    }

    /// Removes this commit from the queue; false if it no longer waits.
    pub(crate) fn leave(&self, key: &Key, id: i64) -> bool {
        let mut state = self.state();
        let Some(line) = state.by_key.get_mut(key) else { return false };
        let Some(at) = line.iter().position(|waiting| waiting.id == id) else { return false };
        line.remove(at);
        state.places -= 1;
        true
    }

    /// The commits to send next; if empty, the key's queue ends. All of a group are under the same guard.
    pub(crate) fn next(&self, key: &Key) -> Vec<Waiting> {
        let mut state = self.state();
        let Some(line) = state.by_key.get_mut(key) else { return Vec::new() };
        let (mut group, mut bytes, mut left): (Vec<Waiting>, _, _) = (Vec::new(), 0, 0);
        while let Some(waiting) = line.pop_front() {
            left += 1;
            // The caller may have stopped waiting.
            if waiting.answer.is_closed() {
                continue;
            }
            bytes += waiting.commit.held_bytes();
            let fits = group.len() < COMMITS_MAX && bytes <= BYTES_MAX;
            let joins = |first: &Waiting| {
                fits && is_same_guard(&first.commit.guards, &waiting.commit.guards)
            };
            if !group.first().is_none_or(joins) {
                line.push_front(waiting);
                left -= 1;
                break;
            }
            group.push(waiting);
        }
        if group.is_empty() {
            state.by_key.remove(key);
        }
        state.places -= left;
        group
    }

    /// No code under the lock can panic halfway.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_same_guard(one: &[Check], other: &[Check]) -> bool {
    let parts = |checks: &[Check]| checks.first().map(|check| (check.key.clone(), check.expect));
    parts(one) == parts(other)
}

/// Commits that are committed together.
pub(crate) struct Group<'s> {
    store: &'s Store,
    pub(crate) key: Key,
    guards: Vec<Check>,
    /// That of the first commit, which arrived before the others.
    pub(crate) patience: Patience,
    members: Vec<Waiting>,
}

/// How an attempt ended.
enum Outcome {
    /// With the revision of the last change.
    Done(Computed, Revision),
    /// Another writer changed the key.
    Conflict,
    /// It does not fit the pattern.
    Alone,
    Failed(CommitError),
}

impl Outcome {
    fn unless_conflict(self) -> Attempt<Self> {
        match self {
            Self::Conflict => Attempt::Again,
            other => Attempt::Done(other),
        }
    }
}

impl<'s> Group<'s> {
    /// `None` for an empty group.
    pub(crate) fn new(store: &'s Store, members: Vec<Waiting>) -> Option<Self> {
        let first = members.first()?;
        let (key, guards) = (key_of(&first.commit)?.clone(), first.commit.guards.clone());
        let patience = first.patience;
        Some(Self { store, key, guards, patience, members })
    }

    /// Commits and answers every caller. Returns the key's new value, unless other gateways write it too:
    /// then remembering it costs a round trip more often than it saves one.
    pub(crate) async fn commit(self, known: Option<Found>) -> Option<Found> {
        let first = match &known {
            Some(found) => self.attempt(found, None).await,
            None => self.read_and_attempt(None).await,
        };
        match first {
            Outcome::Done(computed, last) => return Some(self.succeed(computed, last)),
            Outcome::Failed(error) => return self.fail(&error),
            // A remembered value decides nothing by itself.
            Outcome::Alone if known.is_none() => return self.disband(),
            Outcome::Alone | Outcome::Conflict => {}
        }
        match self.try_again().await {
            Some(Outcome::Done(computed, last)) => {
                self.succeed(computed, last);
                None
            }
            Some(Outcome::Alone) => self.disband(),
            Some(Outcome::Failed(error)) => self.fail(&error),
            Some(Outcome::Conflict) | None => self.fail(&CommitError::Conflict),
        }
    }

    /// `None` if others write the key too often.
    async fn try_again(&self) -> Option<Outcome> {
        let pace = &*self.store.options.pace;
        let eager = || async { self.read_and_attempt(None).await.unless_conflict() };
        if let Some(outcome) = retry(pace, EAGER, eager).await {
            return Some(outcome);
        }
        self.store.meter.contended();
        let locked = || async {
            let locked = Locked::new(self.store, &self.guards, &[], self.patience);
            self.read_and_attempt(Some(&locked)).await.unless_conflict()
        };
        retry(pace, BUDGET, locked).await
    }

    async fn read_and_attempt(&self, locked: Option<&Locked<'_>>) -> Outcome {
        if let Err(late) = self.patience.check() {
            return Outcome::Failed(late.into());
        }
        let guarded = self.guards.iter().map(|guard| guard.key.clone());
        let keys: Vec<Key> = guarded.chain([self.key.clone()]).collect();
        let read = match locked {
            Some(locked) => locked.read(&keys).await,
            None => self.store.read(&keys, self.patience).await,
        };
        let mut found = match read {
            Ok(found) => found,
            Err(error) => return Outcome::Failed(error.into()),
        };
        let Some(Some(current)) = found.pop() else { return Outcome::Alone };
        let holds = |(guard, found): (&Check, &Option<Found>)| {
            guard.expect.holds(found.as_ref().map(|found| found.revision))
        };
        match self.guards.iter().zip(&found).all(holds) {
            true => self.attempt(&current, locked).await,
            false => Outcome::Alone,
        }
    }

    async fn attempt(&self, found: &Found, locked: Option<&Locked<'_>>) -> Outcome {
        let commits = self.members.iter().map(|member| &member.commit);
        let Some(computed) = compute(commits, found, self.store.limits()) else {
            return Outcome::Alone;
        };
        let unchanged = Check { key: self.key.clone(), expect: Expect::At(found.revision) };
        let put = Write::Put(self.key.clone(), computed.value.clone());
        let commit = Commit {
            guards: self.guards.clone(),
            checks: vec![unchanged],
            ..Commit::new(Revision(0), vec![put])
        };
        let sent = match locked {
            Some(locked) => locked.commit(&commit, computed.changes).await,
            None => self.store.commit_once(&commit, computed.changes, self.patience).await,
        };
        match sent {
            Ok(last) => Outcome::Done(computed, last),
            Err(CommitError::Conflict) => {
                self.store.meter.retried(Retry::Conflict);
                Outcome::Conflict
            }
            Err(error) => Outcome::Failed(error),
        }
    }

    /// Reports each commit's result, and returns the key's new value.
    fn succeed(self, computed: Computed, last: Revision) -> Found {
        let Computed { value, before, changes, steps } = computed;
        let mut done = 0;
        for (member, step) in self.members.into_iter().zip(steps) {
            done += u64::from(matches!(step, Step::Change));
            // The revisions of the changes are consecutive, and end with the last.
            let now = if done == 0 { before } else { Revision(last.0 - (changes - done)) };
            member.tell(Answer::Done(match step {
                Step::Change => Ok(now),
                Step::CheckFailed { index } => {
                    Err(CommitError::CheckFailed { index, found: Some(now) })
                }
                Step::Refused(error) => Err(error),
            }));
        }
        Found { value, revision: last }
    }

    pub(crate) fn fail(self, error: &CommitError) -> Option<Found> {
        self.members.into_iter().for_each(|member| member.tell(Answer::Done(Err(again(error)))));
        None
    }

    fn disband(self) -> Option<Found> {
        for Waiting { commit, place, answer, .. } in self.members {
            // The caller may have stopped waiting.
            let _ = answer.send(Answer::Alone(commit, place));
        }
        None
    }
}

impl Waiting {
    fn tell(self, answer: Answer) {
        // The caller may have stopped waiting.
        let _ = self.answer.send(answer);
    }
}

/// Copies the error of a group, for each member.
fn again(error: &CommitError) -> CommitError {
    match error {
        CommitError::Conflict => CommitError::Conflict,
        CommitError::Busy => CommitError::Busy,
        CommitError::Undetermined(reason) => CommitError::Undetermined(reason.to_string().into()),
        CommitError::Engine(error) => CommitError::Engine(same(error)),
        other => CommitError::Engine(EngineError::Io(other.to_string().into())),
    }
}

/// What a group does to the value of its key.
struct Computed {
    value: Bytes,
    /// The revision before all of it.
    before: Revision,
    changes: u64,
    /// One for each commit.
    steps: Vec<Step>,
}

enum Step {
    Change,
    CheckFailed { index: usize },
    Refused(CommitError),
}

/// Applies the commits to `found`, in order; `None` if nothing changes or the key is deleted.
fn compute<'c>(
    commits: impl Iterator<Item = &'c Commit>,
    found: &Found,
    limits: &Limits,
) -> Option<Computed> {
    let Found { value, revision: before } = found.clone();
    let mut computed = Computed { value, before, changes: 0, steps: Vec::new() };
    for commit in commits {
        let step = computed.step(commit, limits)?;
        computed.changes += u64::from(matches!(step, Step::Change));
        computed.steps.push(step);
    }
    (computed.changes > 0).then_some(computed)
}

impl Computed {
    fn step(&mut self, commit: &Commit, limits: &Limits) -> Option<Step> {
        // The revision of a change that has not been committed is unknown.
        let holds = |expect| match expect {
            Expect::Absent => false,
            Expect::Present => true,
            Expect::At(revision) => self.changes == 0 && revision == self.before,
        };
        if let Err(error) = limits.check(commit) {
            return Some(Step::Refused(error));
        }
        if let Some(index) = commit.checks.iter().position(|check| !holds(check.expect)) {
            return Some(Step::CheckFailed { index });
        }
        let [Write::Modify(_, function)] = commit.writes.as_slice() else { return None };
        let current = Current { value: &self.value, revision: self.before };
        match modify(0, &**function, Some(current), limits) {
            Ok(Some(next)) => self.value = next.into(),
            Ok(None) => return None,
            Err(error) => return Some(Step::Refused(error)),
        }
        Some(Step::Change)
    }
}

#[cfg(test)]
mod tests;
