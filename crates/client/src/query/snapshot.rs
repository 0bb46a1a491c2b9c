//! All pages of a query at one moment, where the service has snapshots (C-8.5, X-4.5).

use super::parameter;
use crate::account::Account;
use crate::call::{CallOptions, header};
use crate::error::Error;
use crate::extensions::{EXTENSIONS, SNAPSHOT};
use crate::tables;
use http::{HeaderValue, StatusCode};
use lazuli_model::TableName;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::OnceCell;

/// A snapshot that the first request of a query creates and the last one ends.
#[derive(Debug)]
pub(super) struct Snapshot {
    name: OnceCell<String>,
    /// Parts of the query that are not finished.
    unfinished: AtomicUsize,
}

impl Snapshot {
    pub(super) fn new(parts: usize) -> Self {
        Self { name: OnceCell::new(), unfinished: AtomicUsize::new(parts) }
    }

    /// Options of a request that reads the snapshot; creates it if necessary.
    pub(super) async fn reading(
        &self,
        account: &Account,
        table: &TableName,
        options: &CallOptions,
    ) -> Result<CallOptions, Error> {
        let make = || async { ask(account, table, "new", options).await };
        let name = self.name.get_or_try_init(make).await?;
        with_snapshot(options.clone(), name)
    }

    /// Notes that this many parts were read to their end; the last one ends the snapshot. That of an abandoned query
    /// expires.
    pub(super) async fn finish(
        &self,
        account: &Account,
        table: &TableName,
        options: &CallOptions,
        parts: usize,
    ) {
        let before = self.unfinished.fetch_sub(parts, Ordering::AcqRel);
        if let Some(name) = self.name.get().filter(|_| before == parts) {
            // If this fails, the snapshot expires.
            let _ = ask(account, table, &format!("{name};end"), options).await;
        }
    }
}

/// Sends a query that finds nothing, and returns the name of the snapshot that it read.
async fn ask(
    account: &Account,
    table: &TableName,
    snapshot: &str,
    options: &CallOptions,
) -> Result<String, Error> {
    let path = format!("/{}()", table.as_str());
    let mut query = "$top=1".to_owned();
    parameter(&mut query, "$filter", "PartitionKey eq '' and RowKey eq ''");
    let mut call = tables::read("query", path, query);
    call.options = with_snapshot(options.clone(), snapshot)?;
    let answer = account.exchange(&call).await?;
    if answer.status != StatusCode::OK {
        return Err(answer.into_error("query"));
    }
    header(&answer.headers, &SNAPSHOT).map(str::to_owned).ok_or_else(|| {
        Error::config("the service has no snapshots").with(|context| {
            context.hint =
                Some("a Lazuli server has, unless it runs with --extensions never".into());
        })
    })
}

fn with_snapshot(mut options: CallOptions, name: &str) -> Result<CallOptions, Error> {
    let name = HeaderValue::try_from(name).map_err(Error::protocol)?;
    let on = HeaderValue::from_static("on");
    options.headers.extend([(EXTENSIONS, on), (SNAPSHOT, name)]);
    Ok(options)
}
