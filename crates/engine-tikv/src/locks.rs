//! What to do about another transaction's lock: wait while the transaction lives, else finish what it began.

use crate::cluster::Cluster;
use crate::patience::{ClientError, Patience};
use crate::proto::kv::{
    CheckTxnStatusRequest, CheckTxnStatusResponse, KeyError, LockInfo, ResolveLockRequest,
    ScanLockRequest,
};
use crate::timestamp::Timestamp;
use bytes::Bytes;
use std::collections::HashMap;

/// A transaction with at least this many keys in a region is finished for the whole region, else key by key.
const WHOLE_REGION_KEYS: u64 = 16;
const LOCKS_PER_SCAN: u32 = 256;

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Alive,
    Committed(Timestamp),
    RolledBack,
}

impl Cluster {
    /// Removes the locks of finished transactions. True if none is left.
    pub(crate) async fn resolve(
        &self,
        locks: Vec<LockInfo>,
        patience: &mut Patience,
    ) -> Result<bool, ClientError> {
        let now = self.oracle.now(patience).await?;
        let mut fates: HashMap<u64, Fate> = HashMap::new();
        let mut all_gone = true;
        for lock in locks {
            let fate = match fates.get(&lock.lock_version) {
                Some(&fate) => fate,
                None => self.fate_of(&lock, now, patience).await?,
            };
            fates.insert(lock.lock_version, fate);
            match fate {
                Fate::Alive => all_gone = false,
                Fate::Committed(at) => self.finish(&lock, at.0, patience).await?,
                Fate::RolledBack => self.finish(&lock, 0, patience).await?,
            }
        }
        Ok(all_gone)
    }

    /// The primary key decides a transaction. It may not be locked yet, because the locks of a
    /// transaction are placed in parallel: only an expired lock proves that the primary never will
    /// be, and then the check forbids it (K-6.14).
    async fn fate_of(
        &self,
        lock: &LockInfo,
        now: Timestamp,
        patience: &mut Patience,
    ) -> Result<Fate, ClientError> {
        let expires = Timestamp(lock.lock_version).physical_ms() + lock.lock_ttl;
        let rollback = expires < now.physical_ms();
        self.check_status(&lock.primary_lock, lock.lock_version, now, rollback, patience).await
    }

    /// The outcome of our own transaction whose answer was lost. If it has not committed, it
    /// never will: the check leaves a record that makes a late prewrite or commit fail.
    pub(crate) async fn settle(
        &self,
        primary: &Bytes,
        start: Timestamp,
        patience: &mut Patience,
    ) -> Result<Fate, ClientError> {
        // At this time every lock has expired.
        self.check_status(primary, start.0, Timestamp::LATEST, true, patience).await
    }

    async fn check_status(
        &self,
        primary: &Bytes,
        lock_ts: u64,
        now: Timestamp,
        rollback_if_not_exist: bool,
        patience: &mut Patience,
    ) -> Result<Fate, ClientError> {
        let request = CheckTxnStatusRequest {
            primary_key: primary.clone(),
            lock_ts,
            current_ts: now.0,
            rollback_if_not_exist,
            ..CheckTxnStatusRequest::default()
        };
        let answer = self.send_to(primary, request, patience).await?;
        match answer {
            CheckTxnStatusResponse { error: Some(error), .. } if error.txn_not_found.is_some() => {
                Ok(Fate::Alive)
            }
            CheckTxnStatusResponse { error: Some(error), .. } => Err(unexpected(&error)),
            CheckTxnStatusResponse { commit_version: 0, lock_ttl: 0, .. } => Ok(Fate::RolledBack),
            CheckTxnStatusResponse { commit_version: 0, .. } => Ok(Fate::Alive),
            CheckTxnStatusResponse { commit_version, .. } => {
                Ok(Fate::Committed(Timestamp(commit_version)))
            }
        }
    }

    async fn finish(
        &self,
        lock: &LockInfo,
        commit_version: u64,
        patience: &mut Patience,
    ) -> Result<(), ClientError> {
        let keys =
            if lock.txn_size >= WHOLE_REGION_KEYS { Vec::new() } else { vec![lock.key.clone()] };
        let start_version = lock.lock_version;
        let request =
            ResolveLockRequest { start_version, commit_version, keys, ..Default::default() };
        let answer = self.send_to(&lock.key, request, patience).await?;
        answer.error.map_or(Ok(()), |error| Err(unexpected(&error)))
    }

    /// Removes locks older than `before` from the region that holds `start`. Returns where the next
    /// region begins, or `None` at `end`. A lock that old has outlived its time, or this fails.
    pub(crate) async fn sweep(
        &self,
        start: &[u8],
        end: &[u8],
        before: Timestamp,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let mut patience = self.patience();
        loop {
            let region = self.region_of(start, &mut patience).await?;
            let mut request = ScanLockRequest {
                max_version: before.0,
                start_key: Bytes::copy_from_slice(start),
                limit: LOCKS_PER_SCAN,
                end_key: Bytes::copy_from_slice(end),
                ..ScanLockRequest::default()
            };
            let answer = match self.send(&region, &mut request, &patience).await {
                Ok(answer) => answer,
                Err(error) => {
                    error.wait(&mut patience).await?;
                    continue;
                }
            };
            if let Some(error) = answer.error {
                return Err(unexpected(&error));
            }
            if answer.locks.is_empty() {
                return Ok(region.key_after()?.filter(|next| next.as_slice() < end));
            }
            if !self.resolve(answer.locks, &mut patience).await? {
                patience.pause("a transaction of long ago is alive").await?;
            }
        }
    }
}

/// The error for a key error that the protocol should never produce here.
pub(crate) fn unexpected(error: &KeyError) -> ClientError {
    ClientError::Refused(format!("{error:?}"))
}
