//! From the values of role claims to permissions.
//!
//! In the cloud a directory assigns roles to people, and the service looks them up. Here the token
//! brings them along, in the claims `roles`, `groups`, `scp` or `scope`; what a value permits is
//! the one table below, and what the operator adds to it.

use lazuli_wire::sas::Permissions;
use std::collections::HashMap;

/// What the roles of a token permit, by the kind of resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleGrant {
    /// `r`, `a`, `u`, `d`, as in a token for a table.
    pub entities: Permissions,
    /// Read (query), create and delete.
    pub tables: Permissions,
    /// Read and write of properties; read of statistics. That these roles have them is recorded for
    /// one account only; which of them has which is not verified.
    pub service: Permissions,
    /// Whether keys for user delegation are given out.
    pub delegation: bool,
}

impl RoleGrant {
    /// Storage Table Data Reader.
    pub fn reader() -> Self {
        let read = Permissions::READ;
        Self { entities: read, tables: read, service: read, delegation: true }
    }

    /// Storage Table Data Contributor.
    pub fn contributor() -> Self {
        Self {
            entities: Permissions::READ
                | Permissions::ADD
                | Permissions::UPDATE
                | Permissions::DELETE,
            tables: Permissions::READ | Permissions::CREATE | Permissions::DELETE,
            service: Permissions::READ | Permissions::WRITE,
            delegation: true,
        }
    }

    fn union(self, other: Self) -> Self {
        Self {
            entities: self.entities | other.entities,
            tables: self.tables | other.tables,
            service: self.service | other.service,
            delegation: self.delegation || other.delegation,
        }
    }
}

/// What values of role claims permit: the names of the service's roles, and the operator's own.
#[derive(Clone, Debug, Default)]
pub struct RoleMap(HashMap<String, RoleGrant>);

/// Why a mapping cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleMapError {
    #[error("'{0}' is not VALUE=ROLE")]
    Shape(String),
    #[error("'{0}' is neither a role nor a data action")]
    Role(String),
}

impl RoleMap {
    /// Adds `VALUE=ROLE`, where the role is `reader`, `contributor`, or data actions with commas
    /// between them, such as `tables/entities/read,tables/entities/add/action`.
    pub fn add(&mut self, mapping: &str) -> Result<(), RoleMapError> {
        let shape = || RoleMapError::Shape(mapping.to_owned());
        let (value, role) = mapping.rsplit_once('=').ok_or_else(shape)?;
        if value.is_empty() || role.is_empty() {
            return Err(shape());
        }
        let mut grant = RoleGrant::default();
        for part in role.split(',').map(str::trim) {
            let found = abbreviated(part).or_else(|| built_in(part)).or_else(|| data_action(part));
            grant = grant.union(found.ok_or_else(|| RoleMapError::Role(part.to_owned()))?);
        }
        let known = self.0.entry(value.to_owned()).or_default();
        *known = known.union(grant);
        Ok(())
    }

    /// All that the values of a token's claims permit together.
    pub(super) fn grant<'v>(&self, values: impl Iterator<Item = &'v str>) -> RoleGrant {
        values
            .filter_map(|value| self.0.get(value).copied().or_else(|| built_in(value)))
            .fold(RoleGrant::default(), RoleGrant::union)
    }
}

/// A role by its name in the documentation. In scopes and in many directories names have no spaces,
/// so marks between the words do not count.
fn built_in(name: &str) -> Option<RoleGrant> {
    let letters = name.chars().filter(|c| !matches!(c, ' ' | '.' | '-' | '_'));
    let name: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    let name = name.strip_prefix("storagetable")?;
    abbreviated(name.strip_prefix("data").unwrap_or(name))
}

/// A role by the name an operator gives it. In a token such a word may mean anything.
fn abbreviated(name: &str) -> Option<RoleGrant> {
    match name {
        "reader" => Some(RoleGrant::reader()),
        "contributor" => Some(RoleGrant::contributor()),
        "delegator" => Some(RoleGrant { delegation: true, ..RoleGrant::default() }),
        _ => None,
    }
}

/// A data action by the end of its name (the table of ).
fn data_action(name: &str) -> Option<RoleGrant> {
    let name = name.rsplit_once("tableServices/").map_or(name, |(_, end)| end);
    let entities = |entities| Some(RoleGrant { entities, ..RoleGrant::default() });
    let tables = |tables| Some(RoleGrant { tables, ..RoleGrant::default() });
    match name {
        "tables/entities/read" => entities(Permissions::READ),
        "tables/entities/add/action" => entities(Permissions::ADD),
        "tables/entities/update/action" => entities(Permissions::UPDATE),
        "tables/entities/write" => entities(Permissions::ADD | Permissions::UPDATE),
        "tables/entities/delete" => entities(Permissions::DELETE),
        "tables/read" => tables(Permissions::READ),
        "tables/write" => tables(Permissions::CREATE),
        "tables/delete" => tables(Permissions::DELETE),
        "read" => Some(RoleGrant { service: Permissions::READ, ..RoleGrant::default() }),
        "write" => Some(RoleGrant { service: Permissions::WRITE, ..RoleGrant::default() }),
        "generateUserDelegationKey/action" => {
            Some(RoleGrant { delegation: true, ..RoleGrant::default() })
        }
        _ => None,
    }
}
