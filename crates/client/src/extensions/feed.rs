//! The change feed of a table on a Lazuli server: turned on, followed, turned off.

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

/// What a feed shows of changed entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FeedImages {
    /// The keys alone.
    Keys,
    /// The entity after the change.
    New,
    /// The entity before and after the change.
    Both,
}

/// The feed of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerFeed {
    /// What it shows of changed entities.
    pub images: FeedImages,
    /// How many hours it keeps changes, 1 to 8,760.
    pub retention_hours: u64,
    /// Since when it has every change, as the server says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub complete_from: String,
}

impl ServerFeed {
    /// A feed that keeps changes for so many hours.
    pub fn new(images: FeedImages, retention_hours: u64) -> Self {
        Self { images, retention_hours, complete_from: String::new() }
    }
}

/// A change of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerChange {
    /// Increases from change to change of one entity.
    pub revision: String,
    /// `insert`, `replace`, `merge`, `delete` or `expire`.
    pub operation: String,
    /// The entity's.
    #[serde(rename = "PartitionKey")]
    pub partition_key: String,
    /// The entity's.
    #[serde(rename = "RowKey")]
    pub row_key: String,
    /// The same for all changes of one transaction.
    pub transaction: String,
    /// The entity after the change, as OData JSON with minimal metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<serde_json::Value>,
    /// The entity before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<serde_json::Value>,
}

/// A page of changes, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerChanges {
    /// Changes of one transaction are all in one page.
    pub changes: Vec<ServerChange>,
    /// Where the next page begins.
    pub next: String,
}

impl<T: TableEntity> Table<T> {
    /// The feed that the server keeps of this table.
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

    /// Turns the feed of this table off. What it recorded is gone.
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

    /// The changes of this table after a token: the `next` of an earlier page, `now` for a token
    /// alone, or nothing for the oldest change that is kept. If there is none yet, the server waits
    /// for up to `wait`, at most a minute; a wait longer than the time that a call may take fails.
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
