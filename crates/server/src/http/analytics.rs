//! Counts finished requests for the accounts that enable analytics (9.7).
//!
//! A request is counted in memory when its response is ready, under one of several locks with
//! little contention. A background task takes the counts once a minute and stores them. So no
//! request waits for analytics, and a crash loses a minute of counts.

use crate::auth::accounts::Account;
use crate::http::reply::Reply;
use crate::http::respond::ResponseContext;
use crate::request_id::RequestId;
use http::HeaderMap;
use http::request::Parts;
use http::{Response, header};
use http_body::Body;
use lazuli_model::metrics::{Access, MetricsRow, Observed, Outcome};
use lazuli_model::{AccountName, Interval, Location, ServiceProperties, Timestamp};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::uri::Query;
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of locks; requests are spread by the last digit of their ids.
const SHARDS: usize = 16;
/// Maximum cells of one shard. A minute needs a few dozen per account; if nothing drains them,
/// counts are dropped instead of using unbounded memory.
const CELLS_MAX: usize = 64 * 1024;

/// Counted requests that are not stored yet.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    shards: [Mutex<BTreeMap<Cell, MetricsRow>>; SHARDS],
}

/// The key under which requests are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) account: AccountName,
    pub(crate) minute: Timestamp,
    pub(crate) location: Location,
    /// The name of the operation; `None` for requests that failed before it was known.
    pub(crate) operation: Option<&'static str>,
}

/// A finished request.
pub(crate) struct Answered {
    id: RequestId,
    account: Arc<Account>,
    location: Location,
    operation: Option<&'static str>,
    began: Timestamp,
    received: Timestamp,
    failure: Option<ErrorCode>,
}

impl Answered {
    /// `None` if the request named no account.
    pub(crate) fn new(context: &ResponseContext, reply: &Reply) -> Option<Self> {
        let (account, location) = context.target.clone()?;
        Some(Self {
            id: context.id,
            account,
            location,
            operation: context.operation.map(|facts| facts.name),
            began: context.now,
            received: context.received.unwrap_or(context.now),
            failure: reply.failure.map(|failure| failure.code),
        })
    }
}

impl Counts {
    /// Counts a request whose response is ready.
    pub(crate) fn count<B: Body>(
        &self,
        answered: &Answered,
        parts: &Parts,
        sent: &Response<B>,
        now: Timestamp,
    ) {
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
            operation: answered.operation,
        };
        let digit = answered.id.as_str().bytes().last().and_then(|b| char::from(b).to_digit(16));
        let shard = self.shards.get(digit.unwrap_or_default() as usize % SHARDS);
        let Some(shard) = shard else { return };
        let mut cells = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if cells.len() < CELLS_MAX || cells.contains_key(&cell) {
            cells.entry(cell).or_default().count(&observed);
        }
    }

    /// Takes the counts before `end`, by account.
    pub(crate) fn drain(&self, end: Timestamp) -> BTreeMap<AccountName, Vec<(Cell, MetricsRow)>> {
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
            // Requests of the new minute are counted in the meantime.
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

/// The outcome of a request in analytics (T-9.38).
fn outcome(failure: Option<ErrorCode>, parts: &Parts) -> Outcome {
    let Some(code) = failure else { return Outcome::Success };
    match (code, code.status()) {
        (ErrorCode::ServerBusy, _) => Outcome::ThrottlingError,
        // The client itself set a timeout that was too short.
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

/// The kind of credential that the request presents, even if it was refused.
fn access(parts: &Parts) -> Access {
    if parts.headers.contains_key(header::AUTHORIZATION) {
        return Access::Authenticated;
    }
    match parts.uri.query() {
        Some(query) if query.split('&').any(|pair| pair.starts_with("sig=")) => Access::Sas,
        _ => Access::Anonymous,
    }
}

/// The size of the headers on the wire.
fn head_bytes(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len() + 4) as u64).sum()
}

fn body_bytes(headers: &HeaderMap) -> u64 {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|text| text.parse().ok()).unwrap_or_default()
}
