//! The change feed of a table on a Lazuli server: turned on, followed, turned off.

use super::json::ServerJson;
use super::settings::read;
use crate::call::Call;
use crate::entity::TableEntity;
use crate::error::Error;
use crate::options::Request;
use crate::query::parameter;
use crate::table::Table;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How much of a changed entity a feed records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FeedImages {
    /// Only the keys.
    Keys,
    /// The entity after the change.
    New,
    /// The entity before and after the change.
    Both,
}

/// The settings of a table's feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerFeed {
    /// How much of a changed entity it records.
    pub images: FeedImages,
    /// How many hours it keeps changes, 1 to 8,760.
    pub retention_hours: u64,
    /// The time since which it has every change, as the server reports it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub complete_from: String,
}

impl ServerFeed {
    /// A feed that keeps changes for this many hours.
    pub fn new(images: FeedImages, retention_hours: u64) -> Self {
        Self { images, retention_hours, complete_from: String::new() }
    }
}

/// A change of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerChange {
    /// Increases with every change of an entity.
    pub revision: String,
    /// `insert`, `replace`, `merge`, `delete` or `expire`.
    pub operation: String,
    /// The entity's partition key.
    #[serde(rename = "PartitionKey")]
    pub partition_key: String,
    /// The entity's row key.
    #[serde(rename = "RowKey")]
    pub row_key: String,
    /// The id of the transaction, the same for all its changes.
    pub transaction: String,
    /// The entity after the change, as OData JSON with minimal metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<ServerJson>,
    /// The entity before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<ServerJson>,
}

/// A page of changes, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerChanges {
    /// The changes; those of one transaction are all in one page.
    pub changes: Vec<ServerChange>,
    /// The token for the next page.
    pub next: String,
}

impl<T: TableEntity> Table<T> {
    /// The settings of this table's feed.
    pub fn server_feed(&self) -> Request<ServerFeed> {
        let table = self.clone();
        Request::new(move |options| async move {
            let call = table.setting("read feed", Method::GET, "lazuli-feed", Bytes::new());
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            read(answer, "read feed", StatusCode::OK)
        })
    }

    /// Turns the feed of this table on, or changes what it records from now on.
    pub fn set_server_feed(&self, feed: ServerFeed) -> Request<ServerFeed> {
        let table = self.clone();
        Request::new(move |options| async move {
            let feed = ServerFeed { complete_from: String::new(), ..feed };
            let body = Bytes::from(serde_json::to_vec(&feed).map_err(Error::protocol)?);
            let call = table.setting("set feed", Method::PUT, "lazuli-feed", body);
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            read(answer, "set feed", StatusCode::OK)
        })
    }

    /// Turns the feed of this table off. Its records are deleted.
    pub fn drop_server_feed(&self) -> Request<()> {
        let table = self.clone();
        Request::new(move |options| async move {
            let call = table.setting("drop feed", Method::DELETE, "lazuli-feed", Bytes::new());
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            match answer.status {
                StatusCode::NO_CONTENT => Ok(()),
                _ => Err(answer.into_error("drop feed")),
            }
        })
    }

    /// The changes of this table after a token: the `next` of an earlier page, `now` for a token without changes, or
    /// nothing for the oldest change that is kept. If there is no change yet, the server waits for up to `wait`, at
    /// most a minute; a wait longer than the timeout of the call fails.
    pub fn server_changes(&self, after: Option<&str>, wait: Duration) -> Request<ServerChanges> {
        let (table, after) = (self.clone(), after.unwrap_or_default().to_owned());
        Request::new(move |options| async move {
            let body = Bytes::new();
            let mut call = table.setting("read changes", Method::GET, "lazuli-changes", body);
            parameter(&mut call.query, "after", &after);
            parameter(&mut call.query, "wait", &wait.as_secs().to_string());
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            read(answer, "read changes", StatusCode::OK)
        })
    }
}
