//! Runs commits with functions on a store that supports none: read, compute here, and commit on the
//! condition that nothing read has changed; retry if it has (K-3.7).
//!
//! For engines whose store is shared by several processes, so that the engine does not order
//! commits itself. [`queue`](crate::queue) first serializes the writers of one process that would
//! conflict.

use crate::resolve::{Resolved, judge, make};
use crate::retry::{Attempt, Budget, Pace, retry};
use crate::{
    BoxFuture, Check, Commit, CommitError, EngineError, Expect, Found, Key, Limits, Revision, Write,
};
use std::collections::{BTreeMap, BTreeSet};

/// At most 64 attempts or 5 s, then [`CommitError::Conflict`].
///
/// Two processes that write one key each win every other attempt. With 16 attempts, one commit in
/// 65,000 lost them all and failed needlessly.
pub const BUDGET: Budget = Budget { attempts_max: 64, ms_max: 5_000, pause_ms_max: 32 };

/// Reads of one attempt: one for the keys that the commit names, one for the keys that its
/// derivation depends on, and some more in case these change.
const READS_MAX: usize = 4;

/// A store that accepts commits without functions.
pub trait PlainStore: Send + Sync {
    fn limits(&self) -> &Limits;

    /// The values of `keys`, in their order, all from one moment.
    fn read_together<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>>;

    /// Like [`Engine::commit`](crate::Engine::commit), for a commit without [`Write::Modify`] and
    /// without [`Commit::derive`]. A commit whose reply was lost is resolved here, or stays
    /// [`CommitError::Undetermined`].
    fn commit_plain(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>>;
}

/// Commits, running the functions of `commit` as often as it takes.
pub async fn commit(
    store: &dyn PlainStore,
    pace: &dyn Pace,
    commit: &Commit,
) -> Result<Revision, CommitError> {
    commit_within(store, pace, commit, BUDGET).await
}

/// Like [`commit`], with another budget.
pub async fn commit_within(
    store: &dyn PlainStore,
    pace: &dyn Pace,
    commit: &Commit,
    budget: Budget,
) -> Result<Revision, CommitError> {
    store.limits().check(commit)?;
    if !has_functions(commit) {
        match store.commit_plain(commit.clone()).await {
            // The code below finds out which check failed, if any.
            Err(CommitError::Conflict) => {}
            done => return done,
        }
    }
    let tried = retry(pace, budget, || attempt(store, commit)).await;
    tried.unwrap_or(Err(CommitError::Conflict))
}

fn has_functions(commit: &Commit) -> bool {
    commit.derive.is_some() || commit.writes.iter().any(|write| matches!(write, Write::Modify(..)))
}

async fn attempt(
    store: &dyn PlainStore,
    commit: &Commit,
) -> Attempt<Result<Revision, CommitError>> {
    let computed = match compute(store, commit).await {
        Ok(computed) => computed,
        Err(CommitError::Conflict) => return Attempt::Again,
        Err(error) => return Attempt::Done(Err(error)),
    };
    match store.commit_plain(computed).await {
        // Something that was read has changed. The caller's own checks come first.
        Err(CommitError::CheckFailed { index, .. }) if index >= commit.checks.len() => {
            Attempt::Again
        }
        Err(CommitError::Conflict) => Attempt::Again,
        done => Attempt::Done(done),
    }
}

/// The commit without functions that does what `commit` does to the state read now.
///
/// The keys that a derivation depends on are known only after it has run: keys not yet read count
/// as absent, and then all are read again, so that the final evaluation uses the state of one
/// moment. A derivation that needs different keys each time, because its input keeps changing,
/// fails as a conflict.
async fn compute(store: &dyn PlainStore, commit: &Commit) -> Result<Commit, CommitError> {
    let mut keys: BTreeSet<Key> = keys_of(commit).cloned().collect();
    for _ in 0..READS_MAX {
        let wanted: Vec<Key> = keys.iter().cloned().collect();
        let found = store.read_together(&wanted).await?;
        let state: BTreeMap<&Key, &Option<Found>> = wanted.iter().zip(&found).collect();
        let look = |key: &Key| state.get(key).and_then(|found| Option::clone(found));
        judge(commit, &mut |key| Ok(look(key)))?;
        let mut relied_on = BTreeMap::new();
        let made = make(commit, store.limits(), &mut |key| {
            let found = look(key);
            relied_on.insert(key.clone(), found.as_ref().map(|found| found.revision));
            Ok(found)
        });
        let before = keys.len();
        keys.extend(relied_on.keys().cloned());
        if keys.len() == before {
            return Ok(plain(commit, made?, relied_on));
        }
    }
    Err(CommitError::Conflict)
}

/// The keys that are known to be needed before anything is derived.
fn keys_of(commit: &Commit) -> impl Iterator<Item = &Key> {
    let checked = commit.guards.iter().chain(&commit.checks).map(|check| &check.key);
    let all = commit.derive.is_some();
    let written = commit.writes.iter().filter(move |w| all || matches!(w, Write::Modify(..)));
    checked.chain(written.filter_map(Write::key))
}

/// The commit with the computed values, on the condition that its input has not changed.
fn plain(
    commit: &Commit,
    made: Vec<Resolved>,
    relied_on: BTreeMap<Key, Option<Revision>>,
) -> Commit {
    let unchanged = relied_on
        .into_iter()
        .map(|(key, found)| Check { key, expect: found.map_or(Expect::Absent, Expect::At) });
    let writes = made.into_iter().map(|write| match write {
        Resolved::Set(key, Some(value)) => Write::Put(key, value),
        Resolved::Set(key, None) => Write::Delete(key),
        Resolved::Append(prefix, value) => Write::Append(prefix, value),
    });
    Commit {
        guards: commit.guards.clone(),
        checks: commit.checks.iter().cloned().chain(unchanged).collect(),
        turns: commit.turns.clone(),
        ..Commit::new(commit.not_before, writes.collect())
    }
}
