//! Counts requests for the accounts that want it, and writes the counts into their analytics tables
//! (9.7).
//!
//! A request is counted when it is answered, in memory, under one of a few locks that hardly ever
//! meet; what was counted in a minute is added to the tables after that minute, by whoever calls
//! [`Analytics::flush`]. So no request waits for analytics, and a crash loses a minute of counts.

use crate::auth::accounts::{Account, Accounts};
use crate::http::reply::Reply;
use crate::http::request_id::RequestId;
use crate::http::respond::Heading;
use crate::table::properties::PropertiesCache;
use http::HeaderMap;
use http::request::Parts;
use http::{Response, header};
use http_body::Body;
use lazuli_model::service_properties::Metrics;
use lazuli_model::{
    AccountName, Clock, Interval, Location, ServiceProperties, TableName, Timestamp,
};
use lazuli_table::{Access, MetricsRow, MetricsRows, Observed, Outcome, TableError, TableService};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::uri::Query;
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

const LOCATIONS: [Location; 2] = [Location::Primary, Location::Secondary];
/// Requests are spread over as many locks, by the last digit of their ids.
const SHARDS: usize = 16;
/// Cells of one shard. A minute needs a few dozen for each account; more means that nobody flushes,
/// and then counts are lost rather than memory.
const CELLS_MAX: usize = 64 * 1024;
const SECONDS_PER_DAY: u64 = 24 * 3600;

/// Which counts a flush writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those of the minutes that are over.
    Complete,
    /// All: the server stops.
    All,
}

/// The requests counted and not yet written.
pub struct Analytics {
    service: TableService,
    accounts: Arc<Accounts>,
    properties: Arc<PropertiesCache>,
    clock: Arc<dyn Clock>,
    shards: [Mutex<BTreeMap<Cell, MetricsRow>>; SHARDS],
    /// Held by the one flush that runs.
    flushing: tokio::sync::Mutex<()>,
}

/// What requests are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    account: AccountName,
    minute: Timestamp,
    location: Location,
    /// The name of the operation; requests that failed before it was known have none.
    api: Option<&'static str>,
}

/// A request as the front knows it when it is answered.
pub(crate) struct Answered {
    id: RequestId,
    account: Arc<Account>,
    location: Location,
    api: Option<&'static str>,
    began: Timestamp,
    received: Timestamp,
    failure: Option<ErrorCode>,
}

impl Answered {
    /// `None` when the request named no account.
    pub(crate) fn new(heading: &Heading, reply: &Reply) -> Option<Self> {
        let (account, location) = heading.target.clone()?;
        Some(Self {
            id: heading.id,
            account,
            location,
            api: heading.operation,
            began: heading.now,
            received: heading.received.unwrap_or(heading.now),
            failure: reply.failure,
        })
    }
}

impl Analytics {
    pub(crate) fn new(
        service: TableService,
        accounts: Arc<Accounts>,
        properties: Arc<PropertiesCache>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (shards, flushing) = Default::default();
        Self { service, accounts, properties, clock, shards, flushing }
    }

    /// Counts a request whose answer is ready.
    pub(crate) fn count<B: Body>(&self, answered: &Answered, parts: &Parts, sent: &Response<B>) {
        let now = self.clock.now();
        let since = |then: Timestamp| now.ticks().saturating_sub(then.ticks()) as f64 / 10_000.0;
        let observed = Observed {
            outcome: outcome(answered.failure, parts),
            access: access(parts),
            ingress_bytes: head_bytes(&parts.headers) + body_bytes(&parts.headers),
            egress_bytes: head_bytes(sent.headers()) + sent.body().size_hint().lower(),
            e2e_ms: since(answered.began),
            server_ms: since(answered.received),
        };
        let cell = Cell {
            account: answered.account.name.clone(),
            minute: Interval::Minute.start(now),
            location: answered.location,
            api: answered.api,
        };
        let digit = answered.id.as_str().bytes().last().and_then(|b| char::from(b).to_digit(16));
        let shard = self.shards.get(digit.unwrap_or_default() as usize % SHARDS);
        let Some(shard) = shard else { return };
        let mut cells = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if cells.len() < CELLS_MAX || cells.contains_key(&cell) {
            cells.entry(cell).or_default().count(&observed);
        }
    }

    /// Adds what was counted to the tables of the accounts that want it, and deletes there what is
    /// older than they want. What cannot be written is lost, and the log says so; so is what a flush
    /// took that is dropped before its end.
    pub async fn flush(&self, extent: Extent) {
        let _one_at_a_time = self.flushing.lock().await;
        let now = self.clock.now();
        let this_minute = Interval::Minute.start(now);
        let mut counted = self.drain(match extent {
            Extent::Complete => this_minute,
            Extent::All => Timestamp::MAX,
        });
        for account in self.accounts.all() {
            let cells = counted.remove(&account.name).unwrap_or_default();
            let Ok(properties) = self.properties.of(&self.service, &account.name).await else {
                continue;
            };
            for (interval, metrics) in intervals(&properties) {
                let flushed = self.write(&account.name, interval, metrics, &cells, now).await;
                if let Err(error) = flushed {
                    let account = account.name.as_str();
                    tracing::warn!(account, %error, "counts for analytics are lost");
                }
            }
        }
    }

    /// Makes the tables that `properties` ask for, so that they can be read from now on.
    pub(crate) async fn prepare(
        &self,
        account: &AccountName,
        properties: &ServiceProperties,
    ) -> Result<(), TableError> {
        for (interval, _) in intervals(properties) {
            for location in LOCATIONS {
                let table = TableName::of_metrics(interval, location);
                self.service.create_metrics_table(account, &table).await?;
            }
        }
        Ok(())
    }

    async fn write(
        &self,
        account: &AccountName,
        interval: Interval,
        metrics: &Metrics,
        cells: &[(Cell, MetricsRow)],
        now: Timestamp,
    ) -> Result<(), TableError> {
        let apis = metrics.include_apis == Some(true);
        for ((location, start), rows) in by_interval(interval, apis, cells, now) {
            let table = TableName::of_metrics(interval, location);
            self.service.add_metrics(account, &table, start, &rows).await?;
        }
        let Some(days) = metrics.retention.0 else { return Ok(()) };
        let age = u64::from(days) * SECONDS_PER_DAY;
        let cutoff = Timestamp::from_unix_seconds(now.unix_seconds().saturating_sub(age));
        for location in LOCATIONS {
            let table = TableName::of_metrics(interval, location);
            while self.service.expire_metrics(account, &table, cutoff).await? > 0 {}
        }
        Ok(())
    }

    /// Takes out what was counted before `end`, by account.
    fn drain(&self, end: Timestamp) -> BTreeMap<AccountName, Vec<(Cell, MetricsRow)>> {
        let mut drained: BTreeMap<AccountName, Vec<_>> = BTreeMap::new();
        for shard in &self.shards {
            let cells = {
                let mut cells = shard.lock().unwrap_or_else(PoisonError::into_inner);
                mem::take(&mut *cells)
            };
            let (over, rest): (Vec<_>, Vec<_>) =
                cells.into_iter().partition(|(cell, _)| cell.minute < end);
            for (cell, row) in over {
                drained.entry(cell.account.clone()).or_default().push((cell, row));
            }
            // Requests of the new minute went on counting meanwhile.
            let mut cells = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (cell, row) in rest {
                cells.entry(cell).or_default().add(&row);
            }
        }
        drained
    }
}

/// Whether requests are to be counted at all.
pub(crate) fn counts(properties: &ServiceProperties) -> bool {
    properties.hour_metrics.enabled || properties.minute_metrics.enabled
}

fn intervals(properties: &ServiceProperties) -> impl Iterator<Item = (Interval, &Metrics)> {
    let hour = (Interval::Hour, &properties.hour_metrics);
    let minute = (Interval::Minute, &properties.minute_metrics);
    [hour, minute].into_iter().filter(|(_, metrics)| metrics.enabled)
}

/// The rows of each interval and location: the sum of all operations, and each operation by itself
/// when that is wanted (T-9.45). The sums are there also when nothing was asked of the service.
fn by_interval(
    interval: Interval,
    apis: bool,
    cells: &[(Cell, MetricsRow)],
    now: Timestamp,
) -> BTreeMap<(Location, Timestamp), MetricsRows> {
    let sums = || {
        let zero = MetricsRow::default;
        MetricsRows::from([("user;All".to_owned(), zero()), ("system;All".to_owned(), zero())])
    };
    let minute_ago = Timestamp::from_unix_seconds(now.unix_seconds().saturating_sub(60));
    let mut intervals: BTreeMap<_, _> = LOCATIONS
        .into_iter()
        .map(|location| ((location, interval.start(minute_ago)), sums()))
        .collect();
    for (cell, row) in cells {
        let place = (cell.location, interval.start(cell.minute));
        let rows = intervals.entry(place).or_insert_with(sums);
        rows.entry("user;All".to_owned()).or_default().add(row);
        if let Some(api) = cell.api.filter(|_| apis) {
            rows.entry(format!("user;{api}")).or_default().add(row);
        }
    }
    intervals
}

/// How analytics call the outcome of a request (T-9.38).
fn outcome(failure: Option<ErrorCode>, parts: &Parts) -> Outcome {
    let Some(code) = failure else { return Outcome::Success };
    match (code, code.status()) {
        (ErrorCode::ServerBusy, _) => Outcome::ThrottlingError,
        // Who gave the service less time than it needs expected this.
        (ErrorCode::OperationTimedOut, _) if gives_time(parts) => Outcome::ClientTimeoutError,
        (ErrorCode::OperationTimedOut, _) => Outcome::ServerTimeoutError,
        (_, 401 | 403) => Outcome::AuthorizationError,
        (_, 500..) => Outcome::ServerOtherError,
        _ => Outcome::ClientOtherError,
    }
}

fn gives_time(parts: &Parts) -> bool {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    query.is_ok_and(|query| query.contains("timeout"))
}

/// The credential by the look of the request: one that was refused counts too.
fn access(parts: &Parts) -> Access {
    if parts.headers.contains_key(header::AUTHORIZATION) {
        return Access::Authenticated;
    }
    match parts.uri.query() {
        Some(query) if query.split('&').any(|pair| pair.starts_with("sig=")) => Access::Sas,
        _ => Access::Anonymous,
    }
}

/// What the headers take on the wire.
fn head_bytes(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len() + 4) as u64).sum()
}

fn body_bytes(headers: &HeaderMap) -> u64 {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|text| text.parse().ok()).unwrap_or_default()
}
