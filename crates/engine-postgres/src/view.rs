//! Views: one REPEATABLE READ transaction each, opened at the first read (K-7.14).
//!
//! A view that is kept between requests lives longer, and ends when its transaction does: nothing
//! brings back the state of one whose connection was lost, or in which a statement failed.

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
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How long a view lives, and the statement that begins its transaction. The database ends one that is
/// idle for longer than it could be used.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) life_ms: u64,
    begin: &'static str,
    /// Whether it is kept between requests.
    is_kept: bool,
}

/// The view of a request: every session has this limit on idle transactions (K-7.17).
pub(crate) const OF_REQUEST: Kind = Kind {
    life_ms: 60_000,
    begin: "begin isolation level repeatable read, read only",
    is_kept: false,
};

pub(crate) const KEPT: Kind = Kind {
    life_ms: 300_000,
    begin: "begin isolation level repeatable read, read only; \
            set local idle_in_transaction_session_timeout = '305s'",
    is_kept: true,
};

/// A snapshot. Nothing is sent before the first read (K-3.5).
pub(crate) struct PostgresView {
    store: Arc<Store>,
    kind: &'static Kind,
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
    /// A statement failed, and with it the transaction.
    has_failed: AtomicBool,
}

impl PostgresView {
    pub(crate) fn new(store: Arc<Store>, kind: &'static Kind) -> Self {
        let begun_ms = store.options.pace.now_ms();
        Self { store, kind, begun_ms, open: OnceCell::new() }
    }

    /// The transaction, begun if this is the first read.
    pub(crate) async fn open(&self, deadline: Instant) -> Result<&Open, EngineError> {
        let age_ms = self.store.options.pace.now_ms().saturating_sub(self.begun_ms);
        let has_ended = || self.open.get().is_some_and(Open::has_ended);
        if age_ms >= self.kind.life_ms || (self.kind.is_kept && has_ended()) {
            return Err(EngineError::Expired);
        }
        self.open
            .get_or_try_init(|| async {
                let lease = self.store.pool.get(Use::View, deadline).await?;
                Ok(Open::begin(lease, self.kind.begin))
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
    fn begin(lease: Lease, begin: &'static str) -> Self {
        let client = lease.client.clone();
        let begun = async move { client.batch_execute(begin).await.is_ok() }.boxed().shared();
        // The first poll sends it, before any other statement of the view.
        let _ = begun.clone().now_or_never();
        let (unanswered, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { lease: Some(lease), begun, unanswered, has_failed }
    }

    fn has_ended(&self) -> bool {
        let is_closed = |lease: &Lease| lease.client.is_closed();
        self.has_failed.load(Ordering::Relaxed) || self.lease.as_ref().is_some_and(is_closed)
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
        let found = statement.await.map_err(|fault| {
            self.has_failed.store(true, Ordering::Relaxed);
            fault.into_engine_error()
        })?;
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
        if self.begun.clone().await {
            return Ok(found);
        }
        self.has_failed.store(true, Ordering::Relaxed);
        Err(EngineError::Unavailable("the snapshot could not be opened".into()))
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
