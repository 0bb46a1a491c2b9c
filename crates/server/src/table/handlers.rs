//! Handlers for the OData operations: decode, call the service, encode.

use crate::auth::permit::Principal;
use crate::error::{ApiError, ApiResult};
use crate::headers::CallHeaders;
use crate::http::extensions::Used;
use crate::http::reply::{Reply, Work};
use crate::http::request::RequestContext;
use crate::operation::Plan;
use crate::table::api::TableApi;
use crate::table::asked::Explain;
use crate::table::call::Call;
use crate::table::encode;
use crate::table::faults::Fault;
use crate::table::mutations;
use crate::table::operation::{Operation, Resource};
use crate::table::queries;
use crate::table::query_options::{filter, select, top};
use crate::table::request::{BodyFormat, Preference, body_format, check_options};
use crate::table::selections;
use lazuli_model::{ETag, EntityKey, TableName};
use lazuli_table::{TableError, TablesQuery};
use lazuli_wire::continuation;
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::odata;
use lazuli_wire::sas::TableGrant;
use lazuli_wire::uri;
use tokio::time::Instant;

/// Runs a permitted operation of `principal` on tables or entities.
pub(crate) async fn handle(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    principal: &Principal<TableGrant>,
) -> ApiResult<Reply> {
    match (call.operation, call.resource) {
        (Operation::QueryEntity, Resource::Entity { table, key, .. }) => {
            principal.permit_key(key)?;
            admit(api, context, table, key, 1)?;
            get_entity(api, context, call, table, key).await
        }
        (Operation::QueryEntities, Resource::Entities { table }) => {
            queries::query_entities(api, context, call, table, principal.bounds()).await
        }
        (Operation::CountEntities, Resource::Count { table }) => {
            selections::count_entities(api, context, call, table, principal.bounds()).await
        }
        (Operation::DeleteEntities, Resource::Selection { table }) => {
            selections::delete_entities(api, context, call, table, principal.bounds()).await
        }
        (Operation::QueryTables, _) => query_tables(api, context, call).await,
        (Operation::CreateTable, _) => create_table(api, context, call).await,
        (Operation::QueryTable, Resource::Table { table }) => {
            get_table(api, context, call, table).await
        }
        (Operation::DeleteTable, Resource::Table { table }) => {
            delete_table(api, context, call, table).await
        }
        (Operation::KeyedNested, Resource::KeyedNested { table }) => {
            let account = &context.account.name;
            api.tables.get_table(account, table).await?;
            let text = message::number_of_keys(account.as_str(), table.as_str());
            Err(ApiError::invalid_input(text).while_parsing())
        }
        (
            Operation::InsertEntity
            | Operation::UpdateEntity
            | Operation::InsertOrReplaceEntity
            | Operation::MergeEntity
            | Operation::InsertOrMergeEntity
            | Operation::DeleteEntity,
            _,
        ) => {
            let (table, mutation) = match mutations::decode(context, call) {
                Ok(decoded) => decoded,
                Err(error) => {
                    return Err(
                        mutations::check_table_first(api, context, call.resource, error).await
                    );
                }
            };
            principal.permit_key(mutation.key())?;
            admit(api, context, table, mutation.key(), 1)?;
            let applied = mutations::apply(api, context, table, &mutation).await;
            if api.advice.is_open() {
                let error = applied.as_ref().err();
                api.advice.written(context, table, &mutation, error, (call.body.len(), false));
            }
            mutations::reply(context, call, table, &mutation, applied?)
        }
        // Routing gives these their resource, and the others to other handlers. They are listed, so
        // that a new row does not compile before it has a handler.
        (
            Operation::QueryEntity
            | Operation::QueryEntities
            | Operation::QueryTable
            | Operation::DeleteTable
            | Operation::KeyedNested
            | Operation::EntityGroupTransaction
            | Operation::GetTableAcl
            | Operation::SetTableAcl
            | Operation::CountEntities
            | Operation::DeleteEntities
            | Operation::GetTableSetting
            | Operation::SetTableSetting
            | Operation::DeleteTableSetting
            | Operation::GetTableChanges
            | Operation::GetAdvice
            | Operation::GetServiceProperties
            | Operation::SetServiceProperties
            | Operation::GetServiceStats
            | Operation::GetUserDelegationKey,
            _,
        ) => Err(ErrorCode::MethodNotAllowed.into()),
    }
}

async fn query_tables(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
) -> ApiResult<Reply> {
    check_options(call.query, &context.tolerance)?;
    let encoder = call.encoder(context)?;
    let from = match call.query.get("NextTableName") {
        None => None,
        Some(token) => {
            let decoded = continuation::decode_table(token);
            Some(decoded.ok_or(ErrorCode::InvalidInput)?)
        }
    };
    let (filter, top) = (filter(api, context, call.query)?, top(call.query, &context.tolerance)?);
    let mut used = Used::default();
    queries::name_used(&mut used, filter.as_ref(), None);
    let query = TablesQuery { filter, top, from, rows_read_max: api.page_rows() };
    let mut tables = encoder.tables(select(call.query, context.version)?.as_ref());
    let end = api
        .tables
        .query_tables(&context.account.name, query, &mut |table| tables.push(table.name.as_str()))
        .await?;
    let mut reply = tables.finish();
    if let Some(next) = end.next {
        let token = continuation::encode_table(next.name.lower(), next.created);
        reply.more.push(("x-ms-continuation-nexttablename", token));
    }
    used.mark(&mut reply);
    Ok(reply)
}

async fn create_table(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
) -> ApiResult<Reply> {
    refuse_condition_on_table(context, &call.headers)?;
    let preference = call.preference();
    let encoder = match preference {
        Some(Preference::NoContent) => None,
        _ => Some(call.encoder(context)?),
    };
    let name = match body_format(call.headers.content_type, context.version)? {
        BodyFormat::Json => odata::json::read_table_name(call.body)?,
        BodyFormat::Atom => odata::atom::read_table_name(call.body)?,
    };
    let table = TableName::parse(&name.ok_or(ErrorCode::PropertiesNeedValue)?)?;
    let account = &context.account.name;
    api.simulate(|simulator| simulator.check_deleted(account, &table, context.now))?;
    api.tables.create_table(account, &table).await?;
    let reply = match encoder {
        Some(encoder) => encoder.table(201, None, table.as_str()),
        None => Reply::odata(204),
    };
    let location = encode::uri(context, |out| uri::write_table_uri(out, table.as_str()));
    let preference_applied = preference.map(Preference::text);
    Ok(Reply { location: Some(location), preference_applied, ..reply })
}

async fn get_table(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
) -> ApiResult<Reply> {
    check_options(call.query, &context.tolerance)?;
    let encoder = call.encoder(context)?;
    let info = api.tables.get_table(&context.account.name, table).await;
    let info = info.map_err(listed_table_error)?;
    let select = select(call.query, context.version)?;
    Ok(encoder.table(200, select.as_ref(), info.name.as_str()))
}

async fn delete_table(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
) -> ApiResult<Reply> {
    refuse_condition_on_table(context, &call.headers)?;
    let account = &context.account.name;
    api.tables.delete_table(account, table).await.map_err(listed_table_error)?;
    api.advice.forget(account, table);
    api.simulate(|simulator| {
        simulator.table_deleted(account, table, context.now);
        Ok(())
    })?;
    Ok(Reply::odata(204))
}

async fn get_entity(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
    key: &EntityKey,
) -> ApiResult<Reply> {
    check_options(call.query, &context.tolerance)?;
    let encoder = call.encoder(context)?;
    let select = select(call.query, context.version)?;
    if call.asked.is_some_and(|asked| asked.explain == Some(Explain::Plan)) {
        return queries::explain_point(api, context, table, key).await;
    }
    let account = &context.account.name;
    let is_explained = call.asked.is_some_and(|asked| asked.explain == Some(Explain::Run));
    let began = is_explained.then(Instant::now);
    let entity = match call.snapshot {
        None => api.tables.get(account, table, key).await?,
        Some(snapshot) => api.tables.get_at(snapshot, account, table, key).await?,
    };
    let properties = entity.properties()?;
    let shown = properties.iter().copied();
    let reply = encoder.entity(200, table, select.as_ref(), key, entity.timestamp, shown);
    if api.advice.is_open() {
        let whole_bytes = select.is_none().then_some(reply.body.len());
        api.advice.read(context, table, key, &properties, whole_bytes);
    }
    let work = Work { plan: Some(Plan::Point), examined: 1, returned: 1, operations: 0 };
    let mut reply = Reply { etag: Some(ETag(entity.timestamp)), work, ..reply };
    if let Some(began) = began {
        let cost = (entity.bytes(), began.elapsed());
        queries::explain_read(api, context, (table, key), cost, &mut reply).await?;
    }
    Ok(reply)
}

/// Tables have no etag (T-5.11).
fn refuse_condition_on_table(
    context: &RequestContext<'_>,
    headers: &CallHeaders<'_>,
) -> ApiResult<()> {
    match (headers.if_match, headers.if_none_match) {
        (None, None) => Ok(()),
        _ => {
            let error = ApiError::invalid_input(message::TARGET_HAS_NO_ETAG);
            context.tolerance.tolerate(Fault::ConditionOnTable, error, || Some(()))
        }
    }
}

/// A table requested by itself, not for its entities, is a resource (T-1.12).
fn listed_table_error(error: TableError) -> ApiError {
    match error {
        TableError::TableNotFound => ApiError::at_execution(ErrorCode::ResourceNotFound),
        other => other.into(),
    }
}

/// Refuses operations on a partition that exceeds its simulated rate limit.
pub(crate) fn admit(
    api: &TableApi,
    context: &RequestContext<'_>,
    table: &TableName,
    key: &EntityKey,
    operations: usize,
) -> ApiResult<()> {
    let (account, partition) = (&context.account.name, key.partition.as_str());
    api.simulate(|simulator| {
        simulator.admit_to_partition(account, table, partition, operations, context.now)
    })
}
