//! `$count`: how many entities a filter selects, without their properties.

use crate::error::{ApiError, ApiResult};
use crate::http::request::RequestContext;
use crate::table::api::TableApi;
use lazuli_model::TableName;
use lazuli_table::{EntityQuery, EntityRef, QueryEnd, Snapshot};
use lazuli_wire::uri::Query;

/// Counts until the time limit.
pub(crate) async fn count(
    api: &TableApi,
    context: &RequestContext<'_>,
    snapshot: Option<&Snapshot>,
    table: &TableName,
    query: EntityQuery,
) -> ApiResult<QueryEnd> {
    let query = EntityQuery { count_only: true, ..query };
    let mut nothing = |_: EntityRef<'_>| {};
    let account = &context.account.name;
    match snapshot {
        None => Ok(api.tables.query(account, table, query, &mut nothing).await?),
        Some(snapshot) => {
            Ok(api.tables.query_at(snapshot, account, table, query, &mut nothing).await?)
        }
    }
}

/// The number of all entities; `None` if counting them would exceed the time limit.
pub(crate) async fn count_all(
    api: &TableApi,
    context: &RequestContext<'_>,
    snapshot: Option<&Snapshot>,
    table: &TableName,
    query: EntityQuery,
) -> ApiResult<Option<u64>> {
    let end = count(api, context, snapshot, table, query).await?;
    Ok(end.next.is_none().then_some(end.rows_returned))
}

/// Refuses options other than the filter.
pub(crate) fn refuse_options(query: &Query<'_>, what: &str) -> ApiResult<()> {
    let other = query
        .iter()
        .find(|(name, _)| name.starts_with('$') && !matches!(*name, "$filter" | "$format"));
    match other {
        None => Ok(()),
        Some((name, _)) => {
            let name: String = name.chars().take(64).collect();
            Err(ApiError::invalid_input(format!("{name} is not possible with {what}.")))
        }
    }
}
