//! The change feed of a table as JSON: `?comp=lazuli-feed`.

use crate::error::{ApiError, ApiResult};
use crate::http::reply::Reply;
use crate::table::api::TableApi;
use lazuli_model::limits::{FEED_RETENTION_HOURS_MAX, FEED_RETENTION_HOURS_MIN};
use lazuli_model::{AccountName, Feed, FeedRetention, Images, TableName};
use serde::{Deserialize, Serialize};

pub(crate) async fn set(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
    body: &[u8],
) -> ApiResult<Reply> {
    api.tables.set_feed(account, table, declared(body)?).await?;
    shown(api, account, table).await
}

pub(crate) async fn remove(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
) -> ApiResult<Reply> {
    api.tables.drop_feed(account, table).await?;
    Ok(Reply::odata(204))
}

pub(crate) async fn shown(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
) -> ApiResult<Reply> {
    let status = api.tables.feed(account, table).await?;
    let shown = Shown {
        images: status.feed.images.name(),
        retention_hours: status.feed.retention.hours(),
        complete_from: status.complete_from.to_string(),
    };
    Reply::json_of(200, &shown)
}

#[derive(Serialize)]
struct Shown {
    images: &'static str,
    retention_hours: u64,
    complete_from: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    images: String,
    #[serde(default = "a_day")]
    retention_hours: u64,
}

fn a_day() -> u64 {
    FeedRetention::DEFAULT.hours()
}

fn declared(body: &[u8]) -> ApiResult<Feed> {
    let Declared { images, retention_hours } = serde_json::from_slice(body)
        .map_err(|error| ApiError::invalid_input(format!("The feed is not valid: {error}.")))?;
    let known = Images::ALL.into_iter().find(|known| known.name() == images);
    let images = known.ok_or_else(|| {
        ApiError::invalid_input("The images of a feed are 'keys', 'new' or 'both'.")
    })?;
    let retention = FeedRetention::from_hours(retention_hours).ok_or_else(|| {
        ApiError::invalid_input(format!(
            "The retention of a feed is {FEED_RETENTION_HOURS_MIN} to {FEED_RETENTION_HOURS_MAX} \
             hours."
        ))
    })?;
    Ok(Feed { images, retention })
}
