//! What a valid credential lets its holder do: the permissions of each operation.

use crate::bearer::{Identity, RoleGrant};
use crate::error::{ApiError, ApiResult};
use crate::operation::Operation;
use crate::table::Call;
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
            Self::Table(grant) => Ok(permit_by_table(grant, call)?),
            Self::Account(grant) => Ok(permit_by_account(grant, call)?),
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

/// The letters that an operation on entities needs, in tokens of either kind; `None` for others.
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

fn permit_by_table(grant: &TableGrant, call: &Call<'_>) -> Result<(), SasError> {
    let (Some(table), Some(needed)) = (call.operation.table(), entity_permissions(call)) else {
        return Err(SasError::Resource);
    };
    grant.check_table(table.as_str())?;
    grant.check_permissions(needed)
}

fn permit_by_account(grant: &AccountGrant, call: &Call<'_>) -> Result<(), SasError> {
    if let Some(needed) = entity_permissions(call) {
        // Whether a query of entities is of a container or an object, sources disagree.
        let types = match call.operation {
            Operation::QueryEntities { .. } => ResourceTypes::OBJECT | ResourceTypes::CONTAINER,
            _ => ResourceTypes::OBJECT,
        };
        return grant.check(types, &[needed]);
    }
    match call.operation {
        Operation::QueryTables | Operation::GetTable { .. } => {
            grant.check(ResourceTypes::CONTAINER, &[Permissions::LIST])
        }
        Operation::CreateTable => {
            grant.check(ResourceTypes::CONTAINER, &[Permissions::CREATE, Permissions::WRITE])
        }
        Operation::DeleteTable { .. } => {
            grant.check(ResourceTypes::CONTAINER, &[Permissions::DELETE])
        }
        Operation::GetServiceProperties | Operation::GetServiceStats => {
            grant.check(ResourceTypes::SERVICE, &[Permissions::READ])
        }
        Operation::SetServiceProperties => {
            grant.check(ResourceTypes::SERVICE, &[Permissions::WRITE])
        }
        // Access policies need the account key; a batch is judged part by part.
        _ => Err(SasError::Resource),
    }
}

/// What the roles of a bearer token permit.
fn permit_by_roles(grant: &RoleGrant, call: &Call<'_>) -> ApiResult<()> {
    let permitted = match call.operation {
        Operation::QueryTables | Operation::GetTable { .. } => {
            grant.tables.contains(Permissions::READ)
        }
        Operation::CreateTable => grant.tables.contains(Permissions::CREATE),
        Operation::DeleteTable { .. } => grant.tables.contains(Permissions::DELETE),
        Operation::GetServiceProperties | Operation::GetServiceStats => {
            grant.service.contains(Permissions::READ)
        }
        Operation::SetServiceProperties => grant.service.contains(Permissions::WRITE),
        Operation::GetUserDelegationKey => grant.delegation,
        // For such a caller access policies do not exist (A-8.9, TR-104).
        Operation::GetTableAcl { .. } | Operation::SetTableAcl { .. } => {
            return Err(ErrorCode::ResourceNotFound.into());
        }
        _ => entity_permissions(call).is_some_and(|needed| grant.entities.contains(needed)),
    };
    if permitted { Ok(()) } else { Err(SasError::Permission.into()) }
}

impl From<SasError> for ApiError {
    fn from(error: SasError) -> Self {
        Self::at_execution(error.code())
    }
}
