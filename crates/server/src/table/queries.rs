//! Query Entities: one page, its plan, or both.

use crate::error::ApiResult;
use crate::http::extensions::Used;
use crate::http::reply::{Reply, Work};
use crate::http::request::RequestContext;
use crate::operation::Plan;
use crate::table::advice::Page;
use crate::table::api::TableApi;
use crate::table::asked::Explain;
use crate::table::call::Call;
use crate::table::counting;
use crate::table::plan_json::{self, Measured};
use crate::table::query_options::{
    Order, entity_continuation, filter, inline_count, order, reverse_continuation, select, top,
    working_ms,
};
use crate::table::request::{ORDER_AND_COUNT, check_options_but};
use lazuli_model::{EntityKey, Filter, Operator, Property, TableName, Value};
use lazuli_table::{
    Continuation, EntityQuery, EntityRef, KeyBounds, PlanKind, PlanReport, QueryEnd,
};
use lazuli_wire::continuation;
use std::time::Duration;

pub(crate) async fn query_entities(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
    bounds: KeyBounds,
) -> ApiResult<Reply> {
    let options = if context.extensions { ORDER_AND_COUNT } else { &[] };
    check_options_but(options, call.query, &context.tolerance)?;
    let encoder = call.encoder(context)?;
    let select = select(call.query, context.version)?;
    let explain = call.asked.and_then(|asked| asked.explain);
    let (order, counts) = match context.extensions {
        true => (order(call.query)?, inline_count(call.query)?),
        false => (None, false),
    };
    let reverse = order == Some(Order::Falling);
    let from = match reverse {
        true => reverse_continuation(call.query, &context.tolerance)?,
        false => entity_continuation(call.query, &context.tolerance)?,
    };
    let counts = counts && from.is_none();
    let query = EntityQuery {
        filter: filter(api, context, call.query)?,
        top: top(call.query, &context.tolerance)?,
        from,
        bounds,
        rows_read_max: api.page_rows(),
        explain: explain.is_some() || api.query_log.is_on(),
        reverse,
        ..EntityQuery::default()
    };
    let mut used = Used::default();
    match order {
        Some(Order::Falling) => used.add("reverse"),
        Some(Order::Rising) => used.add("orderby"),
        None => {}
    }
    if counts {
        used.add("inlinecount");
    }
    name_used(&mut used, query.filter.as_ref(), explain);
    if explain == Some(Explain::Plan) {
        let report = api.tables.explain(&context.account.name, table, &query).await?;
        return Ok(plan_reply(api, &report, used));
    }
    let counted = counts.then(|| EntityQuery { explain: false, ..query.clone() });
    let shape = shape(api, &query);
    let mut entities = encoder.entities(table, select.as_ref());
    let mut properties = 0;
    let mut sink = |entity: EntityRef<'_>| {
        properties += entity.properties.len() as u64;
        entities.push(
            entity.partition_key,
            entity.row_key,
            entity.timestamp,
            entity.properties.iter().copied(),
        );
    };
    let account = &context.account.name;
    let end = match call.snapshot {
        None => api.tables.query(account, table, query, &mut sink).await?,
        Some(snapshot) => api.tables.query_at(snapshot, account, table, query, &mut sink).await?,
    };
    let number = match (counted, &end.next) {
        (None, _) => None,
        (Some(query), None) if query.top > 0 => Some(end.rows_returned),
        (Some(query), _) => {
            let ms_max = working_ms(call.query)?;
            counting::count_all(api, context, call.snapshot, table, EntityQuery { ms_max, ..query })
                .await?
        }
    };
    let mut reply = entities.finish(number);
    reply.work = work(&end);
    let whole_properties = select.is_none().then_some(properties);
    let page = Page { end: &end, bytes: reply.body.len(), whole_properties };
    note(api, context, table, shape, &page);
    write_end(api, explain, order, end, &mut used, &mut reply);
    // Only those who ask for extensions hear of an index that served them.
    if call.asked.is_some() {
        used.mark(&mut reply);
    }
    Ok(reply)
}

/// The filter of a query that the log or advice hears of; `None` if neither listens.
pub(crate) fn shape(api: &TableApi, query: &EntityQuery) -> Option<Option<Filter>> {
    let is_noted = api.query_log.is_on() || api.advice.is_open();
    is_noted.then(|| query.filter.clone())
}

/// Tells the log and advice of a query with that [`shape`].
pub(crate) fn note(
    api: &TableApi,
    context: &RequestContext<'_>,
    table: &TableName,
    shape: Option<Option<Filter>>,
    page: &Page<'_>,
) {
    if let Some(filter) = shape {
        if api.query_log.is_on() {
            api.query_log.note(context, table, filter.as_ref(), page.end);
        }
        api.advice.queried(context, table, filter, page);
    }
    if let Some(used) = &page.end.index {
        api.advice.index_read(context, table, &used.names);
    }
}

/// Writes how a query ended: its plan, whether an index served it, and where it goes on.
pub(crate) fn write_end(
    api: &TableApi,
    explain: Option<Explain>,
    order: Option<Order>,
    end: QueryEnd,
    used: &mut Used,
    reply: &mut Reply,
) {
    if let (Some(Explain::Run), Some(report)) = (explain, &end.report) {
        reply.more.push((PLAN, plan_json::header(&api.prices, report, &Measured::of(&end))));
    }
    if end.index.is_some() {
        used.add("index");
    }
    if let Some(next) = end.next {
        write_continuation(reply, next, order);
    }
}

/// The header with the plan of a query that ran.
pub(crate) const PLAN: &str = "x-lazuli-plan";

/// The extensions that a query's text and its explanation use.
pub(crate) fn name_used(used: &mut Used, filter: Option<&Filter>, explain: Option<Explain>) {
    let extended = filter.map(Filter::extended).unwrap_or_default();
    extended.into_iter().flat_map(|extended| extended.names()).for_each(|name| used.add(name));
    if explain.is_some() {
        used.add("explain");
    }
}

pub(crate) fn write_continuation(reply: &mut Reply, next: Continuation, order: Option<Order>) {
    let token = |text: String| match order {
        Some(Order::Falling) => continuation::encode_reverse(&text),
        Some(Order::Rising) | None => continuation::encode(text.as_bytes()),
    };
    reply.more.push(("x-ms-continuation-nextpartitionkey", token(next.partition)));
    if let Some(row) = next.row {
        reply.more.push(("x-ms-continuation-nextrowkey", token(row)));
    }
}

pub(crate) fn work(end: &QueryEnd) -> Work {
    Work {
        plan: Some(plan(end.plan)),
        examined: u32::try_from(end.rows_read).unwrap_or(u32::MAX),
        returned: u32::try_from(end.rows_returned).unwrap_or(u32::MAX),
        operations: 0,
    }
}

/// The name of a plan in metrics and logs.
fn plan(kind: PlanKind) -> Plan {
    match kind {
        PlanKind::Point => Plan::Point,
        PlanKind::MultiPoint => Plan::MultiPoint,
        PlanKind::RowRange => Plan::RowRange,
        PlanKind::Partition => Plan::Partition,
        PlanKind::PartitionRange => Plan::PartitionRange,
        PlanKind::Table => Plan::Table,
        PlanKind::Index => Plan::Index,
    }
}

/// The plan of reading one entity by its keys.
pub(crate) async fn explain_point(
    api: &TableApi,
    context: &RequestContext<'_>,
    table: &TableName,
    key: &EntityKey,
) -> ApiResult<Reply> {
    let report = point_report(api, context, table, key).await?;
    let mut used = Used::default();
    used.add("explain");
    Ok(plan_reply(api, &report, used))
}

/// Adds the plan of an entity that was read by its keys, with its bytes and the time that it took.
pub(crate) async fn explain_read(
    api: &TableApi,
    context: &RequestContext<'_>,
    (table, key): (&TableName, &EntityKey),
    (bytes, time): (u64, Duration),
    reply: &mut Reply,
) -> ApiResult<()> {
    let report = point_report(api, context, table, key).await?;
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let report = PlanReport { bytes, micros, ..report };
    let measured = Measured { examined: 1, returned: 1 };
    reply.more.push((PLAN, plan_json::header(&api.prices, &report, &measured)));
    let mut used = Used::default();
    used.add("explain");
    used.mark(reply);
    Ok(())
}

async fn point_report(
    api: &TableApi,
    context: &RequestContext<'_>,
    table: &TableName,
    key: &EntityKey,
) -> ApiResult<PlanReport> {
    let is = |property, text: &str| {
        Filter::compare(property, Operator::Eq, Value::String(text.to_owned().into()))
    };
    let partition = is(Property::PartitionKey, key.partition.as_str());
    let filter = Some(partition.and(is(Property::RowKey, key.row.as_str())));
    let query = EntityQuery { filter, ..EntityQuery::default() };
    Ok(api.tables.explain(&context.account.name, table, &query).await?)
}

/// The plan of a query that did not run.
pub(crate) fn plan_reply(api: &TableApi, report: &PlanReport, used: Used) -> Reply {
    let body = plan_json::document(&api.prices, report);
    let mut reply = Reply::json(200, body);
    used.mark(&mut reply);
    reply
}
