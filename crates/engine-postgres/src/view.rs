//! Views: one REPEATABLE READ transaction each, opened at the first read (K-7.14).

use crate::Store;
use crate::fault::Fault;
use crate::pool::{Lease, Use};
use crate::read::read;
use crate::scan;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture as Sending, Shared};
use lazuli_engine::meter::TimedCall;
use lazuli_engine::{BoxFuture, EngineError, Found, Key, Scan, ScanEnd, View, Visitor};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

const BEGIN: &str = "begin isolation level repeatable read, read only";

/// A snapshot. Nothing is sent before the first read (K-3.5).
pub(crate) struct PostgresView {
    store: Arc<Store>,
    begun_ms: u64,
    transaction: Arc<Mutex<Transaction>>,
    /// Gives the connection back when the view expires, whoever still holds it.
    expiry: OnceLock<AbortHandle>,
}

/// The transaction of a view, shared with its timer.
enum Transaction {
    NotBegun,
    Open(Arc<Open>),
    /// The view has expired.
    Ended,
}

/// An open transaction. It ends when the last statement that uses it does.
pub(crate) struct Open {
    lease: Option<Lease>,
    /// Whether the transaction has begun. The first statements are sent along with it, and believed when
    /// it has.
    begun: Shared<Sending<'static, bool>>,
    unanswered: AtomicUsize,
}

impl PostgresView {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let begun_ms = store.options.pace.now_ms();
        let transaction = Arc::new(Mutex::new(Transaction::NotBegun));
        Self { store, begun_ms, transaction, expiry: OnceLock::new() }
    }

    /// The transaction, begun if this is the first read.
    async fn open(&self, deadline: Instant) -> Result<Arc<Open>, EngineError> {
        let age_ms = self.store.options.pace.now_ms().saturating_sub(self.begun_ms);
        let left_ms = self.store.limits().view_ms_max.saturating_sub(age_ms);
        if left_ms == 0 {
            return Err(EngineError::Expired);
        }
        let first = timeout_at(deadline, self.transaction.lock()).await;
        let mut transaction = first.map_err(|_| crate::pool::all_in_use())?;
        match &*transaction {
            Transaction::Open(open) => Ok(open.clone()),
            Transaction::Ended => Err(EngineError::Expired),
            Transaction::NotBegun => {
                let lease = self.store.pool.get(Use::View, deadline).await?;
                let open = Arc::new(Open::begin(lease));
                *transaction = Transaction::Open(open.clone());
                self.expiry.get_or_init(|| self.end_after(left_ms));
                Ok(open)
            }
        }
    }

    /// Ends the transaction after some time, unless this is stopped before.
    fn end_after(&self, ms: u64) -> AbortHandle {
        let transaction = self.transaction.clone();
        let expire = async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            *transaction.lock().await = Transaction::Ended;
        };
        tokio::spawn(expire).abort_handle()
    }

    /// The answer to a statement of this view.
    pub(crate) async fn ask<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        deadline: Instant,
        statement: impl Fn(Arc<Open>, Instant) -> F,
    ) -> Result<T, EngineError> {
        let open = self.open(deadline).await?;
        open.ask(statement(open.clone(), deadline)).await.map_err(Fault::into_engine_error)
    }

    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Found>>, EngineError> {
        let deadline = self.store.deadline();
        if keys.is_empty() {
            self.open(deadline).await?;
            return Ok(Vec::new());
        }
        let statement =
            |open: Arc<Open>, deadline| async move { read(open.lease()?, keys, deadline).await };
        self.ask(deadline, statement).await
    }
}

impl Drop for PostgresView {
    fn drop(&mut self) {
        if let Some(expiry) = self.expiry.get() {
            expiry.abort();
        }
    }
}

impl Open {
    /// Sends the begin of the transaction and does not wait for it.
    fn begin(lease: Lease) -> Self {
        let client = lease.client.clone();
        let begun = async move { client.batch_execute(BEGIN).await.is_ok() }.boxed().shared();
        // The first poll sends it, before any other statement of the view.
        let _ = begun.clone().now_or_never();
        Self { lease: Some(lease), begun, unanswered: AtomicUsize::new(0) }
    }

    pub(crate) fn lease(&self) -> Result<&Lease, Fault> {
        self.lease.as_ref().ok_or_else(|| Fault::lost(crate::closed()))
    }

    /// The answer to a statement, if it was in the transaction.
    async fn ask<T>(&self, statement: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let found = statement.await?;
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
        match self.begun.clone().await {
            true => Ok(found),
            false => Err(Fault::lost("the snapshot could not be opened")),
        }
    }
}

impl Drop for Open {
    /// Ends the transaction without waiting, and gives the connection back. It is closed instead if a reader
    /// was cut off or failed: the next user would wait for what is left of that.
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        if *self.unanswered.get_mut() > 0 {
            return;
        }
        let sent = lease.client.batch_execute("commit").now_or_never();
        if sent.is_none() {
            lease.give_back();
        }
    }
}

impl View for PostgresView {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        Box::pin(async move {
            let key = [Key::from(key.to_vec())];
            let found = self.store.meter.timed(TimedCall::Get, self.read(&key)).await?;
            Ok(found.into_iter().next().flatten())
        })
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(self.store.meter.timed(TimedCall::Get, self.read(keys)))
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        let scanned = scan::scan(self, &self.store, scan, visitor);
        Box::pin(self.store.meter.timed(TimedCall::Scan, scanned))
    }
}
