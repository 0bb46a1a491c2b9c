//! Handlers for the XML operations: access policies, service properties, statistics, delegation
//! keys.

use crate::auth::permit::Principal;
use crate::error::ApiResult;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::settings;
use crate::table::api::TableApi;
use crate::table::call::Call;
use crate::table::faults::Fault;
use crate::table::operation::{Operation, Resource};
use lazuli_model::TableName;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::TableGrant;
use lazuli_wire::xml;

/// Runs an XML operation.
pub(crate) async fn handle(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    principal: &Principal<TableGrant>,
) -> ApiResult<Reply> {
    let account = &context.account.name;
    match (call.operation, call.resource) {
        (Operation::GetTableAcl, Resource::Acl { table }) => {
            let policies = api.tables.access_policies(account, table).await?;
            Ok(settings::document(|out| xml::write_signed_identifiers(out, &policies)))
        }
        (Operation::SetTableAcl, Resource::Acl { table }) => {
            set_policies(api, context, call, table).await
        }
        (Operation::GetServiceProperties, _) => {
            let properties = api.tables.service_properties(account).await?;
            Ok(settings::properties(context, &properties))
        }
        (Operation::SetServiceProperties, _) => {
            let patch = settings::read_properties(context, call.body)?;
            let outcome = api.tables.set_service_properties(account, patch).await;
            // Even if the outcome is unknown: the cached ones may be stale.
            api.apply_changed_properties(account).await?;
            outcome?;
            Ok(Reply::xml(202, Vec::new()))
        }
        (Operation::GetServiceStats, _) => settings::stats(context),
        (Operation::GetUserDelegationKey, _) if api.gives_delegation_keys() => {
            settings::delegation_key::<TableApi>(context, call.body, principal)
        }
        (Operation::GetUserDelegationKey, _) => Err(ErrorCode::InvalidQueryParameterValue.into()),
        // Routing gives these their resource, and the others to other handlers. They are listed, so
        // that a new row does not compile before it has a handler.
        (
            Operation::GetTableAcl
            | Operation::SetTableAcl
            | Operation::CountEntities
            | Operation::DeleteEntities
            | Operation::GetAdvice
            | Operation::GetTableSetting
            | Operation::SetTableSetting
            | Operation::DeleteTableSetting
            | Operation::GetTableChanges
            | Operation::QueryEntity
            | Operation::InsertEntity
            | Operation::UpdateEntity
            | Operation::InsertOrReplaceEntity
            | Operation::MergeEntity
            | Operation::InsertOrMergeEntity
            | Operation::DeleteEntity
            | Operation::QueryEntities
            | Operation::EntityGroupTransaction
            | Operation::QueryTables
            | Operation::QueryTable
            | Operation::CreateTable
            | Operation::DeleteTable
            | Operation::KeyedNested,
            _,
        ) => Err(ErrorCode::UnsupportedHttpVerb.into()),
    }
}

async fn set_policies(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
) -> ApiResult<Reply> {
    // The service accepts no wildcard here (T-2.15a, TR-87).
    if call.headers.accept.is_some_and(|accept| accept.trim() == "*/*") {
        let error = ErrorCode::MediaTypeNotSupported.into();
        context.tolerance.tolerate(Fault::WildcardAccept, error, || Some(()))?;
    }
    let policies = xml::read_signed_identifiers(call.body)?;
    api.tables.set_access_policies(&context.account.name, table, policies).await?;
    Ok(Reply::xml(204, Vec::new()))
}
