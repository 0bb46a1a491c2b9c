//! Handlers of the XML operations: access policies, service properties, statistics.

use crate::http::error::{ApiError, ApiResult};
use crate::http::profile::Fault;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::table::handlers::Call;
use crate::table::operation::Operation;
use lazuli_model::TableName;
use lazuli_table::TableService;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::uri::Location;
use lazuli_wire::xml::{self, GeoReplication, XmlError};

/// Runs an XML operation.
pub(crate) async fn handle(
    service: &TableService,
    context: &RequestContext,
    call: &Call<'_>,
) -> ApiResult<Reply> {
    let account = &context.account.name;
    match call.operation {
        Operation::GetTableAcl { table } => {
            let policies = service.access_policies(account, table).await?;
            Ok(document(|out| xml::write_signed_identifiers(out, &policies)))
        }
        Operation::SetTableAcl { table } => set_policies(service, context, call, table).await,
        Operation::GetServiceProperties => {
            let properties = service.service_properties(account).await?;
            let version = context.version;
            Ok(document(|out| xml::write_service_properties(out, &properties, version)))
        }
        Operation::SetServiceProperties => {
            let patch = xml::read_service_properties(call.body, context.version)?;
            service.set_service_properties(account, patch).await?;
            Ok(Reply::xml(202, Vec::new()))
        }
        Operation::GetServiceStats => stats(context),
        _ => Err(ErrorCode::UnsupportedHttpVerb.into()),
    }
}

async fn set_policies(
    service: &TableService,
    context: &RequestContext,
    call: &Call<'_>,
    table: &TableName,
) -> ApiResult<Reply> {
    // The service takes no wildcard here (T-2.15a, TR-87).
    if call.headers.accept.is_some_and(|accept| accept.trim() == "*/*") {
        let error = ErrorCode::MediaTypeNotSupported.into();
        context.tolerance.tolerate(Fault::WildcardAccept, error, || Some(()))?;
    }
    let policies = xml::read_signed_identifiers(call.body)?;
    service.set_access_policies(&context.account.name, table, policies).await?;
    Ok(Reply::xml(204, Vec::new()))
}

/// Only the secondary location tells how far it follows (T-9.16). Ours is the same store.
fn stats(context: &RequestContext) -> ApiResult<Reply> {
    match context.location {
        Location::Primary => Err(ErrorCode::InvalidQueryParameterValue.into()),
        Location::Secondary => {
            let replication = GeoReplication::Live { last_sync: context.now };
            Ok(document(|out| xml::write_service_stats(out, replication)))
        }
    }
}

fn document(write: impl FnOnce(&mut Vec<u8>)) -> Reply {
    let mut body = Vec::with_capacity(1024);
    write(&mut body);
    Reply::xml(200, body)
}

impl From<XmlError> for ApiError {
    fn from(error: XmlError) -> Self {
        error.code().into()
    }
}
