//! Optimistic transactions: locks on all keys, then one commit; or both in one step.
//!
//! A transaction that fits one request to one region is committed by that request (1PC). Otherwise
//! prewrites lock all keys in parallel, and the commit of the primary key decides. A prewrite whose
//! answer is lost is never repeated: its transaction is settled, by a check that also prevents it
//! from happening later, and the caller starts a new one. A prewrite that a region declined is sent
//! to where the keys are now; if it then fails, the transaction is settled as well.

use crate::cluster::{Cluster, SendError};
use crate::locks::Fate;
use crate::patience::{ClientError, Patience};
use crate::proto::kv::{
    BatchRollbackRequest, CommitRequest, CommitResponse, KeyError, LockInfo, Mutation, Op,
    PrewriteRequest,
};
use crate::region::{Region, encode};
use crate::timestamp::Timestamp;
use bytes::Bytes;
use futures_util::future::join_all;
use lazuli_engine::meter::Settled;
use std::sync::Arc;

/// This long after its keys were locked, others may consider a transaction dead and roll it back (K-6.2).
const LOCK_TTL_MS: u64 = 3_000;
/// Bytes of keys and values per prewrite; a larger mutation is sent alone. TiKV takes 8 MiB.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Why a transaction did not commit.
#[derive(Debug)]
pub(crate) enum TransactionError {
    /// Another transaction was faster. Nothing was written.
    Conflict,
    /// A key to be inserted exists. Nothing was written.
    Exists,
    /// It may have committed.
    Undetermined(ClientError),
    /// Nothing was written.
    Failed(ClientError),
}

/// How a prewrite ended.
enum Prewritten {
    Locked,
    /// Committed by the same request.
    Committed,
}

/// Why a prewrite did not lock its keys.
enum PrewriteError {
    /// No store was reached. The keys are not locked.
    Unsent(String),
    /// The region has moved, or its bounds have changed. The keys are very likely not locked.
    Moved(String),
    Conflict,
    Exists,
    Lost,
    Failed(ClientError),
}

/// Mutations that one request carries.
struct Batch {
    region: Arc<Region>,
    mutations: Vec<Mutation>,
}

/// When a transaction began, and the latest time at which it may commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: Timestamp,
    /// By the clock of this process, when the start was requested or later.
    pub(crate) began_ms: u64,
    /// The latest time at which it may commit, by the cluster's clock: a suspended process does not
    /// notice how late it is.
    pub(crate) latest: Timestamp,
}

/// One transaction.
pub(crate) struct Transaction {
    span: Span,
    primary: Bytes,
    /// For the step that decides the transaction, or finds out its outcome.
    settling: Patience,
}

impl Cluster {
    /// Commits `mutations`, none of whose keys was written since the start.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        span: Span,
        mutations: Vec<Mutation>,
        patience: &mut Patience,
    ) -> Result<(), TransactionError> {
        let is_write = |mutation: &&Mutation| mutation.op != Op::Lock as i32;
        let primary = mutations.iter().find(is_write).or(mutations.first());
        let Some(primary) = primary.map(|primary| primary.key.clone()) else { return Ok(()) };
        let settling = patience.to_settle(self.wait_ms_max);
        let transaction = Transaction { span, primary, settling };
        // A region that moves while it executes a request may report so although it executed it.
        let mut may_have_happened = false;
        loop {
            let tried = match self.batches(&mutations, patience).await {
                Ok(batches) => self.commit_batches(&transaction, batches, patience).await,
                Err(error) => Err(PrewriteError::Failed(error)),
            };
            let error = match tried {
                Ok(done) => return done,
                Err(error) => error,
            };
            may_have_happened |= matches!(error, PrewriteError::Moved(_) | PrewriteError::Lost);
            let failure = match error {
                PrewriteError::Unsent(reason) | PrewriteError::Moved(reason) => {
                    match patience.pause(reason).await {
                        Ok(()) => continue,
                        Err(error) => TransactionError::Failed(error),
                    }
                }
                PrewriteError::Failed(error) => TransactionError::Failed(error),
                PrewriteError::Exists => TransactionError::Exists,
                PrewriteError::Conflict | PrewriteError::Lost => TransactionError::Conflict,
            };
            if may_have_happened {
                let settled = self.after_loss(&transaction, &mutations).await;
                self.meter.settled(match settled {
                    Ok(()) => Settled::Happened,
                    Err(TransactionError::Undetermined(_)) => Settled::Undetermined,
                    Err(_) => Settled::DidNot,
                });
                return settled;
            }
            return Err(failure);
        }
    }

    /// One attempt, with the regions as currently known.
    async fn commit_batches(
        self: &Arc<Self>,
        transaction: &Transaction,
        batches: Vec<Batch>,
        patience: &Patience,
    ) -> Result<Result<(), TransactionError>, PrewriteError> {
        let alone = batches.len() == 1;
        let prewrites = batches.iter().map(|batch| {
            let mut patience = patience.clone();
            async move { self.prewrite(transaction, batch, alone, &mut patience).await }
        });
        let results = join_all(prewrites).await;
        let mut is_committed = false;
        let mut failure = None;
        for result in results {
            match (result, failure.as_ref()) {
                (Ok(Prewritten::Committed), _) => is_committed = true,
                (Ok(Prewritten::Locked), _) => {}
                // A lost answer outweighs any other failure: it must be settled.
                (Err(PrewriteError::Lost), _) => failure = Some(PrewriteError::Lost),
                (Err(error), None) => failure = Some(error),
                (Err(_), Some(_)) => {}
            }
        }
        match failure {
            None if is_committed => Ok(Ok(())),
            None => Ok(self.commit_locked(transaction, batches).await),
            // A single request that failed has locked nothing.
            Some(failure) if alone => Err(failure),
            Some(failure) => {
                self.roll_back(transaction, batches.iter().flat_map(Batch::keys)).await;
                // The transaction cannot continue after its rollback.
                Err(match failure {
                    PrewriteError::Unsent(_) | PrewriteError::Moved(_) | PrewriteError::Lost => {
                        PrewriteError::Conflict
                    }
                    other => other,
                })
            }
        }
    }

    /// Splits mutations by region and size. The batch of the primary key comes first.
    async fn batches(
        &self,
        mutations: &[Mutation],
        patience: &mut Patience,
    ) -> Result<Vec<Batch>, ClientError> {
        let groups = self.group(mutations.to_vec(), |mutation| &mutation.key, patience).await?;
        let mut batches = Vec::with_capacity(groups.len());
        for (region, group) in groups {
            let mut bytes = 0;
            let mut part = Vec::new();
            for mutation in group {
                let size = mutation.key.len() + mutation.value.len();
                if bytes + size > BATCH_BYTES_MAX && !part.is_empty() {
                    let mutations = std::mem::take(&mut part);
                    batches.push(Batch { region: region.clone(), mutations });
                    bytes = 0;
                }
                bytes += size;
                part.push(mutation);
            }
            batches.push(Batch { region, mutations: part });
        }
        Ok(batches)
    }

    /// Locks the keys of a batch, or commits it if it is `alone`.
    async fn prewrite(
        &self,
        transaction: &Transaction,
        batch: &Batch,
        alone: bool,
        patience: &mut Patience,
    ) -> Result<Prewritten, PrewriteError> {
        let mut request = PrewriteRequest {
            mutations: batch.mutations.clone(),
            primary_lock: transaction.primary.clone(),
            start_version: transaction.span.start.0,
            txn_size: batch.mutations.len() as u64,
            min_commit_ts: transaction.span.start.0 + 1,
            // Never asynchronously: that could lose what was acknowledged (K-6.1).
            try_one_pc: alone,
            max_commit_ts: transaction.span.latest.0,
            ..PrewriteRequest::default()
        };
        loop {
            // The life of a lock counts from the start of its transaction.
            let age_ms = self.pace.now_ms().saturating_sub(transaction.span.began_ms);
            request.lock_ttl = LOCK_TTL_MS + age_ms;
            let answer = match self.send(&batch.region, &mut request, patience).await {
                Ok(answer) => answer,
                Err(SendError::Unsent(reason)) => return Err(PrewriteError::Unsent(reason)),
                Err(SendError::Moved(reason)) => return Err(PrewriteError::Moved(reason)),
                // Whatever broke the call, it may have been executed (K-6.9).
                Err(SendError::Lost(_) | SendError::TooLong(_)) => return Err(PrewriteError::Lost),
                Err(SendError::Failed(error)) => return Err(PrewriteError::Failed(error)),
                Err(busy) => {
                    busy.wait(patience).await.map_err(PrewriteError::Failed)?;
                    continue;
                }
            };
            if answer.errors.is_empty() {
                let is_committed = answer.one_pc_commit_ts > 0;
                return Ok(if is_committed { Prewritten::Committed } else { Prewritten::Locked });
            }
            let locks = locks(answer.errors)?;
            let gone = self.resolve(locks, patience).await.map_err(PrewriteError::Failed)?;
            if !gone && !alone {
                // Do not wait for other transactions: they may be waiting for the locks of our other batches.
                return Err(PrewriteError::Conflict);
            }
            if !gone {
                let why = "a key is locked by another transaction";
                patience.pause(why).await.map_err(PrewriteError::Failed)?;
            }
        }
    }

    /// All keys are locked: the commit of the primary decides, the other keys follow later.
    async fn commit_locked(
        self: &Arc<Self>,
        transaction: &Transaction,
        batches: Vec<Batch>,
    ) -> Result<(), TransactionError> {
        let mut patience = transaction.settling.clone();
        let keys: Vec<Bytes> = batches.iter().flat_map(Batch::keys).collect();
        let at = match self.oracle.now(&mut patience).await {
            Ok(at) if at <= transaction.span.latest => at,
            Ok(_) => {
                self.roll_back(transaction, keys.into_iter()).await;
                return Err(TransactionError::Conflict);
            }
            Err(error) => {
                self.roll_back(transaction, keys.into_iter()).await;
                return Err(TransactionError::Failed(error));
            }
        };
        match self.commit_primary(transaction, &keys, at, &mut patience).await {
            Ok(Some((at, left))) => {
                if !left.is_empty() {
                    self.finish_later(transaction, at, left).await;
                }
                Ok(())
            }
            Ok(None) => {
                self.roll_back(transaction, keys.into_iter()).await;
                Err(TransactionError::Conflict)
            }
            Err(error) => Err(TransactionError::Undetermined(error)),
        }
    }

    /// Commits the other keys, after the acknowledgement if there is room. Readers finish what this
    /// does not reach.
    async fn finish_later(
        self: &Arc<Self>,
        transaction: &Transaction,
        at: Timestamp,
        keys: Vec<Bytes>,
    ) {
        let (cluster, start, patience) =
            (self.clone(), transaction.span.start, transaction.settling.clone());
        let finish = async move { cluster.commit_keys(start, at, keys, patience).await };
        match self.trailing.clone().try_acquire_owned() {
            Ok(permit) => {
                tokio::spawn(async move {
                    let _ = finish.await;
                    drop(permit);
                });
            }
            Err(_) => {
                let _ = finish.await;
            }
        }
    }

    /// Commits the primary key and the keys in its region. Returns the commit's timestamp and the
    /// remaining keys, or `None` if others have rolled the transaction back or it could commit only
    /// too late. A lost request is repeated, which is safe: what is committed stays committed.
    async fn commit_primary(
        &self,
        transaction: &Transaction,
        keys: &[Bytes],
        mut at: Timestamp,
        patience: &mut Patience,
    ) -> Result<Option<(Timestamp, Vec<Bytes>)>, ClientError> {
        loop {
            let region = self.region_of(&transaction.primary, patience).await?;
            let (here, left): (Vec<Bytes>, Vec<Bytes>) =
                keys.iter().cloned().partition(|key| region.contains(&encode(key)));
            let mut request = CommitRequest {
                start_version: transaction.span.start.0,
                keys: here,
                commit_version: at.0,
                ..CommitRequest::default()
            };
            match self.send(&region, &mut request, patience).await {
                Ok(CommitResponse { error: None, .. }) => return Ok(Some((at, left))),
                // A reader has pushed the minimum commit timestamp up.
                Ok(CommitResponse { error: Some(error), .. })
                    if error.commit_ts_expired.is_some() =>
                {
                    at = self.oracle.now(patience).await?;
                    // The key is still locked: no earlier request has committed it, and none can any more.
                    if at > transaction.span.latest {
                        return Ok(None);
                    }
                }
                Ok(_) => return Ok(None),
                Err(error) => error.wait(patience).await?,
            }
        }
    }

    async fn commit_keys(
        &self,
        start: Timestamp,
        at: Timestamp,
        keys: Vec<Bytes>,
        mut patience: Patience,
    ) -> Result<(), ClientError> {
        let mut left = keys;
        while !left.is_empty() {
            let groups = self.group(std::mem::take(&mut left), |key| key, &mut patience).await?;
            for (region, keys) in groups {
                let mut request = CommitRequest {
                    start_version: start.0,
                    keys: keys.clone(),
                    commit_version: at.0,
                    ..CommitRequest::default()
                };
                if let Err(error) = self.send(&region, &mut request, &patience).await {
                    left.extend(keys);
                    error.wait(&mut patience).await?;
                }
            }
        }
        Ok(())
    }

    /// Finds out the outcome of a single-request transaction whose answer was lost.
    async fn after_loss(
        &self,
        transaction: &Transaction,
        mutations: &[Mutation],
    ) -> Result<(), TransactionError> {
        let mut patience = transaction.settling.clone();
        loop {
            let fate =
                self.settle(&transaction.primary, transaction.span.start, &mut patience).await;
            match fate.map_err(TransactionError::Undetermined)? {
                Fate::Committed(_) => return Ok(()),
                Fate::RolledBack => {
                    let keys = mutations.iter().map(|mutation| mutation.key.clone());
                    self.roll_back(transaction, keys).await;
                    return Err(TransactionError::Conflict);
                }
                Fate::Alive => {
                    let waited = patience.pause("a transaction is neither dead nor alive").await;
                    waited.map_err(TransactionError::Undetermined)?;
                }
            }
        }
    }

    /// Removes the locks of a transaction that has not committed, and blocks late prewrites. Locks
    /// it does not reach expire.
    async fn roll_back(&self, transaction: &Transaction, keys: impl Iterator<Item = Bytes>) {
        let mut patience = transaction.settling.clone();
        let mut left: Vec<Bytes> = keys.collect();
        while !left.is_empty() {
            let Ok(groups) = self.group(std::mem::take(&mut left), |key| key, &mut patience).await
            else {
                return;
            };
            for (region, keys) in groups {
                let mut request = BatchRollbackRequest {
                    start_version: transaction.span.start.0,
                    keys: keys.clone(),
                    ..BatchRollbackRequest::default()
                };
                if let Err(error) = self.send(&region, &mut request, &patience).await {
                    left.extend(keys);
                    if error.wait(&mut patience).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

impl Batch {
    fn keys(&self) -> impl Iterator<Item = Bytes> {
        self.mutations.iter().map(|mutation| mutation.key.clone())
    }
}

/// The locks that a prewrite met, if only locks stopped it.
fn locks(errors: Vec<KeyError>) -> Result<Vec<LockInfo>, PrewriteError> {
    let mut locks = Vec::with_capacity(errors.len());
    for error in errors {
        match error {
            KeyError { already_exist: Some(_), .. } => return Err(PrewriteError::Exists),
            KeyError { locked: Some(lock), .. } => locks.push(lock),
            // A write conflict, or our own rollback by another process.
            _ => return Err(PrewriteError::Conflict),
        }
    }
    Ok(locks)
}
