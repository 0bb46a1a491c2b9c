//! One connection: how it is set up, its prepared statements, and what identifies it (K-7.17).

use crate::PostgresOptions;
use crate::fault::Fault;
use crate::statement::{Statement, clock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, SimpleQueryMessage};

/// Every statement finds its rows by the primary key. Without these settings, a plan made while the table
/// was small would be kept after it has grown.
const SET_UP: &str = concat!(
    "set synchronous_commit = on; set default_transaction_isolation = 'read committed'; \
     set statement_timeout = '10s'; set lock_timeout = '10s'; \
     set idle_in_transaction_session_timeout = '65s'; \
     set plan_cache_mode = force_generic_plan; set jit = off; set enable_seqscan = off; \
     set enable_hashjoin = off; set enable_mergejoin = off; set enable_bitmapscan = off; \
     select pid, (extract(epoch from backend_start) * 1000000)::bigint, ",
    clock!(),
    " from pg_stat_activity where pid = pg_backend_pid()"
);

pub(crate) type Parameters<'p> = &'p [&'p (dyn ToSql + Sync)];

/// A connection to the primary.
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    prepared: [OnceCell<tokio_postgres::Statement>; Statement::COUNT],
    pub(crate) backend: Backend,
    /// The database's clock, as of the last answer on any connection.
    clock: Arc<AtomicI64>,
    /// Whether an answer failed to come in time.
    is_silent: AtomicBool,
}

/// The server process of a session. The time distinguishes two processes with one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    pub(crate) pid: i32,
    pub(crate) started_us: i64,
}

impl Session {
    pub(crate) async fn connect(
        options: &PostgresOptions,
        clock: Arc<AtomicI64>,
        deadline: Instant,
    ) -> Result<Self, Fault> {
        let address = &options.address;
        let connect = address.config().connect(address.tls());
        let (client, connection) = timeout_at(deadline, connect).await.map_err(late)??;
        // It ends when the client is dropped, or the connection is cut.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        let told = timeout_at(deadline, client.simple_query(SET_UP)).await.map_err(late)??;
        let row = told.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let number = |at| row.and_then(|row| row.get(at)).and_then(|text| text.parse::<i64>().ok());
        let (Some(pid), Some(started_us), Some(now)) = (number(0), number(1), number(2)) else {
            return Err(Fault::Failed("the database does not show our own session".into()));
        };
        let pid = i32::try_from(pid).map_err(|error| Fault::Failed(error.into()))?;
        clock.store(now, Ordering::Relaxed);
        Ok(Self {
            client: Arc::new(client),
            prepared: [const { OnceCell::const_new() }; Statement::COUNT],
            backend: Backend { pid, started_us },
            clock,
            is_silent: AtomicBool::new(false),
        })
    }

    /// The rows of a statement, prepared at its first use.
    pub(crate) async fn query(
        &self,
        statement: Statement,
        parameters: Parameters<'_>,
        deadline: Instant,
    ) -> Result<Vec<Row>, Fault> {
        let prepared = self.prepared(statement, deadline).await?;
        let rows = self.client.query(prepared, parameters);
        Ok(self.in_time(deadline, rows).await??)
    }

    async fn in_time<T>(
        &self,
        deadline: Instant,
        answer: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        timeout_at(deadline, answer).await.map_err(|elapsed| {
            self.is_silent.store(true, Ordering::Relaxed);
            late(elapsed)
        })
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    pub(crate) async fn prepared(
        &self,
        statement: Statement,
        deadline: Instant,
    ) -> Result<&tokio_postgres::Statement, Fault> {
        let Some(cell) = self.prepared.get(statement as usize) else {
            unreachable!("one cell per statement");
        };
        let prepared = cell.get_or_try_init(|| self.client.prepare(statement.text()));
        let prepared = self.in_time(deadline, prepared).await;
        prepared.and_then(|prepared| Ok(prepared?)).map_err(Fault::before_sending)
    }

    pub(crate) fn clock(&self) -> i64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(crate) fn heard_clock(&self, clock: i64) {
        self.clock.store(clock, Ordering::Relaxed);
    }
}

pub(crate) fn late(_: tokio::time::error::Elapsed) -> Fault {
    Fault::lost("the database did not answer in time")
}
