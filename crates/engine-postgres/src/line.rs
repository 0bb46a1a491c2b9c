//! Sends commits that write a common key, such as the head of a change feed, in one transaction.
//!
//! The row of such a key is locked from the moment a commit gets its revision until it is visible: that orders
//! these commits. One by one, they would wait for each other in the database, each on its own connection, and
//! for the disk once per commit. So each gateway sends one transaction at a time for such a key, and puts into
//! it everything that has arrived in the meantime. Each commit keeps its own conditions, revision and id; one
//! that fails does not affect the others.

use crate::Store;
use crate::commit::{Answer, Shape, Tried};
use crate::fault::{Fault, chain, same};
use crate::many_writes::ManyWrites;
use crate::patience::{Patience, too_late};
use crate::pool::Use;
use crate::session::{Session, late};
use crate::settle::Sent;
use crate::statement::Statement;
use crate::stored::StoredKey;
use futures_util::future;
use lazuli_engine::{Commit, CommitError, Key, Revision, Write};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Maximum commits per transaction. Bounds how long the first waits for the others.
const COMMITS_MAX: usize = 64;

/// Maximum bytes that they hold together; a commit that holds more is sent alone.
const BYTES_MAX: usize = 1024 * 1024;

/// The waiting commits, by the key that they share. A key is present while one of its commits is in flight.
#[derive(Default)]
pub(crate) struct Lines {
    by_key: Mutex<HashMap<Key, VecDeque<Waiting>>>,
}

struct Waiting {
    id: i64,
    commit: Arc<Commit>,
    patience: Patience,
    answer: oneshot::Sender<Tried>,
}

impl Lines {
    /// `None` for the first commit: it is sent now.
    fn enter(
        &self,
        key: &Key,
        id: i64,
        commit: &Arc<Commit>,
        patience: Patience,
    ) -> Option<oneshot::Receiver<Tried>> {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(key) else {
            lines.insert(key.clone(), VecDeque::new());
            return None;
        };
        let (answer, told) = oneshot::channel();
        line.push_back(Waiting { id, commit: commit.clone(), patience, answer });
        Some(told)
    }

    /// Removes this commit from the queue; false if it no longer waits.
    fn leave(&self, key: &Key, id: i64) -> bool {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(key) else { return false };
        let at = line.iter().position(|waiting| waiting.id == id);
        at.and_then(|at| line.remove(at)).is_some()
    }

    /// The commits to send next; if empty, the queue ends.
    fn next(&self, key: &Key) -> Vec<Waiting> {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(key) else { return Vec::new() };
        let (mut group, mut bytes): (Vec<Waiting>, usize) = (Vec::new(), 0);
        while group.len() < COMMITS_MAX
            && let Some(next) = line.pop_front()
        {
            // The caller may have stopped waiting.
            if next.answer.is_closed() {
                continue;
            }
            bytes += next.commit.held_bytes();
            if bytes > BYTES_MAX && !group.is_empty() {
                line.push_front(next);
                break;
            }
            group.push(next);
        }
        if group.is_empty() {
            lines.remove(key);
        }
        group
    }

    /// No code under the lock can panic halfway.
    fn lines(&self) -> MutexGuard<'_, HashMap<Key, VecDeque<Waiting>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Like [`Store::commit_once`], together with others that write the same key.
    pub(crate) async fn commit_in_line(
        self: &Arc<Self>,
        commit: Commit,
        patience: Patience,
    ) -> Result<Revision, CommitError> {
        let Some(key) = commit.turns.first().cloned() else {
            return self.commit_once(&commit, 1, patience).await;
        };
        let (commit, id) = (Arc::new(commit), self.commit_id());
        let shape = Shape::of(&commit, 1);
        let tried = match self.lines.enter(&key, id, &commit, patience) {
            None => {
                let _lead = Lead { store: self.clone(), key };
                self.try_once(&shape, id, patience).await
            }
            Some(told) => self.wait_in_line(&key, id, told, patience).await,
        };
        // Settling a lost commit does not hold up the line.
        self.conclude(&commit, &shape, id, patience, tried).await
    }

    async fn wait_in_line(
        &self,
        key: &Key,
        id: i64,
        mut told: oneshot::Receiver<Tried>,
        patience: Patience,
    ) -> Tried {
        let told = match timeout_at(patience.sent_by(), &mut told).await {
            Ok(told) => told,
            Err(_) if self.lines.leave(key, id) => return Tried::Done(Err(too_late().into())),
            // Already sent, with the patience of the first of its group, which came earlier.
            Err(_) => told.await,
        };
        told.unwrap_or_else(|lost| Tried::Done(Err(CommitError::Undetermined(lost.into()))))
    }

    /// Commits for a group, and answers each member.
    async fn commit_line(&self, group: Vec<Waiting>) {
        let Some(patience) = group.first().map(|first| first.patience) else { return };
        let lease = match self.pool.get(Use::OneStatement, patience.sent_by()).await {
            Ok(lease) => lease,
            Err(error) => return tell(group, |_, _| Tried::Done(Err(same(&error).into()))),
        };
        let sent = Sent::now(0, &lease);
        match send(&lease, &group, patience.deadline()).await {
            Ok(mut done) => {
                lease.give_back();
                tell(group, |at, _| match done.get_mut(at).and_then(Option::take) {
                    Some(done) => Tried::Done(done),
                    None => Tried::Unsent("it was not answered".into()),
                });
            }
            Err(Fault::Lost(reason)) => {
                drop(lease);
                let reason = chain(&*reason);
                tell(group, |_, id| Tried::Lost(Sent { id, ..sent }, reason.clone().into()));
            }
            Err(Fault::Unsent(reason)) => {
                drop(lease);
                let reason = chain(&*reason);
                tell(group, |_, _| Tried::Unsent(reason.clone().into()));
            }
            // Nothing was done. Each is retried alone, to find the one at fault.
            Err(fault) => {
                lease.give_back();
                let reason = fault.into_engine_error().to_string();
                tell(group, |_, _| Tried::Unsent(reason.clone().into()));
            }
        }
    }
}

fn tell(group: Vec<Waiting>, mut what: impl FnMut(usize, i64) -> Tried) {
    for (at, one) in group.into_iter().enumerate() {
        // The caller may have stopped waiting.
        let _ = one.answer.send(what(at, one.id));
    }
}

type Done = Option<Result<Revision, CommitError>>;

/// Sends the commits in one transaction and one round trip; a commit whose conditions fail writes nothing.
async fn send(session: &Session, group: &[Waiting], deadline: Instant) -> Result<Vec<Done>, Fault> {
    for statement in [Statement::Lock, Statement::Commit] {
        session.prepared(statement, deadline).await?;
    }
    // In this order on the wire, as nothing is left to prepare. Ending a failed transaction undoes it.
    let begin = async {
        let begin = session.client.batch_execute("begin");
        timeout_at(deadline, begin).await.map_err(late)?.map_err(Fault::from)
    };
    let locked = lock(session, group, deadline);
    let shapes: Vec<ManyWrites<'_>> = group.iter().map(|one| ManyWrites::of(&one.commit)).collect();
    let commits = shapes.iter().zip(group).map(|(many, one)| many.send(session, one.id, deadline));
    let end = async {
        let end = session.client.batch_execute("commit");
        timeout_at(deadline, end).await.map_err(late)?.map_err(Fault::from)
    };
    let all = future::join4(begin, locked, future::join_all(commits), end);
    let (begun, locked, answers, end) = all.await;
    begun?;
    locked?;
    let answers: Vec<_> = answers.into_iter().collect::<Result<_, Fault>>()?;
    end?;
    for answer in &answers {
        if let Answer::Done { clock, .. } = answer {
            session.heard_clock(*clock);
        }
    }
    Ok(answers.into_iter().map(|answer| Some(answer.into_result())).collect())
}

/// Locks the rows of all commits in key order, as each of them alone would do (K-7.6).
async fn lock(session: &Session, group: &[Waiting], deadline: Instant) -> Result<(), Fault> {
    let keys: BTreeSet<&Key> = group.iter().flat_map(|one| keys_of(&one.commit)).collect();
    let keys: Vec<StoredKey<'_>> = keys.into_iter().map(StoredKey::from).collect();
    let (k, d): (Vec<&[u8]>, Vec<&[u8]>) = keys.iter().map(|key| (key.k, key.d())).unzip();
    session.query(Statement::Lock, &[&k, &d], deadline).await.map(drop)
}

fn keys_of(commit: &Commit) -> impl Iterator<Item = &Key> {
    let checked = commit.checks.iter().map(|check| &check.key);
    checked.chain(commit.writes.iter().filter_map(Write::key))
}

/// The right to send what waits for a key. When its holder is done or gives up, the next group is sent.
struct Lead {
    store: Arc<Store>,
    key: Key,
}

impl Drop for Lead {
    fn drop(&mut self) {
        let group = self.store.lines.next(&self.key);
        if group.is_empty() {
            return;
        }
        let lead = Self { store: self.store.clone(), key: self.key.clone() };
        // Without a runtime no caller waits for an answer.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                lead.store.commit_line(group).await;
                drop(lead);
            });
        }
    }
}
