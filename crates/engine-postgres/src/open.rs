//! Start-up: connects, checks the database, and creates or recognizes the tables (K-8.2, K-8.3).

use crate::expected::{number, revision};
use crate::fault::{Fault, chain};
use crate::session::Session;
use crate::statement::{clock, now};
use crate::stored::INDEXED_BYTES;
use crate::tls::TlsFault;
use crate::{PostgresEngine, PostgresOptions};
use lazuli_engine::{BoxError, Revision};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::error::SqlState;

/// The format of the tables. Raise it when older gateways must no longer use them.
pub const FORMAT_VERSION: u32 = 1;

/// The oldest server version that supports the statements.
const VERSION_MIN: u32 = 130_000;

/// How long to try to connect at start-up.
const CONNECT_MAX: Duration = Duration::from_secs(30);
const CONNECT_PAUSE: Duration = Duration::from_secs(1);

/// A larger clock difference is warned about: signatures and expiry use our clock.
const SKEW_WARNED: Duration = Duration::from_secs(5);
/// At this difference signatures are refused, so nothing would work (K-8.5).
const SKEW_MAX: Duration = Duration::from_secs(15 * 60);

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("no connection to {address}: {reason}")]
    Unreachable { address: String, reason: String },
    #[error("no TLS connection to {address}: {fault}")]
    Tls { address: String, fault: TlsFault },
    #[error("{address} is PostgreSQL {version}; the oldest supported version is 13")]
    TooOld { address: String, version: String },
    #[error("{address} can lose acknowledged writes: its setting {setting} is off")]
    Unsafe { address: String, setting: &'static str },
    #[error("{address} has a table {table} that was not created by lazuli")]
    NotLazuli { address: String, table: &'static str },
    #[error("there is no schema {schema} at {address}, and this user cannot create it: {reason}")]
    NoSchema { address: String, schema: String, reason: String },
    #[error("{address} holds no data of lazuli")]
    Empty { address: String },
    #[error("{address} has tables of lazuli, but no {missing}")]
    Incomplete { address: String, missing: &'static str },
    #[error("at {address} this user has no right to {right} {table}")]
    NoRight { address: String, right: String, table: String },
    #[error(
        "{address} holds data of format {found}; this version of lazuli knows up to {FORMAT_VERSION}"
    )]
    NewerFormat { address: String, found: String },
    #[error("the clock of {address} differs from ours by {seconds} s")]
    ClockDiffers { address: String, seconds: u64 },
    #[error("cannot prepare {address}: {reason}")]
    Failed { address: String, reason: String },
}

impl OpenError {
    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => {
                "check that the database runs and accepts this user, and that the address is right"
            }
            Self::Tls { fault, .. } => fault.hint(),
            Self::TooOld { .. } => "upgrade the database, or use another one",
            Self::Unsafe { .. } => {
                "turn the setting on; lazuli serve --unsafe-store accepts the loss, for tests alone"
            }
            Self::NotLazuli { .. } => {
                "use a database or a schema of its own: postgres://user@host/database?schema=lazuli"
            }
            Self::NoSchema { .. } => {
                "as the owner of the database: create schema NAME authorization USER"
            }
            Self::Empty { .. } => {
                "check the database and the schema of the address; lazuli serve --engine creates the tables"
            }
            Self::Incomplete { .. } => {
                "restore the whole backup: a dump of single tables leaves out what belongs to them"
            }
            Self::NoRight { .. } => {
                "as the owner of the tables: grant select, insert, update, delete on lazuli_kv, lazuli_gone, \
                 lazuli_meta to this user; grant execute on function lazuli_commit to it"
            }
            Self::NewerFormat { .. } => "use the newer lazuli version that wrote it",
            Self::ClockDiffers { .. } => "set both clocks, for example with NTP",
            Self::Failed { .. } => {
                "the user must be allowed to create tables (grant create on schema public to it), or to use \
                 those that are there"
            }
        }
    }
}

/// What the operator should know about a usable database.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Identifies the store; the same for every gateway.
    pub cluster: String,
    /// The server's version, such as `15.18`.
    pub version: String,
    /// Whether a commit waits for a standby. If not, losing the primary may lose acknowledged writes.
    pub has_synchronous_standby: bool,
    /// The time by the database's clock, which stamps the revisions.
    pub clock: Revision,
}

impl PostgresEngine {
    /// Opens the store, creating its tables in an empty database if the options say so. `now` is our clock,
    /// in ticks.
    pub async fn open(
        options: PostgresOptions,
        now: impl Fn() -> Revision,
    ) -> Result<(Self, Opened), OpenError> {
        let engine = Self::new(options);
        let options = &engine.store.options;
        let address = options.address.to_string();
        let session = connect(options, &address).await?;
        let opened = check(&session, options, &address, &now).await?;
        let cluster = match options.creates {
            true => create_or_recognize(&session, options.address.schema(), &address).await?,
            false => recognize(&session, &address).await?,
        };
        check_rights(&session, options.creates, &address).await?;
        Ok((engine, Opened { cluster, ..opened }))
    }
}

async fn connect(options: &PostgresOptions, address: &str) -> Result<Session, OpenError> {
    let deadline = Instant::now() + options.connect_max.unwrap_or(CONNECT_MAX);
    loop {
        let attempt = Instant::now() + options.wait_max;
        let reason = match Session::connect(options, Arc::default(), attempt.min(deadline)).await {
            Ok(session) => return Ok(session),
            Err(Fault::Lost(reason) | Fault::Unsent(reason) | Fault::Failed(reason)) => reason,
            Err(Fault::Conflict | Fault::Slow) => "the database is too slow".into(),
        };
        if let Some(fault) = TlsFault::among(&*reason) {
            return Err(OpenError::Tls { address: address.to_owned(), fault });
        }
        let text = chain(&*reason);
        if is_final(&reason) || Instant::now() + CONNECT_PAUSE >= deadline {
            return Err(OpenError::Unreachable { address: address.to_owned(), reason: text });
        }
        tracing::warn!(address, reason = text, "no connection to the database yet");
        sleep(CONNECT_PAUSE).await;
    }
}

/// A wrong password or database name will not fix itself.
fn is_final(reason: &BoxError) -> bool {
    let code = reason.downcast_ref::<tokio_postgres::Error>().and_then(|error| error.code());
    code.is_some_and(|code| {
        [
            SqlState::INVALID_PASSWORD,
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            SqlState::INVALID_CATALOG_NAME,
            SqlState::INSUFFICIENT_PRIVILEGE,
        ]
        .contains(code)
    })
}

async fn check(
    session: &Session,
    options: &PostgresOptions,
    address: &str,
    now: &impl Fn() -> Revision,
) -> Result<Opened, OpenError> {
    let before = now();
    let settings = concat!(
        "select current_setting('server_version_num')::int, current_setting('server_version'), \
         current_setting('fsync'), current_setting('full_page_writes'), \
         current_setting('synchronous_standby_names'), ",
        clock!()
    );
    let row = session.client.query_one(settings, &[]).await.map_err(|e| failed(address, &e))?;
    let (number_of_version, version): (i32, String) = (row.get(0), row.get(1));
    let address = || address.to_owned();
    if u32::try_from(number_of_version).unwrap_or(0) < VERSION_MIN {
        return Err(OpenError::TooOld { address: address(), version });
    }
    for (column, setting) in [(2, "fsync"), (3, "full_page_writes")] {
        if row.get::<_, &str>(column) != "on" && !options.accept_unsafe {
            return Err(OpenError::Unsafe { address: address(), setting });
        }
    }
    let skew = skew(row.get(5), before, now());
    if skew > SKEW_MAX {
        return Err(OpenError::ClockDiffers { address: address(), seconds: skew.as_secs() });
    }
    if skew > SKEW_WARNED {
        tracing::warn!(seconds = skew.as_secs(), "the clock of the database differs from ours");
    }
    let has_synchronous_standby = !row.get::<_, &str>(4).is_empty();
    let clock = revision(row.get(5));
    Ok(Opened { cluster: String::new(), version, has_synchronous_standby, clock })
}

/// The difference between the database's clock and ours, which was read before and after.
fn skew(theirs: i64, before: Revision, after: Revision) -> Duration {
    const TICKS_PER_MS: u64 = 10_000;
    let (before, after) = (number(before), number(after));
    let ticks = before.saturating_sub(theirs).max(theirs.saturating_sub(after)).max(0);
    Duration::from_millis(ticks.unsigned_abs() / TICKS_PER_MS)
}

/// The id of the store, whose tables are created if there are none.
async fn create_or_recognize(
    session: &Session,
    schema: Option<&str>,
    address: &str,
) -> Result<String, OpenError> {
    let client = &session.client;
    let failed = |error: tokio_postgres::Error| failed(address, &error);
    // Gateways that start together create the tables one after the other.
    client.batch_execute("begin; select pg_advisory_xact_lock(7804136)").await.map_err(failed)?;
    if let Some(schema) = schema {
        // `create schema if not exists` needs the right to create schemas, even if the schema exists.
        let there = "select to_regnamespace($1) is not null";
        let there = client.query_one(there, &[&schema]).await.map_err(failed)?;
        if !there.get::<_, bool>(0) {
            let create = client.batch_execute(&format!("create schema {schema}")).await;
            create.map_err(|error| OpenError::NoSchema {
                address: address.to_owned(),
                schema: schema.to_owned(),
                reason: chain(&error),
            })?;
        }
    }
    if !is_created(session, address).await? {
        client.batch_execute(&creation()).await.map_err(failed)?;
    }
    let cluster = check_format(session, address).await?;
    client.batch_execute("commit").await.map_err(failed)?;
    Ok(cluster)
}

/// The id of the store. Only reads.
async fn recognize(session: &Session, address: &str) -> Result<String, OpenError> {
    match is_created(session, address).await? {
        true => check_format(session, address).await,
        false => Err(OpenError::Empty { address: address.to_owned() }),
    }
}

/// Whether the store exists completely; an error if only part of it does.
async fn is_created(session: &Session, address: &str) -> Result<bool, OpenError> {
    const PARTS: [&str; 4] =
        ["table lazuli_meta", "table lazuli_kv", "table lazuli_gone", "function lazuli_commit"];
    let there = "select to_regclass('lazuli_meta') is not null, to_regclass('lazuli_kv') is not null, \
                 to_regclass('lazuli_gone') is not null, to_regproc('lazuli_commit') is not null";
    let row = session.client.query_one(there, &[]).await.map_err(|e| failed(address, &e))?;
    match (row.get(0), row.get(1), row.get(2)) {
        (false, false, false) => return Ok(false),
        (false, true, _) => return Err(not_lazuli(address, "lazuli_kv")),
        (false, false, true) => return Err(not_lazuli(address, "lazuli_gone")),
        (true, ..) => {}
    }
    // A foreign table of this name is reported before anything is found missing.
    check_format(session, address).await?;
    let missing = PARTS.iter().enumerate().find(|(part, _)| !row.get::<_, bool>(*part));
    match missing {
        None => Ok(true),
        Some((_, missing)) => Err(OpenError::Incomplete { address: address.to_owned(), missing }),
    }
}

/// The id of the store, if this version knows its format.
async fn check_format(session: &Session, address: &str) -> Result<String, OpenError> {
    let record = "select name, value from lazuli_meta where name in ('format', 'cluster')";
    let rows = session.client.query(record, &[]).await;
    let rows = rows.map_err(|error| match error.code() {
        Some(&SqlState::UNDEFINED_COLUMN) => not_lazuli(address, "lazuli_meta"),
        _ => failed(address, &error),
    })?;
    let value = |name: &str| {
        let row = rows.iter().find(|row| row.try_get::<_, &str>(0).is_ok_and(|at| at == name));
        row.and_then(|row| row.try_get::<_, String>(1).ok())
    };
    let (Some(found), Some(cluster)) = (value("format"), value("cluster")) else {
        return Err(not_lazuli(address, "lazuli_meta"));
    };
    match found.parse::<u32>() {
        Ok(format) if format <= FORMAT_VERSION => Ok(cluster),
        _ => Err(OpenError::NewerFormat { address: address.to_owned(), found }),
    }
}

/// Fails if the user lacks a right that only some later operation would miss: a gateway that can only read would
/// answer every write with an error. Whoever only looks needs no more than to read.
async fn check_rights(session: &Session, writes: bool, address: &str) -> Result<(), OpenError> {
    let missing = "select * from (select p, t \
                   from (values ('lazuli_kv'), ('lazuli_gone'), ('lazuli_meta')) tables (t), \
                   (values ('select'), ('insert'), ('update'), ('delete')) rights (p) \
                   where not has_table_privilege(t, p) \
                   and (p = 'select' and t = 'lazuli_kv' or $1 and (p, t) not in \
                   (('insert', 'lazuli_meta'), ('delete', 'lazuli_meta'))) \
                   union all select 'execute', 'lazuli_commit' \
                   where $1 and not has_function_privilege(to_regproc('lazuli_commit'), 'execute')) missing";
    let rows = session.client.query(missing, &[&writes]).await.map_err(|e| failed(address, &e))?;
    match rows.first() {
        None => Ok(()),
        Some(row) => {
            let (right, table) = (row.get(0), row.get(1));
            Err(OpenError::NoRight { address: address.to_owned(), right, table })
        }
    }
}

/// Tables, function and format record, as one text.
fn creation() -> String {
    let function = include_str!("commit_function.sql")
        .replace("@clock@", clock!())
        .replace("@now@", now!())
        .replace("@indexed@", &INDEXED_BYTES.to_string());
    let created_by = concat!("lazuli ", env!("CARGO_PKG_VERSION"));
    format!(
        "{}{function}insert into lazuli_meta values ('format', '{FORMAT_VERSION}'), \
         ('cluster', gen_random_uuid()::text), ('created-by', '{created_by}'), \
         ('floor', '0'), ('floor-raised', '0');",
        include_str!("schema.sql")
    )
}

fn not_lazuli(address: &str, table: &'static str) -> OpenError {
    OpenError::NotLazuli { address: address.to_owned(), table }
}

fn failed(address: &str, error: &tokio_postgres::Error) -> OpenError {
    OpenError::Failed { address: address.to_owned(), reason: chain(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K-8.5
    #[test]
    fn the_clocks_differ_by_what_the_round_trip_does_not_explain() {
        let skew = |theirs| super::skew(theirs, Revision(1_000_000_000), Revision(1_000_100_000));
        assert_eq!(skew(1_000_050_000), Duration::ZERO);
        assert_eq!(skew(1_000_200_000), Duration::from_millis(10));
        assert_eq!(skew(999_000_000), Duration::from_millis(100));
        assert!(skew(0) > Duration::from_secs(99));
    }
}
