//! Entity changes, alone and in batches: from the call to the mutation, and on to its reply.

use crate::error::{ApiError, ApiResult};
use crate::headers::CallHeaders;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::table::api::TableApi;
use crate::table::call::Call;
use crate::table::encode;
use crate::table::error::body_key_error;
use crate::table::operation::{Operation, Resource};
use crate::table::request::{BodyFormat, Preference, body_format, response_format};
use lazuli_model::{
    ETag, EntityError, EntityKey, IfMatch, IfMatchError, PartitionKey, Properties, RowKey,
    TableName, Timestamp,
};
use lazuli_table::{Mutation, MutationKind, TableError};
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::odata::{self, EntityBody};
use lazuli_wire::uri;
use lazuli_wire::version::ApiVersion;

/// Changes one entity. Only the store can find that a merge makes it too wide (TR-29).
pub(crate) async fn apply(
    api: &TableApi,
    context: &RequestContext<'_>,
    table: &TableName,
    mutation: &Mutation<'_>,
) -> ApiResult<Timestamp> {
    let account = &context.account.name;
    match api.tables.mutate(account, table, mutation).await {
        Err(TableError::Entity(error @ EntityError::TooManyProperties))
            if context.tolerance.is_lenient() =>
        {
            context.tolerance.tolerate_properties(error)?;
            Ok(api.tables.mutate(account, table, &mutation.clone().relaxed()).await?)
        }
        outcome => Ok(outcome?),
    }
}

/// The existence of the table is checked before the keys of an entity: official clients use this
/// error to detect a table name in the account URL.
pub(crate) async fn check_table_first(
    api: &TableApi,
    context: &RequestContext<'_>,
    resource: &Resource,
    error: ApiError,
) -> ApiError {
    match resource.table() {
        Some(table) if error.code == ErrorCode::PropertiesNeedValue => {
            let found = api.tables.get_table(&context.account.name, table).await;
            found.map_or_else(ApiError::from, |_| error)
        }
        _ => error,
    }
}

/// Turns a call into a mutation; the same for a single request and a part of a batch.
pub(crate) fn decode<'a>(
    context: &RequestContext<'_>,
    call: &Call<'a>,
) -> ApiResult<(&'a TableName, Mutation<'a>)> {
    let (table, url_key) = match call.resource {
        Resource::Entities { table } => (table, None),
        Resource::Entity { table, key, .. } => (table, Some(key)),
        _ => return Err(ErrorCode::MethodNotAllowed.into()),
    };
    let kind = kind(call, context.version)?;
    if matches!(kind, MutationKind::Insert) && call.preference() != Some(Preference::NoContent) {
        // The response will have a body, so its format must be acceptable (T-2.14).
        response_format(call.accepted(), context.version)?;
    }
    let body = match kind {
        MutationKind::Delete(_) => EntityBody::default(),
        _ => decode_entity(context, call)?,
    };
    // The keys in the URL override those in the body (T-3.51, T-3.52).
    let key = match url_key {
        Some(key) => key.clone(),
        None => body_key(&body)?,
    };
    let limits = context.tolerance.property_limits(&body.properties)?;
    let properties = Properties::within(limits, body.properties)?;
    Ok((table, Mutation::new(key, kind, properties)?))
}

/// The reply to an applied change.
pub(crate) fn reply(
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
    mutation: &Mutation<'_>,
    timestamp: Timestamp,
) -> ApiResult<Reply> {
    let key = mutation.key();
    let preference = call.preference();
    let reply = match (mutation.kind(), preference) {
        (MutationKind::Delete(_), _) => return Ok(Reply::odata(204)),
        (_, Some(Preference::NoContent)) => {
            let data_service_version = call.version_without_body(context);
            Reply { data_service_version, ..Reply::odata(204) }
        }
        (MutationKind::Insert, _) => {
            let properties = mutation.properties().iter();
            call.encoder(context)?.entity(201, table, None, key, timestamp, properties)
        }
        _ => Reply::odata(204),
    };
    let location = matches!(mutation.kind(), MutationKind::Insert).then(|| {
        encode::uri(context, |out| {
            uri::write_entity_uri(out, table.as_str(), key.partition.as_str(), key.row.as_str());
        })
    });
    let preference_applied = preference.map(Preference::text);
    Ok(Reply { etag: Some(ETag(timestamp)), location, preference_applied, ..reply })
}

fn decode_entity<'a>(context: &RequestContext<'_>, call: &Call<'a>) -> ApiResult<EntityBody<'a>> {
    match body_format(call.headers.content_type, context.version)? {
        BodyFormat::Json => Ok(odata::json::read_entity(call.body)?),
        BodyFormat::Atom => Ok(odata::atom::read_entity(call.body)?),
    }
}

fn body_key(body: &EntityBody<'_>) -> ApiResult<EntityKey> {
    if body.has_mistyped_key {
        return Err(ApiError::invalid_input(message::INPUT_NOT_VALID));
    }
    let missing = ErrorCode::PropertiesNeedValue;
    let partition = body.partition_key.as_deref().ok_or(missing)?;
    let row = body.row_key.as_deref().ok_or(missing)?;
    let partition_key = PartitionKey::parse(partition)
        .map_err(|error| body_key_error(error, "PartitionKey", partition))?;
    let row_key = RowKey::parse(row).map_err(|error| body_key_error(error, "RowKey", row))?;
    Ok(EntityKey::new(partition_key, row_key))
}

/// Reads the condition headers (T-5.1 to T-5.12).
fn kind(call: &Call<'_>, version: ApiVersion) -> ApiResult<MutationKind> {
    let CallHeaders { if_match, if_none_match, .. } = call.headers;
    let deletes = match call.operation {
        Operation::InsertEntity => return Ok(MutationKind::Insert),
        Operation::DeleteEntity => true,
        Operation::UpdateEntity
        | Operation::InsertOrReplaceEntity
        | Operation::MergeEntity
        | Operation::InsertOrMergeEntity => false,
        _ => return Err(ErrorCode::MethodNotAllowed.into()),
    };
    match (if_match, if_none_match) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid_input(message::IF_MATCH_AND_IF_NONE_MATCH));
        }
        (None, Some(_)) if deletes => {
            return Err(ApiError::invalid_input(message::IF_NONE_MATCH_ON_DELETE));
        }
        (None, Some(_)) => return Err(ApiError::invalid_input(message::IF_NONE_MATCH_ON_PUT)),
        (_, None) => {}
    }
    let condition = match if_match {
        None => None,
        Some(text) => Some(
            IfMatch::parse(text).map_err(|error| if_match_error(error, text).while_parsing())?,
        ),
    };
    match (call.operation, condition) {
        // Without upserts, an update requires a condition, like a delete (T-5.40).
        (_, None) if !version.has_upsert() => Err(ErrorCode::MissingRequiredHeader.into()),
        (Operation::InsertOrReplaceEntity, None) => Ok(MutationKind::InsertOrReplace),
        (Operation::InsertOrMergeEntity, None) => Ok(MutationKind::InsertOrMerge),
        (Operation::UpdateEntity, Some(condition)) => Ok(MutationKind::Replace(condition)),
        (Operation::MergeEntity, Some(condition)) => Ok(MutationKind::Merge(condition)),
        (Operation::DeleteEntity, Some(condition)) => Ok(MutationKind::Delete(condition)),
        _ => Err(ErrorCode::MissingRequiredHeader.into()),
    }
}

/// An `If-Match` that names no version is refused during request parsing, whether or not the entity
/// exists (T-5.5, T-5.6).
fn if_match_error(error: IfMatchError, text: &str) -> ApiError {
    match error {
        IfMatchError::Foreign => ErrorCode::ConditionNotMet.into(),
        IfMatchError::Malformed => ApiError::invalid_input(message::etag_not_valid(text)),
    }
}
