//! The connections: bounded, kept open, and never checked before use (K-7.16).

use crate::PostgresOptions;
use crate::fault::{Fault, chain};
use crate::meter::ConnectionMeter;
use crate::session::Session;
use lazuli_engine::EngineError;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

/// Pause between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The connections of one engine.
pub(crate) struct Pool {
    options: Arc<PostgresOptions>,
    meter: Arc<ConnectionMeter>,
    idle: Mutex<Vec<Session>>,
    clock: Arc<AtomicI64>,
    all: Arc<Semaphore>,
    /// Views hold a connection for a whole query, so a quarter of the connections is kept free of them.
    for_views: Arc<Semaphore>,
}

/// What a connection is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    OneStatement,
    View,
}

/// A connection in use. One that is dropped is closed, because its user may have been cancelled halfway.
/// Use [`Lease::give_back`] when nothing is outstanding on it.
pub(crate) struct Lease {
    session: Option<Session>,
    pool: Arc<Pool>,
    _permits: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

/// How many of the connections views may occupy.
pub(crate) fn for_views(connections: NonZeroU32) -> usize {
    let connections = connections.get() as usize;
    (connections - connections / 4).max(1)
}

impl Pool {
    pub(crate) fn new(options: Arc<PostgresOptions>, meter: Arc<ConnectionMeter>) -> Self {
        let connections = options.connections.get() as usize;
        let for_views = for_views(options.connections);
        Self {
            options,
            meter,
            idle: Mutex::default(),
            clock: Arc::default(),
            all: Arc::new(Semaphore::new(connections)),
            for_views: Arc::new(Semaphore::new(for_views)),
        }
    }

    /// An idle connection, or a new one. Tries until the deadline.
    pub(crate) async fn get(
        self: &Arc<Self>,
        wanted_for: Use,
        deadline: Instant,
    ) -> Result<Lease, EngineError> {
        let began = Instant::now();
        let view = match wanted_for {
            Use::View => Some(permit(&self.for_views, deadline).await?),
            Use::OneStatement => None,
        };
        let one = permit(&self.all, deadline).await?;
        self.meter.waited(began.elapsed());
        let session = self.session(deadline).await?;
        Ok(Lease { session: Some(session), pool: self.clone(), _permits: (one, view) })
    }

    async fn session(&self, deadline: Instant) -> Result<Session, EngineError> {
        loop {
            // Where the database accepts no further connection, others give back theirs meanwhile.
            if let Some(session) = self.idle_session() {
                return Ok(session);
            }
            match Session::connect(&self.options, self.clock.clone(), deadline).await {
                Ok(session) => return Ok(session),
                Err(Fault::Failed(reason)) => {
                    return Err(EngineError::Unavailable(chain(&*reason)));
                }
                Err(fault) if Instant::now() + CONNECT_PAUSE >= deadline => {
                    return Err(fault.into_engine_error());
                }
                Err(_) => sleep(CONNECT_PAUSE).await,
            }
        }
    }

    fn idle_session(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(session) = idle.pop() {
            if !session.client.is_closed() {
                return Some(session);
            }
        }
        None
    }

    /// Closes all idle connections. If one fell silent, the others may have too, and each would cost
    /// some caller a wait to find out.
    fn distrust_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Notes the database's clock from an answer.
    pub(crate) fn heard_clock(&self, clock: i64) {
        self.clock.store(clock, Ordering::Relaxed);
    }

    /// Closes all idle connections and hands out no more.
    pub(crate) fn close(&self) {
        self.all.close();
        self.distrust_idle();
    }
}

async fn permit(
    semaphore: &Arc<Semaphore>,
    deadline: Instant,
) -> Result<OwnedSemaphorePermit, EngineError> {
    match timeout_at(deadline, semaphore.clone().acquire_owned()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) => Err(crate::closed()),
        Err(_) => {
            Err(EngineError::Unavailable("every connection to the database is in use".into()))
        }
    }
}

impl Lease {
    /// Returns the connection to the pool. Nothing sent on it may be unanswered, except the end of a read-only
    /// transaction.
    pub(crate) fn give_back(mut self) {
        let Some(session) = self.session.take() else { return };
        if !session.client.is_closed() && !self.pool.all.is_closed() {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.session.as_ref().is_some_and(Session::is_silent) {
            self.pool.distrust_idle();
        }
    }
}

impl Deref for Lease {
    type Target = Session;

    fn deref(&self) -> &Session {
        match &self.session {
            Some(session) => session,
            None => unreachable!("only give_back takes it, and ends the lease"),
        }
    }
}
