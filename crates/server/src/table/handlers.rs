//! Handlers for the OData operations: decode, call the service, encode.

use crate::auth::permit::Principal;
use crate::error::{ApiError, ApiResult};
use crate::headers::{CallHeaders, DataServiceVersion};
use crate::http::profile::Tolerance;
use crate::http::reply::{Reply, Work};
use crate::http::request::RequestContext;
use crate::operation::{Answer, Plan};
use crate::table::api::TableApi;
use crate::table::encode::{self, Encoder};
use crate::table::error::filter_error;
use crate::table::faults::Fault;
use crate::table::mutations;
use crate::table::operation::{Operation, Resource};
use crate::table::request::{BodyFormat, Preference, body_format, check_options, response_format};
use lazuli_model::limits::PAGE_ITEMS_MAX;
use lazuli_model::{ETag, EntityKey, Filter, TableName};
use lazuli_table::{Continuation, EntityQuery, KeyBounds, PlanKind, TableError, TablesQuery};
use lazuli_wire::continuation;
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::media::{self, Accepted, Format};
use lazuli_wire::odata::{self, Select};
use lazuli_wire::sas::TableGrant;
use lazuli_wire::uri::{self, Query};
use lazuli_wire::version::ApiVersion;

/// One operation and its input, alone or as a part of a batch.
pub(crate) struct Call<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: &'a Resource,
    pub(crate) headers: CallHeaders<'a>,
    pub(crate) query: &'a Query<'a>,
    pub(crate) body: &'a [u8],
}

impl Call<'_> {
    pub(crate) fn accepted(&self) -> Accepted {
        media::negotiate(self.headers.accept, self.query.get("$format"))
    }

    /// The preference that applies to this operation.
    pub(crate) fn preference(&self) -> Option<Preference> {
        self.headers.preference(self.operation.facts().answer)
    }

    pub(crate) fn encoder<'e>(&self, context: &'e RequestContext<'e>) -> ApiResult<Encoder<'e>> {
        let format = response_format(self.accepted(), context.version)?;
        Ok(Encoder { context, format, data_service_version: self.version_of(format, context) })
    }

    /// The OData version of a response in `format`: Atom repeats that of the request (T-2.20).
    fn version_of(&self, format: Format, context: &RequestContext<'_>) -> DataServiceVersion {
        let highest = || DataServiceVersion::highest_at(context.version);
        match format {
            Format::Json(_) => DataServiceVersion::V3,
            Format::Atom(_) => self.headers.data_service_version.unwrap_or_else(highest),
        }
    }

    /// The version of a response without a body because the client prefers none. If no format can
    /// be negotiated, none is needed, and the response counts as JSON.
    pub(crate) fn version_without_body(&self, context: &RequestContext<'_>) -> DataServiceVersion {
        let is_update = self.operation.facts().answer == Answer::NoContent;
        match response_format(self.accepted(), context.version) {
            Ok(Format::Atom(_)) if is_update => DataServiceVersion::V1,
            Ok(format) => self.version_of(format, context),
            Err(_) => DataServiceVersion::V3,
        }
    }
}

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
            query_entities(api, context, call, table, principal.bounds()).await
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
            let timestamp = mutations::apply(api, context, table, &mutation).await?;
            mutations::reply(context, call, table, &mutation, timestamp)
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
    api.simulate(|simulator| {
        simulator.table_deleted(account, table, context.now);
        Ok(())
    })?;
    Ok(Reply::odata(204))
}

async fn query_entities(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
    bounds: KeyBounds,
) -> ApiResult<Reply> {
    check_options(call.query, &context.tolerance)?;
    let encoder = call.encoder(context)?;
    let select = select(call.query, context.version)?;
    let query = EntityQuery {
        filter: filter(api, context, call.query)?,
        top: top(call.query, &context.tolerance)?,
        from: entity_continuation(call.query, &context.tolerance)?,
        bounds,
        rows_read_max: api.page_rows(),
    };
    let mut entities = encoder.entities(table, select.as_ref());
    let end = api
        .tables
        .query(&context.account.name, table, query, &mut |entity| {
            entities.push(
                entity.partition_key,
                entity.row_key,
                entity.timestamp,
                entity.properties.iter().copied(),
            );
        })
        .await?;
    let mut reply = entities.finish();
    reply.work = Work {
        plan: Some(plan(end.plan)),
        examined: u32::try_from(end.rows_read).unwrap_or(u32::MAX),
        returned: u32::try_from(end.rows_returned).unwrap_or(u32::MAX),
        operations: 0,
    };
    if let Some(next) = end.next {
        let token = |text: String| continuation::encode(text.as_bytes());
        reply.more.push(("x-ms-continuation-nextpartitionkey", token(next.partition)));
        if let Some(row) = next.row {
            reply.more.push(("x-ms-continuation-nextrowkey", token(row)));
        }
    }
    Ok(reply)
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
    let entity = api.tables.get(&context.account.name, table, key).await?;
    let properties = entity.properties()?.into_iter();
    let reply = encoder.entity(200, table, select.as_ref(), key, entity.timestamp, properties);
    let work = Work { plan: Some(Plan::Point), examined: 1, returned: 1, operations: 0 };
    Ok(Reply { etag: Some(ETag(entity.timestamp)), work, ..reply })
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
    }
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

fn filter(
    api: &TableApi,
    context: &RequestContext<'_>,
    query: &Query<'_>,
) -> ApiResult<Option<Filter>> {
    let text = query.get("$filter").unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(None);
    }
    let filter = odata::filter::parse(text).or_else(|error| {
        let error = filter_error(&error, text);
        let lenient = || odata::filter::parse_lenient(text).ok();
        context.tolerance.tolerate(Fault::FilterDialect, error, lenient)
    })?;
    api.simulate(|simulator| simulator.check_filter(&filter))?;
    Ok(Some(filter))
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

/// Versions without `$select` treat it as an unknown option (T-4.45c).
fn select(query: &Query<'_>, version: ApiVersion) -> ApiResult<Option<Select>> {
    match query.get("$select") {
        None => Ok(None),
        Some(text) if version.has_select() => {
            Select::parse(text).map(Some).map_err(|_| ErrorCode::InvalidInput.into())
        }
        Some(_) => Err(ErrorCode::InvalidInput.into()),
    }
}

/// `$top` is a page size from 0 to 1000 (T-4.47 to T-4.51).
fn top(query: &Query<'_>, tolerance: &Tolerance) -> ApiResult<usize> {
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
fn entity_continuation(
    query: &Query<'_>,
    tolerance: &Tolerance,
) -> ApiResult<Option<Continuation>> {
    let invalid = || ApiError::from(ErrorCode::InvalidInput);
    let token = |name| match query.get(name) {
        None => Ok(None),
        Some("") if name == "NextRowKey" => {
            tolerance.tolerate(Fault::EmptyContinuation, invalid(), || Some(None))
        }
        Some(text) => continuation::decode_key(text).map(Some).ok_or_else(invalid),
    };
    match (token("NextPartitionKey")?, token("NextRowKey")?) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(ErrorCode::InvalidInput.into()),
        (Some(partition), row) => Ok(Some(Continuation { partition, row })),
    }
}
