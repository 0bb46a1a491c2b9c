//! Combines inserts and upserts that wait for a connection into one statement.
//!
//! As with point reads (`lanes.rs`), most of an insert's cost is the statement around it and the database
//! commit. So inserts and upserts use few connections, the *lanes*. One that finds a free lane is sent at
//! once; those that arrive while all lanes are busy go into one statement as soon as a lane is free. The
//! commits of a statement are independent: each has its own guard, revision and id, and one that fails does
//! not affect the others. A key is in at most one lane at a time, so a locked row blocks one lane, not all.

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

/// Maximum commits per statement.
const COMMITS_MAX: usize = 32;

/// Maximum bytes of values per statement. Bounds how long one waits for the values of others.
const BYTES_MAX: usize = 256 * 1024;

/// A larger value is sent alone, on any connection.
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
    /// The keys in flight in all lanes.
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
    /// Takes the rows to send next, in order of arrival: all of the same kind as the first, with different
    /// keys that no lane has.
    fn take_group(&mut self) -> Vec<Waiting> {
        let (mut group, mut bytes): (Vec<Waiting>, usize) = (Vec::new(), 0);
        let mut at = 0;
        while group.len() < COMMITS_MAX
            && let Some(next) = self.waiting.get(at)
        {
            // The caller may have stopped waiting.
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

    /// Takes a lane, or a place in the queue. While any row waits, some lane is busy: a lane is released
    /// only when no waiting row could use it.
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

    /// Removes this row from the queue; false if it no longer waits.
    fn leave(&self, id: i64) -> bool {
        let mut state = self.state();
        let at = state.waiting.iter().position(|waiting| waiting.id == id);
        at.and_then(|at| state.waiting.remove(at)).is_some()
    }

    /// What to send next on a lane that had `keys`; if empty, the lane is released.
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
    /// Like [`Store::commit_once`], in a lane.
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
        // Settling a lost commit does not hold up the lane.
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
            // Already sent, with the patience of the first of its group, which came earlier.
            Err(_) => told.await,
        };
        told.unwrap_or_else(|lost| Tried::Done(Err(CommitError::Undetermined(lost.into()))))
    }

    /// Commits for a group, and answers each member.
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
                // The optimistic loop finds out why a row was not done, or tries it again.
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
            // Nothing was done. Each is retried alone, to find the one at fault.
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
        // The caller may have stopped waiting.
        let _ = one.answer.send(what(one.id));
    }
}

/// Sends the rows in one statement. Returns the revisions of the rows that were done, by id.
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

/// The revision that the guard must have.
fn guard_at(row: &Row) -> Option<i64> {
    match row.guard.as_ref()?.expect {
        Expect::At(at) => Some(number(at)),
        Expect::Present | Expect::Absent => None,
    }
}

/// A lane in use. When its holder is done or gives up, the lane serves the next rows in the queue.
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
        // Without a runtime no caller waits for an answer.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                lane.store.commit_rows(group).await;
                drop(lane);
            });
        }
    }
}
