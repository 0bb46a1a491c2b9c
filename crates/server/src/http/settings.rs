//! The operations on a service itself, common to all services: properties, statistics, user
//! delegation keys.

use crate::auth::credentials::Credentials;
use crate::auth::delegation;
use crate::auth::permit::Principal;
use crate::error::{ApiResult, invalid_parameter};
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use lazuli_model::{ServiceProperties, ServicePropertiesPatch};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::uri::Location;
use lazuli_wire::xml::{self, GeoReplication};

/// Get Service Properties.
pub(crate) fn properties(context: &RequestContext<'_>, properties: &ServiceProperties) -> Reply {
    document(|out| xml::write_service_properties(out, properties, context.version))
}

/// Reads the body of Set Service Properties, which returns 202 without a body.
pub(crate) fn read_properties(
    context: &RequestContext<'_>,
    body: &[u8],
) -> ApiResult<ServicePropertiesPatch> {
    Ok(xml::read_service_properties(body, context.version)?)
}

/// Get Service Stats. Only the secondary location reports its replication status (T-9.16). Ours is
/// the same store.
pub(crate) fn stats(context: &RequestContext<'_>) -> ApiResult<Reply> {
    match context.location {
        Location::Primary => Err(invalid_parameter("comp", "stats", "")),
        Location::Secondary => {
            let replication = GeoReplication::Live { last_sync: context.now };
            Ok(document(|out| xml::write_service_stats(out, replication)))
        }
    }
}

/// Get User Delegation Key. Only the holder of a bearer token has permissions to delegate.
pub(crate) fn delegation_key<S: Credentials>(
    context: &RequestContext<'_>,
    body: &[u8],
    principal: &Principal<S::Grant>,
) -> ApiResult<Reply> {
    let Principal::Bearer(identity, _) = principal else {
        return Err(ErrorCode::AuthenticationFailed.into());
    };
    let (service, version) = (S::LETTER.to_string(), context.version.to_string());
    let account = &*context.account;
    let key = delegation::give_key(account, identity, &service, &version, body, context.now)?;
    Ok(Reply::xml(200, key))
}

/// An XML document.
pub(crate) fn document(write: impl FnOnce(&mut Vec<u8>)) -> Reply {
    let mut body = Vec::with_capacity(1024);
    write(&mut body);
    Reply::xml(200, body)
}
