//! Operations on all entities that a filter selects: counting and deletion.

use crate::error::{ApiError, ApiResult};
use crate::http::extensions::Used;
use crate::http::reply::{Reply, Work};
use crate::http::request::RequestContext;
use crate::table::advice::Page;
use crate::table::api::TableApi;
use crate::table::asked::Explain;
use crate::table::call::Call;
use crate::table::counting::{count, refuse_options};
use crate::table::plan_json::{self, Measured};
use crate::table::queries::{
    PLAN, name_used, note, plan_reply, shape, work, write_continuation, write_end,
};
use crate::table::query_options::{entity_continuation, filter, working_ms};
use lazuli_model::TableName;
use lazuli_table::{DeleteWhere, EntityQuery, KeyBounds};
use serde::Serialize;

#[derive(Serialize)]
struct DeletedJson {
    deleted: u64,
}

/// `GET /T/$count`.
pub(crate) async fn count_entities(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
    bounds: KeyBounds,
) -> ApiResult<Reply> {
    refuse_options(call.query, "$count")?;
    let explain = call.asked.and_then(|asked| asked.explain);
    let query = EntityQuery {
        filter: filter(api, context, call.query)?,
        from: entity_continuation(call.query, &context.tolerance)?,
        bounds,
        rows_read_max: api.page_rows(),
        explain: explain.is_some() || api.query_log.is_on(),
        ms_max: working_ms(call.query)?,
        ..EntityQuery::default()
    };
    let mut used = Used::default();
    used.add("count");
    name_used(&mut used, query.filter.as_ref(), explain);
    if explain == Some(Explain::Plan) {
        let report = api.tables.explain(&context.account.name, table, &query).await?;
        return Ok(plan_reply(api, &report, used));
    }
    let shape = shape(api, &query);
    let end = count(api, context, call.snapshot, table, query).await?;
    let page = Page { end: &end, bytes: 0, whole_properties: None };
    note(api, context, table, shape, &page);
    let mut reply = Reply {
        content_type: Some("text/plain;charset=utf-8".into()),
        body: end.rows_returned.to_string().into_bytes(),
        work: Work { returned: 0, ..work(&end) },
        ..Reply::odata(200)
    };
    write_end(api, explain, None, end, &mut used, &mut reply);
    used.mark(&mut reply);
    Ok(reply)
}

/// `DELETE /T()?$filter=…`.
pub(crate) async fn delete_entities(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
    bounds: KeyBounds,
) -> ApiResult<Reply> {
    refuse_options(call.query, "a deletion by filter")?;
    let Some(filter) = filter(api, context, call.query)? else {
        let text =
            "A deletion by filter needs a $filter; to delete all entities, delete the table.";
        return Err(ApiError::invalid_input(text));
    };
    let from = entity_continuation(call.query, &context.tolerance)?;
    let explain = call.asked.and_then(|asked| asked.explain);
    let mut used = Used::default();
    used.add("delete");
    name_used(&mut used, Some(&filter), explain);
    let account = &context.account.name;
    if explain == Some(Explain::Plan) {
        let query = EntityQuery { filter: Some(filter), from, bounds, ..EntityQuery::default() };
        let report = api.tables.explain(account, table, &query).await?;
        return Ok(plan_reply(api, &report, used));
    }
    let request = DeleteWhere {
        filter,
        from,
        bounds,
        rows_read_max: api.page_rows(),
        ms_max: working_ms(call.query)?,
        explain: explain.is_some(),
    };
    let done = api.tables.delete_where(account, table, request).await?;
    if let Some(index) = &done.index {
        used.add("index");
        api.advice.index_read(context, table, &index.names);
    }
    let mut reply = Reply::json_of(200, &DeletedJson { deleted: done.deleted })?;
    reply.work.examined = u32::try_from(done.examined).unwrap_or(u32::MAX);
    if let Some(report) = done.report {
        let measured = Measured { examined: done.examined, returned: done.deleted };
        reply.more.push((PLAN, plan_json::header(&api.prices, &report, &measured)));
    }
    if let Some(next) = done.next {
        write_continuation(&mut reply, next, None);
    }
    used.mark(&mut reply);
    Ok(reply)
}
