//! Views: one REPEATABLE READ transaction each, opened at the first read (K-7.14).
//!
//! A view shows what its transaction shows, and nothing brings that back once the connection is lost. Until
//! it has shown something it may begin again on another connection: a later snapshot is as good (K-3.5).
//!
//! A view that is kept between requests lives longer, and ends when its transaction does.

use crate::Store;
use crate::fault::Fault;
use crate::patience::Patience;
use crate::pool::{Lease, Use};
use crate::read::read;
use crate::scan;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture as Sending, Shared};
use lazuli_engine::meter::{Retry, TimedCall};
use lazuli_engine::{BoxFuture, EngineError, Found, Key, Scan, ScanEnd, View, Visitor};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// How long a view lives, and the statement that begins its transaction. The database ends a
/// transaction that is idle for longer than that.
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
    /// Held by the reader that begins a transaction. The others need the state meanwhile, to part from the one
    /// that was lost: its connection may be what this one waits for.
    beginning: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Option<Arc<Open>>,
    /// It has shown something: another transaction would show something else.
    has_answered: bool,
    has_begun_again: bool,
    /// A statement failed, and with it the transaction.
    has_failed: bool,
}

/// The transaction of a view.
pub(crate) struct Open {
    lease: Option<Lease>,
    /// Whether the transaction has begun. The first statements are sent along with it, and their answers
    /// count only if it has.
    begun: Shared<Sending<'static, bool>>,
    unanswered: AtomicUsize,
}

impl PostgresView {
    pub(crate) fn new(store: Arc<Store>, kind: &'static Kind) -> Self {
        let begun_ms = store.options.pace.now_ms();
        Self {
            store,
            kind,
            begun_ms,
            beginning: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// The transaction, begun if this is the first read, and by when it must have answered: early enough
    /// for another one if that may follow.
    pub(crate) async fn open(
        &self,
        patience: Patience,
    ) -> Result<(Arc<Open>, Instant), EngineError> {
        let _beginning = self.beginning.lock().await;
        let age_ms = self.store.options.pace.now_ms().saturating_sub(self.begun_ms);
        if age_ms >= self.kind.life_ms || (self.kind.is_kept && self.state().has_ended()) {
            return Err(EngineError::Expired);
        }
        let begun = self.state().open.clone();
        let open = match begun {
            Some(open) => open,
            None => {
                let lease = self.store.pool.get(Use::View, patience.deadline()).await?;
                let open = Arc::new(Open::begin(lease, self.kind.begin));
                self.state().open.insert(open).clone()
            }
        };
        let state = self.state();
        let is_last = state.has_answered || state.has_begun_again;
        Ok((open, if is_last { patience.deadline() } else { patience.first_of_late() }))
    }

    /// No code under the lock can panic halfway.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a statement, if it was in the transaction. `None`: the connection was lost before the
    /// view had shown anything, so the statement is to be sent again in another transaction.
    pub(crate) async fn ask<T>(
        &self,
        open: &Arc<Open>,
        statement: impl Future<Output = Result<T, Fault>>,
        deadline: Instant,
    ) -> Result<Option<T>, EngineError> {
        let answer = open.ask(statement).await;
        let mut state = self.state();
        // Another reader of the view may have been the first to notice the loss.
        let is_current = state.open.as_ref().is_some_and(|current| Arc::ptr_eq(current, open));
        match answer {
            Ok(found) if is_current => {
                state.has_answered = true;
                return Ok(Some(found));
            }
            Ok(_) => {}
            Err(fault) => {
                let begins_again = fault.is_of_the_connection()
                    && Instant::now() < deadline
                    && !(is_current && state.has_answered);
                if !begins_again {
                    state.has_failed |= is_current;
                    return Err(fault.into_engine_error());
                }
            }
        }
        if is_current {
            state.open = None;
            state.has_begun_again = true;
            self.store.meter.retried(Retry::Store);
        }
        Ok(None)
    }

    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Found>>, EngineError> {
        let patience = self.store.patience();
        loop {
            let (open, until) = self.open(patience).await?;
            if keys.is_empty() {
                return Ok(Vec::new());
            }
            let found = read(open.lease()?, keys, until);
            if let Some(found) = self.ask(&open, found, patience.deadline()).await? {
                return Ok(found);
            }
        }
    }
}

impl State {
    fn has_ended(&self) -> bool {
        let is_closed = || self.open.as_ref().is_some_and(|open| open.is_closed());
        self.has_failed || (self.has_answered && is_closed())
    }
}

impl Open {
    /// Sends the `begin` of the transaction without waiting for its answer.
    fn begin(lease: Lease, begin: &'static str) -> Self {
        let client = lease.client.clone();
        let begun = async move { client.batch_execute(begin).await.is_ok() }.boxed().shared();
        // The first poll sends it, before any other statement of the view.
        let _ = begun.clone().now_or_never();
        Self { lease: Some(lease), begun, unanswered: AtomicUsize::new(0) }
    }

    fn is_closed(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.client.is_closed())
    }

    pub(crate) fn lease(&self) -> Result<&Lease, EngineError> {
        self.lease.as_ref().ok_or_else(crate::closed)
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
    /// Ends the transaction without waiting, and gives the connection back. If a reader was cancelled or
    /// failed, the connection is closed instead: the next user would wait for leftovers.
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
