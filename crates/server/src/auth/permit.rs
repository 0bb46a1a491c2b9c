//! What a valid credential permits, by the row of each operation.

use crate::auth::bearer::{Identity, RoleGrant, RoleNames};
use crate::auth::credentials::Grant;
use crate::error::{ApiError, ApiResult};
use crate::operation::{Facts, Role};
use crate::refusal::Refusal;
use lazuli_wire::sas::{AccountGrant, Permissions, SasError};

/// The holder of a valid credential.
#[derive(Clone, Debug)]
pub(crate) enum Principal<G> {
    /// A holder of an account key, the first or the second: everything is permitted.
    Owner { key: usize },
    /// A holder of a token of the service's own kind.
    Service(G),
    /// A holder of a token for the account.
    Account(AccountGrant),
    /// The holder of a bearer token, and the names of what the roles permit.
    Bearer(Identity, &'static RoleNames),
}

impl<G: Grant> Principal<G> {
    /// The index of the account key that signed, if one did.
    pub(crate) fn signing_key(&self) -> Option<usize> {
        match self {
            Self::Owner { key } => Some(*key),
            Self::Service(_) | Self::Account(_) | Self::Bearer(..) => None,
        }
    }

    /// Refuses an operation that the credential does not cover.
    pub(crate) fn permit(&self, facts: &Facts, resource: &G::Resource) -> ApiResult<()> {
        match self {
            Self::Owner { .. } => Ok(()),
            Self::Service(grant) => grant.permit(facts, resource),
            Self::Account(grant) => permit_by_account(grant, facts),
            Self::Bearer(identity, names) => permit_by_role(&identity.grant, names, facts),
        }
    }
}

fn permit_by_account(grant: &AccountGrant, facts: &Facts) -> ApiResult<()> {
    let needed = facts.account_sas.ok_or(SasError::Resource)?;
    grant.check(needed.types, &needed.any_of).map_err(|error| {
        let mut letters = needed.any_of.map(Permissions::letters).to_vec();
        letters.dedup();
        ApiError::from(error).explained(format!(
            "The token permits '{}' on resource types '{}'; {} needs '{}' on '{}'.",
            grant.permissions().letters(),
            grant.resource_types().letters(),
            facts.name,
            letters.join("' or '"),
            needed.types.letters(),
        ))
    })
}

/// What the roles of a bearer token permit.
fn permit_by_role(grant: &RoleGrant, names: &RoleNames, facts: &Facts) -> ApiResult<()> {
    let (resources, has, needed) = match facts.role {
        Role::Object(needed) => (names.objects, grant.objects, needed),
        Role::Container(needed) => (names.containers, grant.containers, needed),
        Role::Service(needed) => ("the service", grant.service, needed),
        Role::Delegation if grant.delegation => return Ok(()),
        Role::Delegation => return Err(lacks_role()),
        Role::Nobody(code) => return Err(ApiError::refused(code, Refusal::Role)),
    };
    if has.contains(needed) {
        return Ok(());
    }
    Err(lacks_role().explained(format!(
        "The roles of the token permit '{}' on {resources}; {} needs '{}'.",
        has.letters(),
        facts.name,
        needed.letters(),
    )))
}

fn lacks_role() -> ApiError {
    ApiError { refusal: Some(Refusal::Role), ..SasError::Permission.into() }
}
