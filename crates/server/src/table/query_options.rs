//! The options of a query: `$filter`, `$select`, `$top` and where it continues.

use crate::error::{ApiError, ApiResult};
use crate::http::profile::Tolerance;
use crate::http::request::{RequestContext, operation_time};
use crate::table::api::TableApi;
use crate::table::error::filter_error;
use crate::table::faults::Fault;
use lazuli_model::Filter;
use lazuli_model::limits::{PAGE_ITEMS_MAX, REQUEST_MS_MAX};
use lazuli_table::Continuation;
use lazuli_wire::continuation;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::odata::{self, Select};
use lazuli_wire::uri::Query;
use lazuli_wire::version::ApiVersion;
use std::time::Duration;

pub(crate) fn filter(
    api: &TableApi,
    context: &RequestContext<'_>,
    query: &Query<'_>,
) -> ApiResult<Option<Filter>> {
    let text = query.get("$filter").unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(None);
    }
    let parsed = match context.extensions {
        true => odata::filter::parse_extended(text),
        false => odata::filter::parse(text),
    };
    let filter = parsed.or_else(|error| {
        let error = filter_error(&error, text);
        let lenient = || odata::filter::parse_lenient(text).ok();
        context.tolerance.tolerate(Fault::FilterDialect, error, lenient)
    })?;
    api.simulate(|simulator| simulator.check_filter(&filter))?;
    Ok(Some(filter))
}

/// Versions without `$select` treat it as an unknown option (T-4.45c).
pub(crate) fn select(query: &Query<'_>, version: ApiVersion) -> ApiResult<Option<Select>> {
    match query.get("$select") {
        None => Ok(None),
        Some(text) if version.has_select() => {
            Select::parse(text).map(Some).map_err(|_| ErrorCode::InvalidInput.into())
        }
        Some(_) => Err(ErrorCode::InvalidInput.into()),
    }
}

/// `$top` is a page size from 0 to 1000 (T-4.47 to T-4.51).
pub(crate) fn top(query: &Query<'_>, tolerance: &Tolerance) -> ApiResult<usize> {
    let Some(text) = query.get("$top") else { return Ok(PAGE_ITEMS_MAX) };
    match text.trim().parse() {
        Ok(top @ 0..=PAGE_ITEMS_MAX) => Ok(top),
        Ok(_) => {
            let error = ErrorCode::InvalidInput.into();
            tolerance.tolerate(Fault::TopTooLarge, error, || Some(PAGE_ITEMS_MAX))
        }
        Err(_) => Err(ErrorCode::InvalidInput.into()),
    }
}

/// Where a query continues; an empty or forged token is refused (T-4.54 to T-4.59, T-4.69).
pub(crate) fn entity_continuation(
    query: &Query<'_>,
    tolerance: &Tolerance,
) -> ApiResult<Option<Continuation>> {
    continuation_by(query, tolerance, continuation::decode_key)
}

/// The same for a query in descending order, which accepts no token of an ascending one.
pub(crate) fn reverse_continuation(
    query: &Query<'_>,
    tolerance: &Tolerance,
) -> ApiResult<Option<Continuation>> {
    let from = continuation_by(query, tolerance, continuation::decode_reverse)?;
    match from {
        Some(Continuation { row: None, .. }) => Err(ErrorCode::InvalidInput.into()),
        from => Ok(from),
    }
}

fn continuation_by(
    query: &Query<'_>,
    tolerance: &Tolerance,
    decode: fn(&str) -> Option<String>,
) -> ApiResult<Option<Continuation>> {
    let invalid = || ApiError::from(ErrorCode::InvalidInput);
    let token = |name| match query.get(name) {
        None => Ok(None),
        Some("") if name == "NextRowKey" => {
            tolerance.tolerate(Fault::EmptyContinuation, invalid(), || Some(None))
        }
        Some(text) => decode(text).map(Some).ok_or_else(invalid),
    };
    match (token("NextPartitionKey")?, token("NextRowKey")?) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(ErrorCode::InvalidInput.into()),
        (Some(partition), row) => Ok(Some(Continuation { partition, row })),
    }
}

/// The order of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Rising,
    Falling,
}

const ORDERS: &str = "Entities can be ordered by 'PartitionKey', by 'PartitionKey,RowKey', or by \
     'PartitionKey desc,RowKey desc'.";

/// `$orderby`; `None` if there is none.
pub(crate) fn order(query: &Query<'_>) -> ApiResult<Option<Order>> {
    let Some(text) = query.get("$orderby") else { return Ok(None) };
    let keys: Vec<Vec<&str>> =
        text.split(',').map(|key| key.split_ascii_whitespace().collect()).collect();
    let keys: Vec<&[&str]> = keys.iter().map(Vec::as_slice).collect();
    match *keys {
        [["PartitionKey"] | ["PartitionKey", "asc"]]
        | [["PartitionKey"] | ["PartitionKey", "asc"], ["RowKey"] | ["RowKey", "asc"]] => {
            Ok(Some(Order::Rising))
        }
        [["PartitionKey", "desc"], ["RowKey", "desc"]] => Ok(Some(Order::Falling)),
        _ => Err(ApiError::invalid_input(ORDERS)),
    }
}

/// `$inlinecount`: whether the number of entities is requested.
pub(crate) fn inline_count(query: &Query<'_>) -> ApiResult<bool> {
    match query.get("$inlinecount") {
        None | Some("none") => Ok(false),
        Some("allpages") => Ok(true),
        Some(_) => Err(ApiError::invalid_input("$inlinecount must be 'allpages' or 'none'.")),
    }
}

/// The share of a request's time that a continuable operation may use; the rest is for its last
/// step and the response.
const TIME_SHARE: (u64, u64) = (2, 3);

/// Milliseconds after which a long operation ends with a continuation.
pub(crate) fn working_ms(query: &Query<'_>) -> ApiResult<u64> {
    Ok(limited_ms(query)?.unwrap_or(REQUEST_MS_MAX / TIME_SHARE.1 * TIME_SHARE.0))
}

/// The same for a client that sets its own limit.
pub(crate) fn limited_ms(query: &Query<'_>) -> ApiResult<Option<u64>> {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Ok(operation_time(query)?.map(|time| ms(time) / TIME_SHARE.1 * TIME_SHARE.0))
}
