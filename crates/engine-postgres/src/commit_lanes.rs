//! Inserts and upserts that wait for a connection together are sent together.
//!
//! As with point reads (`lanes.rs`), most of what an insert costs is the statement around it, and the commit
//! behind it. So they use few connections, the *lanes*. One that finds a lane free is sent at once; what
//! arrives while all are busy goes into one statement as soon as one is free. The commits of a statement
//! have nothing to do with each other: each has its own guard, revision and id, and one that is not done
//! leaves the others alone. A key is in one lane at a time, so a row that somebody has locked stops one
//! lane, not all.

use crate::Store;
use crate::commit::{Shape, Tried};
use crate::expected::{number, revision};
use crate::fault::{Fault, chain, same};
use crate::patience::{Patience, too_late};
use crate::pool::Use;
use crate::session::Session;
use crate::settle::Sent;
use crate::statement::Statement;
use crate::stored::StoredKey;
use bytes::Bytes;
use lazuli_engine::meter::Retry;
use lazuli_engine::optimistic::PlainStore;
use lazuli_engine::{
    BoxFuture, Check, Commit, CommitError, EngineError, Expect, Found, Key, Limits, Revision, Write,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Commits that share a statement, at most.
const COMMITS_MAX: usize = 32;

/// Bytes of the values of a statement, at most. Bounds how long one waits for the values of others.
const BYTES_MAX: usize = 256 * 1024;

/// A larger value is sent alone, and on any connection.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// A store whose inserts and upserts share statements, and whose commits that take turns share transactions.
pub(crate) struct InLanes<'s> {
    pub(crate) store: &'s Arc<Store>,
    pub(crate) patience: Patience,
}

impl PlainStore for InLanes<'_> {
    fn limits(&self) -> &Limits {
        self.store.limits()
    }

    fn read_together<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async move {
            self.patience.check()?;
            self.store.read_in_lane(keys, self.patience).await
        })
    }

    fn commit_plain(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move {
            let Self { store, patience } = *self;
            patience.check()?;
            let done = match (commit.turns.first(), Row::of(&commit)) {
                (Some(_), _) => store.commit_in_line(commit, patience).await,
                (None, Some(row)) => store.commit_in_lane(&commit, row, patience).await,
                (None, None) => store.commit_once(&commit, 1, patience).await,
            };
            if matches!(done, Err(CommitError::Conflict)) {
                store.meter.retried(Retry::Conflict);
            }
            done
        })
    }
}

/// An insert or upsert that can share a statement.
struct Row {
    /// Whether the key must be absent.
    is_insert: bool,
    key: Key,
    value: Bytes,
    guard: Option<Check>,
}

impl Row {
    fn of(commit: &Commit) -> Option<Self> {
        let is_insert = match Shape::of(commit, 1).statement() {
            Statement::Insert => true,
            Statement::Upsert => false,
            _ => return None,
        };
        let [Write::Put(key, value)] = commit.writes.as_slice() else { return None };
        if value.len() > VALUE_BYTES_MAX {
            return None;
        }
        let guard = commit.guards.first().cloned();
        Some(Self { is_insert, key: key.clone(), value: value.clone(), guard })
    }
}

/// Rows that wait for a lane.
pub(crate) struct CommitLanes {
    lanes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    busy: usize,
    /// The keys in all lanes.
    keys: HashSet<Key>,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    id: i64,
    row: Row,
    patience: Patience,
    answer: oneshot::Sender<Tried>,
}

enum Entered {
    /// A lane is free.
    Lane,
    Waits(oneshot::Receiver<Tried>),
}

impl State {
    /// Takes what is sent next: rows of different keys that no lane has, in the order in which they came, all
    /// of the kind of the first.
    fn take_group(&mut self) -> Vec<Waiting> {
        let (mut group, mut bytes): (Vec<Waiting>, usize) = (Vec::new(), 0);
        let mut at = 0;
        while group.len() < COMMITS_MAX
            && let Some(next) = self.waiting.get(at)
        {
            // Whoever asked may have gone away.
            if next.answer.is_closed() {
                self.waiting.remove(at);
                continue;
            }
            let kind = group.first().map_or(next.row.is_insert, |first| first.row.is_insert);
            let fits = group.is_empty() || bytes + next.row.value.len() <= BYTES_MAX;
            if !fits {
                break;
            }
            if next.row.is_insert != kind || self.keys.contains(&next.row.key) {
                at += 1;
                continue;
            }
            let Some(next) = self.waiting.remove(at) else { break };
            bytes += next.row.value.len();
            self.keys.insert(next.row.key.clone());
            group.push(next);
        }
        group
    }
}

impl CommitLanes {
    pub(crate) fn new(lanes: usize) -> Self {
        Self { lanes: lanes.max(1), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a lane, or a place among those who wait. While anybody waits some lane is busy: a lane is given
    /// back only when nobody who waits could use it.
    fn enter(&self, id: i64, row: Row, patience: Patience) -> Entered {
        let mut state = self.state();
        if state.busy < self.lanes && state.keys.insert(row.key.clone()) {
            state.busy += 1;
            return Entered::Lane;
        }
        let (answer, told) = oneshot::channel();
        state.waiting.push_back(Waiting { id, row, patience, answer });
        Entered::Waits(told)
    }

    /// Whether this row still waited, and now does not.
    fn leave(&self, id: i64) -> bool {
        let mut state = self.state();
        let at = state.waiting.iter().position(|waiting| waiting.id == id);
        at.and_then(|at| state.waiting.remove(at)).is_some()
    }

    /// What is sent next on a lane that had `keys`, or nothing: then the lane is given back.
    fn next(&self, keys: &[Key]) -> Vec<Waiting> {
        let mut state = self.state();
        for key in keys {
            state.keys.remove(key);
        }
        let group = state.take_group();
        if group.is_empty() {
            state.busy -= 1;
        }
        group
    }
}

impl Store {
    /// As [`Store::commit_once`], in a lane.
    async fn commit_in_lane(
        self: &Arc<Self>,
        commit: &Commit,
        row: Row,
        patience: Patience,
    ) -> Result<Revision, CommitError> {
        let (shape, id) = (Shape::of(commit, 1), self.commit_id());
        let key = row.key.clone();
        let tried = match self.commit_lanes.enter(id, row, patience) {
            Entered::Lane => {
                let _lane = CommitLane { store: self.clone(), keys: vec![key] };
                self.try_once(&shape, id, patience).await
            }
            Entered::Waits(told) => self.wait_for_lane(id, told, patience).await,
        };
        // Finding out what became of a lost commit does not hold up the lane.
        self.conclude(commit, &shape, id, patience, tried).await
    }

    async fn wait_for_lane(
        &self,
        id: i64,
        mut told: oneshot::Receiver<Tried>,
        patience: Patience,
    ) -> Tried {
        let told = match timeout_at(patience.sent_by(), &mut told).await {
            Ok(told) => told,
            Err(_) if self.commit_lanes.leave(id) => return Tried::Done(Err(too_late().into())),
            // It is on its way, with the patience of the first of its group, which came earlier.
            Err(_) => told.await,
        };
        told.unwrap_or_else(|lost| Tried::Done(Err(CommitError::Undetermined(lost.into()))))
    }

    /// Commits for a group, and tells each of it.
    async fn commit_rows(&self, group: Vec<Waiting>) {
        let Some(patience) = group.first().map(|first| first.patience) else { return };
        let deadline = patience.deadline();
        let lease = match self.pool.get(Use::OneStatement, patience.sent_by()).await {
            Ok(lease) => lease,
            Err(error) => return tell(group, |_| Tried::Done(Err(same(&error).into()))),
        };
        let sent = Sent::now(0, &lease);
        match send(&lease, &group, deadline).await {
            Ok(done) => {
                lease.give_back();
                // The optimistic loop finds out why one was not done, or does it again.
                let answer = |id| done.get(&id).copied().ok_or(CommitError::Conflict);
                tell(group, |id| Tried::Done(answer(id)));
            }
            Err(Fault::Lost(reason)) => {
                drop(lease);
                let reason = chain(&*reason);
                tell(group, |id| Tried::Lost(Sent { id, ..sent }, reason.clone().into()));
            }
            Err(Fault::Unsent(reason)) => {
                drop(lease);
                let reason = chain(&*reason);
                tell(group, |_| Tried::Unsent(reason.clone().into()));
            }
            // Nothing was done. Alone, each finds out whether it is to blame.
            Err(fault) => {
                lease.give_back();
                let reason = fault.into_engine_error().to_string();
                tell(group, |_| Tried::Unsent(reason.clone().into()));
            }
        }
    }
}

fn tell(group: Vec<Waiting>, what: impl Fn(i64) -> Tried) {
    for one in group {
        // Whoever asked may have gone away.
        let _ = one.answer.send(what(one.id));
    }
}

/// Sends the rows in one statement. Returns the revisions of those that were done, by their ids.
async fn send(
    session: &Session,
    group: &[Waiting],
    deadline: Instant,
) -> Result<HashMap<i64, Revision>, Fault> {
    let is_insert = group.first().is_some_and(|first| first.row.is_insert);
    let statement = if is_insert { Statement::InsertTogether } else { Statement::UpsertTogether };
    let keys: Vec<StoredKey<'_>> = group.iter().map(|one| (&one.row.key).into()).collect();
    let guards: Vec<Option<StoredKey<'_>>> =
        group.iter().map(|one| one.row.guard.as_ref().map(|guard| (&guard.key).into())).collect();
    let k: Vec<&[u8]> = keys.iter().map(|key| key.k).collect();
    let d: Vec<&[u8]> = keys.iter().map(StoredKey::d).collect();
    let x: Vec<&[u8]> = keys.iter().map(|key| key.x).collect();
    let ids: Vec<i64> = group.iter().map(|one| one.id).collect();
    let values: Vec<&[u8]> = group.iter().map(|one| one.row.value.as_ref()).collect();
    let guard_k: Vec<Option<&[u8]>> =
        guards.iter().map(|guard| guard.as_ref().map(|key| key.k)).collect();
    let guard_d: Vec<Option<&[u8]>> =
        guards.iter().map(|guard| guard.as_ref().map(StoredKey::d)).collect();
    let guard_at: Vec<Option<i64>> = group.iter().map(|one| guard_at(&one.row)).collect();
    let rows = session
        .query(statement, &[&k, &d, &x, &ids, &values, &guard_k, &guard_d, &guard_at], deadline)
        .await?;
    if let Some(row) = rows.first() {
        session.heard_clock(row.get(2));
    }
    Ok(rows.iter().map(|row| (row.get(0), revision(row.get(1)))).collect())
}

/// The revision that a guard must have.
fn guard_at(row: &Row) -> Option<i64> {
    match row.guard.as_ref()?.expect {
        Expect::At(at) => Some(number(at)),
        Expect::Present | Expect::Absent => None,
    }
}

/// A lane in use. When its user is done, or gave up, it goes on with those who wait.
struct CommitLane {
    store: Arc<Store>,
    keys: Vec<Key>,
}

impl Drop for CommitLane {
    fn drop(&mut self) {
        let group = self.store.commit_lanes.next(&self.keys);
        if group.is_empty() {
            return;
        }
        let keys = group.iter().map(|one| one.row.key.clone()).collect();
        let lane = Self { store: self.store.clone(), keys };
        // Without a runtime nobody waits for an answer any longer.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                lane.store.commit_rows(group).await;
                drop(lane);
            });
        }
    }
}
