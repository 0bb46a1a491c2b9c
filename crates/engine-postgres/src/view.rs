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
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::OnceCell;
use tokio::time::Instant;

const BEGIN: &str = "begin isolation level repeatable read, read only";

/// A snapshot. Nothing is sent before the first read (K-3.5).
pub(crate) struct PostgresView {
    store: Arc<Store>,
    begun_ms: u64,
    open: OnceCell<Open>,
}

/// The transaction of a view.
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
        Self { store, begun_ms, open: OnceCell::new() }
    }

    /// The transaction, begun if this is the first read.
    pub(crate) async fn open(&self, deadline: Instant) -> Result<&Open, EngineError> {
        let age_ms = self.store.options.pace.now_ms().saturating_sub(self.begun_ms);
        if age_ms >= self.store.limits().view_ms_max {
            return Err(EngineError::Expired);
        }
        self.open
            .get_or_try_init(|| async {
                let lease = self.store.pool.get(Use::View, deadline).await?;
                Ok(Open::begin(lease))
            })
            .await
    }

    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Found>>, EngineError> {
        let deadline = self.store.deadline();
        let open = self.open(deadline).await?;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let lease = open.lease()?;
        open.ask(read(lease, keys, deadline)).await
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

    pub(crate) fn lease(&self) -> Result<&Lease, EngineError> {
        self.lease.as_ref().ok_or_else(crate::closed)
    }

    /// The answer to a statement, if it was in the transaction.
    pub(crate) async fn ask<T>(
        &self,
        statement: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, EngineError> {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let found = statement.await.map_err(Fault::into_engine_error)?;
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
        match self.begun.clone().await {
            true => Ok(found),
            false => Err(EngineError::Unavailable("the snapshot could not be opened".into())),
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
