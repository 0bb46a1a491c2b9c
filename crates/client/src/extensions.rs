//! Calls that only a Lazuli server answers (X-8.1): plans, counts, deletion by filter, indexes, change feeds,
//! expiry, advice. Each requests extensions by the header `x-lazuli-extensions`.
//!
//! ```no_run
//! use lazuli_client::{FeedImages, Filter, ServerFeed, ServerIndex, ServerIndexState, ServerTtl};
//! use std::time::Duration;
//!
//! # async fn run(people: lazuli_client::Table) -> Result<(), lazuli_client::Error> {
//! // Plans, counts, deletion by filter.
//! let filter = Filter::extended("startswith(LastName, 'Jo') and Age in (34, 47)")?;
//! println!("{}", people.server_plan(Some(filter.clone())).await?);
//! println!("{}", people.server_run(Some(filter.clone())).await?);
//! println!("{} of {}", people.server_count(Some(filter.clone())).await?, people.server_count(None).await?);
//! println!("{} deleted", people.server_delete(filter).await?);
//!
//! // Indexes that the server keeps.
//! people.set_server_indexes([ServerIndex::new("email", ["Email"]).unique()]).await?;
//! for status in people.server_indexes().await? {
//!     match status.state {
//!         ServerIndexState::Ready => println!("{}: ready", status.index.name),
//!         _ => println!("{}: {} of {}", status.index.name, status.done, status.total),
//!     }
//! }
//! let mut from = None;
//! loop {
//!     let verified = people.verify_server_indexes(from.as_deref()).await?;
//!     for wrong in &verified.found {
//!         println!("{}: {} for {}/{}", wrong.index, wrong.kind, wrong.partition_key, wrong.row_key);
//!         people.rebuild_server_index(&wrong.index).await?;
//!     }
//!     from = verified.next;
//!     if from.is_none() { break }
//! }
//!
//! // Every change of the table, for a day.
//! people.set_server_feed(ServerFeed::new(FeedImages::Both, 24)).await?;
//! println!("complete from {}", people.server_feed().await?.complete_from);
//! let page = people.server_changes(None, Duration::from_secs(30)).await?;
//! for change in &page.changes {
//!     println!("{} {}/{}", change.operation, change.partition_key, change.row_key);
//!     let name = change.new.as_ref().and_then(|entity| entity.text("LastName"));
//! }
//! let after = people.server_changes(Some(&page.next), Duration::ZERO).await?;
//! people.drop_server_feed().await?;
//!
//! // Entities that expire a week after their last write.
//! people.set_server_ttl(ServerTtl::Seconds(7 * 86_400)).await?;
//! println!("{:?}", people.server_ttl().await?);
//! people.drop_server_ttl().await?;
//!
//! // What the server would change, from the traffic that it has seen.
//! for finding in people.tables().server_advice().await?.findings {
//!     println!("{} {}: {} ({})", finding.code, finding.table, finding.advice, finding.why.azure);
//! }
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "serde")]
mod advice;
#[cfg(feature = "serde")]
mod feed;
#[cfg(feature = "serde")]
mod indexes;
#[cfg(feature = "serde")]
mod json;
#[cfg(feature = "serde")]
mod settings;
#[cfg(feature = "serde")]
mod ttl;

#[cfg(feature = "serde")]
pub use advice::{ServerAdvice, ServerCost, ServerFinding};
#[cfg(feature = "serde")]
pub use feed::{FeedImages, ServerChange, ServerChanges, ServerFeed};
#[cfg(feature = "serde")]
pub use indexes::{
    IndexDisagreement, IndexVerification, ServerIndex, ServerIndexState, ServerIndexStatus,
};

#[cfg(feature = "serde")]
pub use json::ServerJson;
#[cfg(feature = "serde")]
pub use ttl::ServerTtl;

use crate::call::{Call, header};
use crate::entity::TableEntity;
use crate::error::Error;
use crate::filter::Filter;
use crate::options::{CallOptions, Request};
use crate::query::parameter;
use crate::table::Table;
use crate::tables;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode};

pub(crate) const EXTENSIONS: HeaderName = HeaderName::from_static("x-lazuli-extensions");
/// A transaction across partitions and tables.
pub(crate) const TRANSACTION: HeaderName = HeaderName::from_static("x-lazuli-transaction");
/// A snapshot of the account that several requests read.
pub(crate) const SNAPSHOT: HeaderName = HeaderName::from_static("x-lazuli-snapshot");
const EXPLAIN: HeaderName = HeaderName::from_static("x-lazuli-explain");
const PLAN: HeaderName = HeaderName::from_static("x-lazuli-plan");
const NEXT_PARTITION: HeaderName = HeaderName::from_static("x-ms-continuation-nextpartitionkey");
const NEXT_ROW: HeaderName = HeaderName::from_static("x-ms-continuation-nextrowkey");

/// With its plan, a query may return a page of any size.
const PAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

impl Filter {
    /// A filter in the server's larger language, with `startswith`, `in` and others.
    pub fn extended(text: &str) -> Result<Self, Error> {
        let parsed = lazuli_wire::odata::filter::parse_extended(text);
        parsed.map(Self::from).map_err(|error| Error::config(error.to_string()))
    }
}

impl<T: TableEntity> Table<T> {
    /// The server's plan for a query, as JSON. Reads no entity.
    pub fn server_plan(&self, filter: Option<Filter>) -> Request<String> {
        let table = self.clone();
        Request::new(move |options| async move {
            check(filter.as_ref())?;
            let call = table.extended("explain", Method::GET, "()", filter.as_ref(), "");
            let call = with(call, EXPLAIN, "plan", options);
            let answer = table.account.exchange(&call).await?;
            match answer.status {
                StatusCode::OK => String::from_utf8(answer.body.to_vec()).map_err(Error::protocol),
                _ => Err(answer.into_error("explain")),
            }
        })
    }

    /// Runs a query and returns the server's plan with the cost of its first page, as JSON.
    pub fn server_run(&self, filter: Option<Filter>) -> Request<String> {
        let table = self.clone();
        Request::new(move |options| async move {
            check(filter.as_ref())?;
            let call = table.extended("explain", Method::GET, "()", filter.as_ref(), "");
            let call = with(call, EXPLAIN, "run", options);
            let answer = table.account.exchange(&call).await?;
            let plan = header(&answer.headers, &PLAN).map(str::to_owned);
            match (answer.status, plan) {
                (StatusCode::OK, Some(plan)) => Ok(plan),
                (StatusCode::OK, None) => {
                    Err(Error::config("the server does not explain queries: it is not Lazuli"))
                }
                _ => Err(answer.into_error("explain")),
            }
        })
    }

    /// The number of entities that match a filter, counted by the server.
    pub fn server_count(&self, filter: Option<Filter>) -> Request<u64> {
        let table = self.clone();
        Request::new(move |options| async move {
            check(filter.as_ref())?;
            let env = &table.account.0.env;
            let deadline = options.deadline(env);
            let (mut all, mut from) = (0_u64, String::new());
            loop {
                let options = options.until(deadline, env);
                let call =
                    table.extended("count", Method::GET, "()/$count", filter.as_ref(), &from);
                let answer = table.account.exchange(&Call { options, ..call }).await?;
                if answer.status != StatusCode::OK {
                    return Err(answer.into_error("count"));
                }
                let text = std::str::from_utf8(&answer.body).map_err(Error::protocol)?;
                all += text.trim().parse::<u64>().map_err(Error::protocol)?;
                match next(&answer.headers) {
                    Some(next) => from = next,
                    None => return Ok(all),
                }
            }
        })
    }

    /// Has the server delete the entities that match a filter, and returns their number. An entity that changes in
    /// the meantime is left alone.
    pub fn server_delete(&self, filter: Filter) -> Request<u64> {
        let table = self.clone();
        Request::new(move |options| async move {
            check(Some(&filter))?;
            let env = &table.account.0.env;
            let deadline = options.deadline(env);
            let (mut all, mut from) = (0_u64, String::new());
            loop {
                let options = options.until(deadline, env);
                let call =
                    table.extended("delete by filter", Method::DELETE, "()", Some(&filter), &from);
                let answer = table.account.exchange(&Call { options, ..call }).await?;
                if answer.status != StatusCode::OK {
                    return Err(answer.into_error("delete by filter"));
                }
                let text = std::str::from_utf8(&answer.body).unwrap_or_default();
                let number =
                    text.trim().strip_prefix("{\"deleted\":").and_then(|t| t.strip_suffix('}'));
                let number = number.unwrap_or_default().parse::<u64>();
                all += number.map_err(Error::protocol)?;
                match next(&answer.headers) {
                    Some(next) => from = next,
                    None => return Ok(all),
                }
            }
        })
    }

    /// A call that requests extensions.
    fn extended(
        &self,
        operation: &'static str,
        method: Method,
        suffix: &str,
        filter: Option<&Filter>,
        from: &str,
    ) -> Call {
        let path = format!("/{}{suffix}", self.name());
        let mut query = from.to_owned();
        parameter(&mut query, "$filter", &filter.map(Filter::to_string).unwrap_or_default());
        let mut call = match method {
            Method::GET => tables::read(operation, path, query),
            method => Call { query, ..tables::write(operation, method, path, Bytes::new()) },
        };
        call.answer_bytes_max = PAGE_BYTES_MAX;
        call.headers.insert(EXTENSIONS, HeaderValue::from_static("on"));
        call
    }
}

fn with(mut call: Call, name: HeaderName, value: &'static str, options: CallOptions) -> Call {
    call.headers.insert(name, HeaderValue::from_static(value));
    Call { options, ..call }
}

/// Refuses a filter with a value that cannot be sent.
fn check(filter: Option<&Filter>) -> Result<(), Error> {
    match filter.and_then(|filter| filter.1.clone()) {
        Some(fault) => Err(fault.into()),
        None => Ok(()),
    }
}

/// The parameters that continue an answer, if there is more.
fn next(headers: &http::HeaderMap) -> Option<String> {
    let mut query = String::new();
    parameter(&mut query, "NextPartitionKey", header(headers, &NEXT_PARTITION)?);
    parameter(&mut query, "NextRowKey", header(headers, &NEXT_ROW).unwrap_or_default());
    Some(query)
}
