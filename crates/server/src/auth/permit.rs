//! What a valid credential lets its holder do: the permissions of each operation.

use crate::auth::bearer::{Identity, RoleGrant};
use crate::auth::explain;
use crate::http::error::{ApiError, ApiResult};
use crate::table::handlers::Call;
use crate::table::operation::Operation;
use lazuli_model::EntityKey;
use lazuli_table::KeyBounds;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::{AccountGrant, Permissions, ResourceTypes, SasError, TableGrant};

/// Whom a valid credential names.
#[derive(Clone, Debug)]
pub(crate) enum Principal {
    /// A holder of an account key: may do everything.
    Owner,
    /// A holder of a token for one table.
    Table(TableGrant),
    /// A holder of a token for the account.
    Account(AccountGrant),
    /// Somebody whom a bearer token names.
    Bearer(Identity),
}

impl Principal {
    /// Refuses an operation that the credential does not cover.
    pub(crate) fn permit(&self, call: &Call<'_>) -> ApiResult<()> {
        match self {
            Self::Owner => Ok(()),
            Self::Table(grant) => permit_by_table(grant, call),
            Self::Account(grant) => permit_by_account(grant, call),
            Self::Bearer(identity) => permit_by_roles(&identity.grant, call),
        }
    }

    /// Refuses an entity outside the credential's range of keys.
    pub(crate) fn permit_key(&self, key: &EntityKey) -> ApiResult<()> {
        match self {
            Self::Owner | Self::Account(_) | Self::Bearer(_) => Ok(()),
            Self::Table(grant) => Ok(grant.check_key(key.partition.as_str(), key.row.as_str())?),
        }
    }

    /// The entities a query may show; the others are passed over in silence.
    pub(crate) fn bounds(&self) -> KeyBounds {
        match self {
            Self::Owner | Self::Account(_) | Self::Bearer(_) => KeyBounds::default(),
            Self::Table(grant) => {
                let range = grant.range().clone();
                KeyBounds { start: range.start, end: range.end }
            }
        }
    }
}

/// The letters that an operation on entities needs, in tokens of any kind; `None` for others.
fn entity_permissions(call: &Call<'_>) -> Option<Permissions> {
    match call.operation {
        Operation::QueryEntities { .. } | Operation::GetEntity { .. } => Some(Permissions::READ),
        Operation::KeyedNested { .. } => Some(Permissions::READ),
        Operation::InsertEntity { .. } => Some(Permissions::ADD),
        Operation::PutEntity { .. } | Operation::MergeEntity { .. } => {
            // An upsert may do either, so it needs both letters (TR-95).
            let upsert = call.headers.if_match.is_none();
            Some(if upsert { Permissions::ADD | Permissions::UPDATE } else { Permissions::UPDATE })
        }
        Operation::DeleteEntity { .. } => Some(Permissions::DELETE),
        _ => None,
    }
}

fn permit_by_table(grant: &TableGrant, call: &Call<'_>) -> ApiResult<()> {
    let (Some(table), Some(needed)) = (call.operation.table(), entity_permissions(call)) else {
        return Err(SasError::Resource.into());
    };
    let permitted =
        grant.check_table(table.as_str()).and_then(|()| grant.check_permissions(needed));
    permitted.map_err(|error| {
        ApiError::from(error).explained(format!(
            "The token permits '{}' on the table '{}'; {} on '{}' needs '{}'.",
            grant.permissions().letters(),
            grant.table(),
            call.operation.name(),
            table.lower(),
            needed.letters(),
        ))
    })
}

fn permit_by_account(grant: &AccountGrant, call: &Call<'_>) -> ApiResult<()> {
    let (types, any_of) = account_permissions(call).ok_or(SasError::Resource)?;
    grant.check(types, &any_of).map_err(|error| {
        let mut letters = any_of.map(Permissions::letters).to_vec();
        letters.dedup();
        ApiError::from(error).explained(format!(
            "The token permits '{}' on resource types '{}'; {} needs '{}' on '{}'.",
            grant.permissions().letters(),
            grant.resource_types().letters(),
            call.operation.name(),
            letters.join("' or '"),
            types.letters(),
        ))
    })
}

/// The types of resources, and the sets of letters, one of which an operation needs in a token for
/// the account (the table of auth.md 9); `None` for what no such token permits.
fn account_permissions(call: &Call<'_>) -> Option<(ResourceTypes, [Permissions; 2])> {
    if let Some(needed) = entity_permissions(call) {
        // Whether a query of entities is of a container or an object, sources disagree.
        let types = match call.operation {
            Operation::QueryEntities { .. } => ResourceTypes::OBJECT | ResourceTypes::CONTAINER,
            _ => ResourceTypes::OBJECT,
        };
        return Some((types, [needed; 2]));
    }
    let (types, letters) = match call.operation {
        Operation::QueryTables | Operation::GetTable { .. } => {
            (ResourceTypes::CONTAINER, [Permissions::LIST; 2])
        }
        Operation::CreateTable => {
            (ResourceTypes::CONTAINER, [Permissions::CREATE, Permissions::WRITE])
        }
        Operation::DeleteTable { .. } => (ResourceTypes::CONTAINER, [Permissions::DELETE; 2]),
        Operation::GetServiceProperties | Operation::GetServiceStats => {
            (ResourceTypes::SERVICE, [Permissions::READ; 2])
        }
        Operation::SetServiceProperties => (ResourceTypes::SERVICE, [Permissions::WRITE; 2]),
        // Access policies need the account key; a batch is judged part by part.
        _ => return None,
    };
    Some((types, letters))
}

/// What the roles of a bearer token permit.
fn permit_by_roles(grant: &RoleGrant, call: &Call<'_>) -> ApiResult<()> {
    let (resource, has, needed) = match call.operation {
        Operation::QueryTables | Operation::GetTable { .. } => {
            ("tables", grant.tables, Permissions::READ)
        }
        Operation::CreateTable => ("tables", grant.tables, Permissions::CREATE),
        Operation::DeleteTable { .. } => ("tables", grant.tables, Permissions::DELETE),
        Operation::GetServiceProperties | Operation::GetServiceStats => {
            ("the service", grant.service, Permissions::READ)
        }
        Operation::SetServiceProperties => ("the service", grant.service, Permissions::WRITE),
        Operation::GetUserDelegationKey if grant.delegation => return Ok(()),
        // For such a caller access policies do not exist (A-8.9, TR-104).
        Operation::GetTableAcl { .. } | Operation::SetTableAcl { .. } => {
            return Err(ErrorCode::ResourceNotFound.into());
        }
        _ => match entity_permissions(call) {
            Some(needed) => ("entities", grant.entities, needed),
            None => return Err(SasError::Permission.into()),
        },
    };
    if has.contains(needed) {
        return Ok(());
    }
    Err(ApiError::from(SasError::Permission).explained(format!(
        "The roles of the token permit '{}' on {resource}; {} needs '{}'.",
        has.letters(),
        call.operation.name(),
        needed.letters(),
    )))
}

impl From<SasError> for ApiError {
    fn from(error: SasError) -> Self {
        Self::at_execution(error.code()).explained(format!("{}.", explain::sentence(error)))
    }
}
