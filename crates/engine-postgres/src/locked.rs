//! Commits with functions on keys that many gateways write at once: the rows are locked while the gateway
//! computes, so that every commit gets its turn.
//!
//! It needs no more round trips than the optimistic way, but keeps the rows locked for one of them, so it is
//! used only after conflicts.

use crate::Store;
use crate::commit::Shape;
use crate::fault::Fault;
use crate::patience::Patience;
use crate::pool::{Lease, Use};
use crate::read::{read, read_locked};
use crate::session::late;
use crate::settle::{Outcome, Sent};
use futures_util::{FutureExt, future};
use lazuli_engine::meter::Retry;
use lazuli_engine::optimistic::PlainStore;
use lazuli_engine::{
    BoxFuture, Check, Commit, CommitError, EngineError, Found, Key, Limits, Revision,
};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::Mutex;
use tokio::time::timeout_at;

/// A gateway that stalls while it computes must not block others for longer than this.
const BEGIN: &str = "begin; set local idle_in_transaction_session_timeout = '3s'";

/// One attempt of a commit: what it reads stays as it is until it commits.
pub(crate) struct Locked<'s> {
    store: &'s Store,
    /// Read without a lock, because all writers of a table would wait for it (K-2.4).
    guards: BTreeSet<Key>,
    /// Locked with the rest, because every commit locks rows in one order.
    turns: Vec<Key>,
    /// The open transaction.
    lease: Mutex<Option<Lease>>,
    patience: Patience,
}

impl<'s> Locked<'s> {
    pub(crate) fn new(
        store: &'s Store,
        guards: &[Check],
        turns: &[Key],
        patience: Patience,
    ) -> Self {
        let guards = guards.iter().map(|guard| guard.key.clone()).collect();
        Self { store, guards, turns: turns.to_vec(), lease: Mutex::default(), patience }
    }

    pub(crate) async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Found>>, EngineError> {
        let (guards, mut others): (Vec<Key>, Vec<Key>) =
            keys.iter().cloned().partition(|key| self.guards.contains(key));
        others.extend(self.turns.iter().filter(|key| !keys.contains(key)).cloned());
        let deadline = self.patience.deadline();
        let mut held = self.lease.lock().await;
        let (seen, locked) = loop {
            self.patience.check()?;
            let begun = held.take();
            let is_first = begun.is_none();
            let lease = match begun {
                Some(lease) => lease,
                None => self.begin().await?,
            };
            let read = future::try_join(
                read(&lease, &guards, deadline),
                read_locked(&lease, &others, deadline),
            );
            match read.await {
                Ok(found) => {
                    *held = Some(lease);
                    break found;
                }
                // Nothing was computed from what this transaction showed: another one is as good.
                Err(Fault::Lost(_) | Fault::Unsent(_) | Fault::Conflict) if is_first => {
                    self.store.meter.retried(Retry::Store);
                }
                Err(fault) => return Err(fault.into_engine_error()),
            }
        };
        let found: BTreeMap<Key, Option<Found>> =
            guards.into_iter().chain(others).zip(seen.into_iter().chain(locked)).collect();
        Ok(keys.iter().map(|key| found.get(key).cloned().flatten()).collect())
    }

    /// A connection on which a transaction begins. That is answered together with what follows.
    async fn begin(&self) -> Result<Lease, EngineError> {
        let lease = self.store.pool.get(Use::OneStatement, self.patience.sent_by()).await?;
        drop(lease.client.batch_execute(BEGIN).now_or_never());
        Ok(lease)
    }

    /// Commits what was computed; it takes so many revisions.
    pub(crate) async fn commit(
        &self,
        commit: &Commit,
        revisions: u64,
    ) -> Result<Revision, CommitError> {
        let Some(lease) = self.lease.lock().await.take() else {
            return self.store.commit_once(commit, revisions, self.patience).await;
        };
        let (id, deadline) = (self.store.commit_id(), self.patience.deadline());
        let sent = Sent::now(id, &lease);
        let shape = Shape::of(commit, revisions);
        let end = async {
            let end = lease.client.batch_execute("commit");
            timeout_at(deadline, end).await.map_err(late)?.map_err(Fault::from)
        };
        match lease.prepared(shape.statement(), deadline).await {
            Ok(_) => {}
            // The rows are unlocked again, so what was computed from them may no longer hold.
            Err(Fault::Unsent(_)) => return Err(CommitError::Conflict),
            Err(fault) => return Err(fault.into_commit_error()),
        }
        // In this order on the wire, as nothing is left to prepare. Ending a failed transaction undoes it.
        match future::join(shape.send(&lease, id, deadline), end).await {
            (Ok(answer), Ok(())) => {
                lease.give_back();
                answer.into_result()
            }
            (Err(Fault::Lost(reason)), _) | (Ok(_), Err(Fault::Lost(reason))) => {
                drop(lease);
                match self.store.settle(commit, &sent, self.patience, reason).await? {
                    Outcome::Happened(revision) => Ok(revision),
                    Outcome::DidNot(_) => Err(CommitError::Conflict),
                }
            }
            (Err(fault), _) | (Ok(_), Err(fault)) => Err(fault.into_commit_error()),
        }
    }
}

impl PlainStore for Locked<'_> {
    fn limits(&self) -> &Limits {
        self.store.limits()
    }

    fn read_together<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(self.read(keys))
    }

    fn commit_plain(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move { self.commit(&commit, 1).await })
    }
}
