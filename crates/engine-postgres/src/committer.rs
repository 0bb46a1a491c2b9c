//! Commits with functions: one at a time per key, in groups where many wait for one key, and under row locks
//! after conflicts with other gateways.

use crate::commit_lanes::InLanes;
use crate::group::{Answer, Entered, Group, Groups, Waiting, key_of};
use crate::locked::Locked;
use crate::patience::{Patience, too_late};
use crate::{Store, closed};
use lazuli_engine::meter::Retry;
use lazuli_engine::optimistic;
use lazuli_engine::queue::{KeyQueue, Turn};
use lazuli_engine::retry::{Attempt, Budget, retry};
use lazuli_engine::{Commit, CommitError, EngineError, Found, Key, Revision, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

/// Attempts of a commit with functions before it locks its rows.
pub(crate) const EAGER: Budget = Budget { attempts_max: 3, ..optimistic::BUDGET };

/// Commits of this process that may wait for keys.
const QUEUE_PLACES: usize = 100_000;

/// More concurrent commits than any process reaches.
const COMMITS_MAX: u32 = 1 << 20;

/// What all commits of an engine pass through.
pub(crate) struct Committer {
    store: Arc<Store>,
    queue: KeyQueue,
    groups: Groups,
    /// One permit for each commit in flight; closing takes all.
    places: Arc<Semaphore>,
    is_closed: AtomicBool,
}

impl Committer {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            queue: KeyQueue::new(QUEUE_PLACES),
            groups: Groups::new(QUEUE_PLACES),
            places: Arc::new(Semaphore::new(COMMITS_MAX as usize)),
            is_closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn check_open(&self) -> Result<(), EngineError> {
        if self.is_closed.load(Ordering::SeqCst) { Err(closed()) } else { Ok(()) }
    }

    /// Refuses further commits, and waits for those in flight.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let _all = self.places.acquire_many(COMMITS_MAX).await;
    }

    pub(crate) async fn commit(self: &Arc<Self>, commit: Commit) -> Result<Revision, CommitError> {
        let place = self.places.clone().acquire_owned().await.map_err(|_| closed())?;
        self.check_open()?;
        let patience = self.store.patience();
        let Some(key) = key_of(&commit).cloned() else {
            return self.commit_alone(&commit, patience).await;
        };
        let (id, mut answer) = match self.groups.enter(&key, commit, place, patience)? {
            Entered::First(commit, _place) => {
                let lead = Lead { committer: self.clone(), key, known: None };
                let done = self.commit_alone(&commit, patience).await;
                drop(lead);
                return done;
            }
            Entered::Waits(id, answer) => (id, answer),
        };
        let answer = match timeout_at(patience.sent_by(), &mut answer).await {
            Ok(answer) => answer,
            Err(_) if self.groups.leave(&key, id) => return Err(too_late().into()),
            // Already sent, with the patience of the first of its group, which came earlier.
            Err(_) => answer.await,
        };
        match answer {
            Ok(Answer::Done(done)) => done,
            Ok(Answer::Alone(commit, _place)) => self.commit_alone(&commit, patience).await,
            Err(lost) => Err(CommitError::Undetermined(lost.into())),
        }
    }

    async fn commit_alone(
        &self,
        commit: &Commit,
        patience: Patience,
    ) -> Result<Revision, CommitError> {
        let _turn = self.turn(commit, patience).await?;
        let (store, pace) = (&self.store, &*self.store.options.pace);
        let in_lanes = InLanes { store, patience };
        match optimistic::commit_within(&in_lanes, pace, commit, EAGER).await {
            Err(CommitError::Conflict) => store.meter.contended(),
            done => return done,
        }
        let once = Budget { attempts_max: 1, ..optimistic::BUDGET };
        let tried = retry(pace, optimistic::BUDGET, || async {
            let locked = Locked::new(store, &commit.guards, &commit.turns, patience);
            match optimistic::commit_within(&locked, pace, commit, once).await {
                Err(CommitError::Conflict) => {
                    store.meter.retried(Retry::Conflict);
                    Attempt::Again
                }
                done => Attempt::Done(done),
            }
        });
        tried.await.unwrap_or(Err(CommitError::Conflict))
    }

    /// A commit's turn among the commits of this process that would conflict with it.
    async fn turn(&self, commit: &Commit, patience: Patience) -> Result<Turn<'_>, CommitError> {
        let entered = async {
            match commit.derive {
                // What is derived may depend on the value of every key written.
                Some(_) => {
                    let written = commit.writes.iter().filter_map(Write::key);
                    self.queue.enter_keys(written.collect()).await
                }
                None => self.queue.enter(commit).await,
            }
        };
        timeout_at(patience.sent_by(), entered).await.map_err(|_| too_late())?
    }

    /// Commits for a group, and answers each member. `known` is what the key held after the previous group.
    async fn commit_group(&self, waiting: Vec<Waiting>, known: Option<Found>) -> Option<Found> {
        let group = Group::new(&self.store, waiting)?;
        // Commits of several keys take turns with groups.
        let key = group.key.clone();
        let turn = self.queue.enter_keys(vec![&key]);
        match timeout_at(group.patience.sent_by(), turn).await {
            Ok(Ok(_turn)) => group.commit(known).await,
            Ok(Err(busy)) => group.fail(&busy),
            Err(_) => group.fail(&too_late().into()),
        }
    }
}

/// The right to commit for those waiting for a key. When its holder is done or gives up, the next group starts.
struct Lead {
    committer: Arc<Committer>,
    key: Key,
    /// What the key holds, as far as this process knows.
    known: Option<Found>,
}

impl Drop for Lead {
    fn drop(&mut self) {
        let waiting = self.committer.groups.next(&self.key);
        if waiting.is_empty() {
            return;
        }
        let (committer, key, known) = (self.committer.clone(), self.key.clone(), self.known.take());
        let mut lead = Self { committer, key, known: None };
        // Without a runtime no caller waits for an answer.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                lead.known = lead.committer.commit_group(waiting, known).await;
                drop(lead);
            });
        }
    }
}
