//! Turns a commit into a transaction: reads what it depends on, computes the writes, and commits on
//! the condition that nothing has changed.

use crate::engine::Shared;
use crate::patience::Patience;
use crate::proto::kv::{Mutation, Op};
use crate::read::Newest;
use crate::timestamp::Timestamp;
use crate::transaction::{Span, TransactionError};
use crate::value;
use bytes::Bytes;
use lazuli_engine::meter::Retry;
use lazuli_engine::optimistic::BUDGET;
use lazuli_engine::resolve::{self, Resolved};
use lazuli_engine::retry::{Attempt, Budget, retry};
use lazuli_engine::{
    Check, Commit, CommitError, EngineError, Expect, Found, GUARD_AGE_MS_MAX, Key, Revision, Write,
};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Reads of one attempt: the keys that the commit names, then those that its derivation depends on.
const READS_MAX: usize = 4;

/// How long before the start of a transaction its guards may be read in parallel with it, in milliseconds
/// (K-6.17).
const GUARD_BESIDE_MS_MAX: u64 = 5_000;

/// Commits, with as many attempts as `patience` allows.
pub(crate) async fn run(
    shared: &Shared,
    commit: &Commit,
    patience: &Patience,
) -> Result<Revision, CommitError> {
    shared.limits.check(commit)?;
    let turn = match commit.derive {
        // What is derived may depend on every key.
        Some(_) => patience.within(shared.queue.enter_keys(used(commit))).await,
        None => patience.within(shared.queue.enter(commit)).await,
    };
    let turn = turn.unwrap_or(Err(CommitError::Busy))?;
    match attempt(shared, commit, can_be_blind(commit), patience.clone()).await {
        Attempt::Done(done) => return done,
        Attempt::Again => drop(turn),
    }
    shared.meter.contended();
    let turn = patience.within(shared.queue.enter_keys(used(commit))).await;
    let _turn = turn.unwrap_or(Err(CommitError::Busy))?;
    // From now on it reads everything it depends on, to find the first check that fails (K-6.7).
    let budget = Budget { ms_max: patience.ms_left().min(BUDGET.ms_max), ..BUDGET };
    let again = || attempt(shared, commit, false, patience.clone());
    let tried = retry(&*shared.cluster.pace, budget, again).await;
    tried.unwrap_or(Err(CommitError::Conflict))
}

/// The keys on which it can conflict.
fn used(commit: &Commit) -> Vec<&Key> {
    let checked = commit.checks.iter().map(|check| &check.key);
    checked.chain(commit.writes.iter().filter_map(Write::key)).chain(&commit.turns).collect()
}

async fn attempt(
    shared: &Shared,
    commit: &Commit,
    is_blind: bool,
    mut patience: Patience,
) -> Attempt<Result<Revision, CommitError>> {
    let began_ms = shared.cluster.pace.now_ms();
    let planned = if is_blind {
        plan_blind(shared, commit, &mut patience).await
    } else {
        plan(shared, commit, &mut patience).await
    };
    let Plan { start, guarded, mutations } = match planned {
        Ok(plan) => plan,
        Err(CommitError::Conflict) => {
            shared.meter.retried(Retry::Conflict);
            return Attempt::Again;
        }
        Err(error) => return Attempt::Done(Err(error)),
    };
    let span = Span { start, began_ms, latest: guarded.later(GUARD_AGE_MS_MAX) };
    match shared.cluster.commit(span, mutations, &mut patience).await {
        Ok(()) => Attempt::Done(Ok(start.revision())),
        Err(TransactionError::Conflict | TransactionError::Exists) => {
            shared.meter.retried(Retry::Conflict);
            Attempt::Again
        }
        Err(TransactionError::Failed(error)) => Attempt::Done(Err(error.into())),
        Err(TransactionError::Undetermined(error)) => {
            Attempt::Done(Err(CommitError::Undetermined(Box::new(error))))
        }
    }
}

/// A transaction that is ready to be sent.
struct Plan {
    start: Timestamp,
    /// When its guards held, or an earlier time.
    guarded: Timestamp,
    mutations: Vec<Mutation>,
}

/// Whether the store itself can judge the commit: it has no functions, and its only checks are that
/// keys it puts are absent.
fn can_be_blind(commit: &Commit) -> bool {
    let put: HashSet<&Key> = commit.writes.iter().filter_map(put_key).collect();
    let is_insert = |check: &Check| check.expect == Expect::Absent && put.contains(&check.key);
    commit.derive.is_none()
        && commit.writes.iter().all(|write| !matches!(write, Write::Modify(..)))
        && commit.checks.iter().all(is_insert)
}

fn put_key(write: &Write) -> Option<&Key> {
    match write {
        Write::Put(key, _) => Some(key),
        Write::Delete(_) | Write::Modify(..) | Write::Append(..) => None,
    }
}

/// Reads only the guards, while the timestamp is being fetched. Their age is bounded by an earlier
/// timestamp: if that is too old, they are read again.
async fn plan_blind(
    shared: &Shared,
    commit: &Commit,
    patience: &mut Patience,
) -> Result<Plan, CommitError> {
    let guards = || commit.guards.iter().map(|guard| guard.key.clone().into_bytes()).collect();
    let past = shared.cluster.oracle.past();
    let mut guard_patience = patience.clone();
    let (start, found) = tokio::join!(
        shared.cluster.oracle.now(patience),
        shared.find(guards(), Newest::Undated, &mut guard_patience),
    );
    let (start, mut found, mut guarded) = (start?, found?, past);
    if past.later(GUARD_BESIDE_MS_MAX) < start {
        found = shared.find(guards(), start, patience).await?;
        guarded = start;
    }
    let guards_only = Commit { guards: commit.guards.clone(), ..Commit::new(Revision(0), vec![]) };
    resolve::judge(&guards_only, &mut |key| Ok(found.get(key.as_slice()).cloned()))?;
    let made = resolve::make(commit, &shared.limits, &mut |_| Ok(None))?;
    let inserted: HashSet<&[u8]> = commit.checks.iter().map(|check| check.key.as_slice()).collect();
    let mut mutations = mutations(made, start);
    for mutation in &mut mutations {
        if inserted.contains(mutation.key.as_ref()) {
            mutation.op = Op::Insert as i32;
        }
    }
    Ok(Plan { start, guarded, mutations })
}

/// Everything is read as of the start of the transaction, which conflicts with later writes to the
/// keys it writes or locks. Keys that it only depends on are locked.
async fn plan(
    shared: &Shared,
    commit: &Commit,
    patience: &mut Patience,
) -> Result<Plan, CommitError> {
    let start = shared.cluster.oracle.now(patience).await?;
    let mut state: HashMap<Bytes, Option<Found>> = HashMap::new();
    let mut wanted: BTreeSet<Key> = keys_of(commit).cloned().collect();
    for _ in 0..READS_MAX {
        let mut found = shared.find(bytes_of(&wanted), start, patience).await?;
        for key in std::mem::take(&mut wanted) {
            let value = found.remove(key.as_slice());
            state.insert(key.into_bytes(), value);
        }
        let relied_on = RefCell::new(BTreeSet::new());
        let look = |key: &Key| -> Result<Option<Found>, EngineError> {
            relied_on.borrow_mut().insert(key.clone());
            Ok(state.get(key.as_slice()).cloned().flatten())
        };
        resolve::judge(commit, &mut |key| Ok(state.get(key.as_slice()).cloned().flatten()))?;
        // Keys not yet read count as absent; then the commit is computed again.
        let made = resolve::make(commit, &shared.limits, &mut |key| look(key));
        let relied_on = relied_on.into_inner();
        wanted =
            relied_on.iter().filter(|key| !state.contains_key(key.as_slice())).cloned().collect();
        if wanted.is_empty() {
            let checked = commit.checks.iter().map(|check| check.key.clone());
            let locked: BTreeSet<Key> = relied_on.into_iter().chain(checked).collect();
            let mut mutations = mutations(made?, start);
            add_locks(&mut mutations, locked);
            return Ok(Plan { start, guarded: start, mutations });
        }
    }
    Err(CommitError::Conflict)
}

fn bytes_of(keys: &BTreeSet<Key>) -> Vec<Bytes> {
    keys.iter().map(|key| key.clone().into_bytes()).collect()
}

/// The keys that are known to be needed before anything is derived.
fn keys_of(commit: &Commit) -> impl Iterator<Item = &Key> {
    let checked = commit.guards.iter().chain(&commit.checks).map(|check| &check.key);
    let all = commit.derive.is_some();
    let written = commit.writes.iter().filter(move |w| all || matches!(w, Write::Modify(..)));
    checked.chain(written.filter_map(Write::key))
}

fn mutations(made: Vec<Resolved>, start: Timestamp) -> Vec<Mutation> {
    let revision = start.revision();
    let put = |key: Key, value: &Bytes| Mutation {
        op: Op::Put as i32,
        key: key.into_bytes(),
        value: value::store(value, revision),
    };
    let mut appended = 0;
    let mutation = |write| match write {
        Resolved::Set(key, Some(value)) => put(key, &value),
        Resolved::Set(key, None) => {
            Mutation { op: Op::Delete as i32, key: key.into_bytes(), value: Bytes::new() }
        }
        Resolved::Append(prefix, value) => {
            let key = Key::appended(&prefix, revision, appended);
            appended += 1;
            put(key, &value)
        }
    };
    made.into_iter().map(mutation).collect()
}

/// Locks the keys that are not written, so that a concurrent write of them conflicts (K-6.6).
fn add_locks(mutations: &mut Vec<Mutation>, keys: BTreeSet<Key>) {
    if mutations.is_empty() {
        // Nothing is written: everything was read as of one moment, so it held at that moment.
        return;
    }
    let written: HashSet<Bytes> = mutations.iter().map(|mutation| mutation.key.clone()).collect();
    let keys = keys.into_iter().map(Key::into_bytes).filter(|key| !written.contains(key));
    let lock = |key| Mutation { op: Op::Lock as i32, key, value: Bytes::new() };
    mutations.extend(keys.map(lock));
}
