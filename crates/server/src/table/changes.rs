//! The changes of a table: `?comp=lazuli-changes`. A request may wait for the next one.

pub(crate) mod refused;
mod token;

use crate::auth::permit::Principal;
use crate::error::{ApiError, ApiResult};
use crate::http::answer_memory::AnswerMemory;
use crate::http::extensions::Used;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::table::api::TableApi;
use crate::table::call::Call;
use crate::table::operation::Resource;
use crate::table::query_options::limited_ms;
use lazuli_model::TableName;
use lazuli_model::limits::FEED_WAIT_SECONDS_MAX;
use lazuli_table::{After, ChangeImage, ChangesPage, EntityChange};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::media::{Accepted, MetadataLevel};
use lazuli_wire::odata::{Context, json};
use lazuli_wire::sas::TableGrant;
use refused::forged;
use std::fmt::Write;
use std::time::Duration;
use tokio::time::Instant;

/// How long a request with this query may wait, in addition to the usual time limit.
pub(crate) fn patience(query: Option<&str>) -> Duration {
    match query.is_some_and(|query| query.contains("lazuli-changes")) {
        true => Duration::from_secs(FEED_WAIT_SECONDS_MAX),
        false => Duration::ZERO,
    }
}

/// Returns the next changes.
pub(crate) async fn handle(
    api: &TableApi,
    answers: &AnswerMemory,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    principal: &Principal<TableGrant>,
) -> ApiResult<Reply> {
    let Resource::Changes { table } = call.resource else {
        return Err(ErrorCode::UnsupportedHttpVerb.into());
    };
    principal.permit_whole_table()?;
    let wait = wait_time(call.query.get("wait"))?;
    // A client that sets a shorter timeout gets its response within that.
    let wait = limited_ms(call.query)?.map_or(wait, |ms| wait.min(Duration::from_millis(ms)));
    let after = match call.query.get("after") {
        None | Some("") => After::Oldest,
        Some("now") => After::Now,
        Some(text) => After::Token(token::read(text).ok_or_else(forged)?),
    };
    let account = &context.account.name;
    let deadline = Instant::now() + wait;
    let waits = wait > Duration::ZERO && after != After::Now;
    let mut listener = match waits {
        // Before the first read, so that any later commit is noticed.
        true => Some(api.tables.listen_for_changes(account, table).await?),
        false => None,
    };
    loop {
        let mut is_empty = false;
        let page = async {
            let page = api.tables.changes(account, table, after).await?;
            is_empty = page.changes.is_empty();
            reply(context, call, table, &page)
        };
        let reply = answers.hold_page(page).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        match &mut listener {
            Some(listener) if is_empty && !left.is_zero() && !api.waiters.is_stopping() => {
                api.waiters.wait(listener, left).await?;
            }
            _ => {
                let mut reply = reply;
                Used::also(&mut reply, "changes");
                return Ok(reply);
            }
        }
    }
}

fn wait_time(text: Option<&str>) -> ApiResult<Duration> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Duration::ZERO) };
    let seconds = text.parse::<u64>().ok().filter(|seconds| *seconds <= FEED_WAIT_SECONDS_MAX);
    let seconds = seconds.ok_or_else(|| {
        let text =
            format!("The value of 'wait' is a number of seconds, at most {FEED_WAIT_SECONDS_MAX}.");
        ApiError::with_text(ErrorCode::InvalidQueryParameterValue, text)
    })?;
    Ok(Duration::from_secs(seconds))
}

fn reply(
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
    page: &ChangesPage,
) -> ApiResult<Reply> {
    let odata = Context {
        base: context.base.as_str(),
        account: context.account.name.as_str(),
        table: table.as_str(),
        level: match call.accepted() {
            Accepted::Json(level) => level,
            _ => MetadataLevel::Minimal,
        },
        minimal_etag: context.version.has_minimal_etag(),
        select: None,
    };
    let mut body = b"{\"changes\":[".to_vec();
    for (place, stored) in page.changes.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        write_change(&mut body, &odata, &stored.decode()?);
    }
    let next = token::write(&page.next);
    body.extend_from_slice(format!("],\"next\":\"{next}\"}}").as_bytes());
    Ok(Reply::json(200, body))
}

fn write_change(out: &mut Vec<u8>, context: &Context<'_>, change: &EntityChange<'_>) {
    let EntityChange { revision, operation, partition_key, row_key, new, old } = change;
    let mut text = String::new();
    // Writing to a String does not fail. A revision exceeds the number range of many JSON readers.
    let _ = write!(text, "{{\"revision\":\"{revision}\",\"operation\":\"{}\"", operation.name());
    out.extend_from_slice(text.as_bytes());
    for (name, value) in [("PartitionKey", partition_key), ("RowKey", row_key)] {
        json::write_text_member(out, name, value);
    }
    out.extend_from_slice(format!(",\"transaction\":\"{revision:016x}\"").as_bytes());
    for (name, image) in [("new", new), ("old", old)] {
        let Some(ChangeImage { timestamp, properties }) = image else { continue };
        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
        let properties = properties.iter().copied();
        json::write_listed_entity(out, context, partition_key, row_key, *timestamp, properties);
    }
    out.push(b'}');
}
