//! Handlers of the XML operations: access policies, service properties, statistics, delegation keys.

use crate::auth::credentials::Credentials;
use crate::auth::delegation;
use crate::auth::permit::Principal;
use crate::error::ApiResult;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::table::api::TableApi;
use crate::table::faults::Fault;
use crate::table::handlers::Call;
use crate::table::operation::{Operation, Resource};
use lazuli_model::TableName;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::TableGrant;
use lazuli_wire::uri::Location;
use lazuli_wire::xml::{self, GeoReplication};

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
            Ok(document(|out| xml::write_signed_identifiers(out, &policies)))
        }
        (Operation::SetTableAcl, Resource::Acl { table }) => {
            set_policies(api, context, call, table).await
        }
        (Operation::GetServiceProperties, _) => {
            let properties = api.tables.service_properties(account).await?;
            let version = context.version;
            Ok(document(|out| xml::write_service_properties(out, &properties, version)))
        }
        (Operation::SetServiceProperties, _) => {
            let patch = xml::read_service_properties(call.body, context.version)?;
            let outcome = api.tables.set_service_properties(account, patch).await;
            // Also when the outcome is unknown: then the old ones may be stale.
            api.apply_changed_properties(account).await?;
            outcome?;
            Ok(Reply::xml(202, Vec::new()))
        }
        (Operation::GetServiceStats, _) => stats(context),
        (Operation::GetUserDelegationKey, _) => give_delegation_key(api, context, call, principal),
        _ => Err(ErrorCode::UnsupportedHttpVerb.into()),
    }
}

async fn set_policies(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    table: &TableName,
) -> ApiResult<Reply> {
    // The service takes no wildcard here (T-2.15a, TR-87).
    if call.headers.accept.is_some_and(|accept| accept.trim() == "*/*") {
        let error = ErrorCode::MediaTypeNotSupported.into();
        context.tolerance.tolerate(Fault::WildcardAccept, error, || Some(()))?;
    }
    let policies = xml::read_signed_identifiers(call.body)?;
    api.tables.set_access_policies(&context.account.name, table, policies).await?;
    Ok(Reply::xml(204, Vec::new()))
}

/// Only the secondary location says how far it follows (T-9.16). Ours is the same store.
fn stats(context: &RequestContext<'_>) -> ApiResult<Reply> {
    match context.location {
        Location::Primary => Err(ErrorCode::InvalidQueryParameterValue.into()),
        Location::Secondary => {
            let replication = GeoReplication::Live { last_sync: context.now };
            Ok(document(|out| xml::write_service_stats(out, replication)))
        }
    }
}

/// Only the holder of a bearer token has rights of their own to delegate.
fn give_delegation_key(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    principal: &Principal<TableGrant>,
) -> ApiResult<Reply> {
    if !api.gives_delegation_keys() {
        return Err(ErrorCode::InvalidQueryParameterValue.into());
    }
    let Principal::Bearer(identity, _) = principal else {
        return Err(ErrorCode::AuthenticationFailed.into());
    };
    let (account, version) = (&*context.account, context.version.to_string());
    let service = TableApi::LETTER.to_string();
    let key = delegation::give_key(account, identity, &service, &version, call.body, context.now)?;
    Ok(Reply::xml(200, key))
}

fn document(write: impl FnOnce(&mut Vec<u8>)) -> Reply {
    let mut body = Vec::with_capacity(1024);
    write(&mut body);
    Reply::xml(200, body)
}
