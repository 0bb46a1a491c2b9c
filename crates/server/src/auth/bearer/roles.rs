//! Maps the values of role claims to permissions.
//!
//! In Azure a directory assigns roles to users, and the service looks them up. Here the token
//! carries them, in the claims `roles`, `groups`, `scp` or `scope`. Each service defines names for
//! its roles and data actions, and the operator can add others.

use lazuli_wire::sas::Permissions;
use std::collections::HashMap;

/// What the roles of a token permit in one service, by the level of the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleGrant {
    /// Entities, messages, blobs.
    pub objects: Permissions,
    /// Tables, queues, containers: read (list), create and delete.
    pub containers: Permissions,
    /// Read and write properties; read statistics. A recording of one account shows that these roles
    /// have them; which role has which is not verified.
    pub service: Permissions,
    /// Whether user delegation keys are issued.
    pub delegation: bool,
}

impl RoleGrant {
    /// Only permission to get a user delegation key.
    pub(crate) const DELEGATION: Self = Self { delegation: true, ..Self::NONE };

    /// These permissions on objects: entities or messages.
    pub(crate) const fn on_objects(objects: Permissions) -> Self {
        Self { objects, ..Self::NONE }
    }

    /// These permissions on containers: tables or queues.
    pub(crate) const fn on_containers(containers: Permissions) -> Self {
        Self { containers, ..Self::NONE }
    }

    /// These permissions on the service.
    pub(crate) const fn on_service(service: Permissions) -> Self {
        Self { service, ..Self::NONE }
    }

    pub(crate) const NONE: Self = Self {
        objects: Permissions::NONE,
        containers: Permissions::NONE,
        service: Permissions::NONE,
        delegation: false,
    };

    fn union(self, other: Self) -> Self {
        Self {
            objects: self.objects.union(other.objects),
            containers: self.containers.union(other.containers),
            service: self.service.union(other.service),
            delegation: self.delegation || other.delegation,
        }
    }
}

/// The roles and data actions of one service.
#[derive(Debug)]
pub struct RoleNames {
    /// The word for the service in names such as "Storage Table Data Reader", in lower case.
    pub(crate) service: &'static str,
    /// The names of its levels in explanations.
    pub(crate) objects: &'static str,
    pub(crate) containers: &'static str,
    /// The last words of its roles, such as `reader`, in lower case and without spaces.
    pub(crate) roles: &'static [(&'static str, RoleGrant)],
    /// Its data actions, by what follows `{service}Services/` in their names.
    pub(crate) actions: &'static [(&'static str, RoleGrant)],
}

impl RoleNames {
    /// Every set of permissions on objects that roles and data actions may give together, those of a
    /// single role first.
    pub(crate) fn object_sets(&self) -> impl Iterator<Item = Permissions> {
        let grants = self.roles.iter().chain(self.actions);
        let all = grants.fold(Permissions::NONE, |all, (_, grant)| all.union(grant.objects));
        let of_one = |set: &Permissions| self.roles.iter().any(|(_, grant)| grant.objects == *set);
        let (frequent, others): (Vec<_>, Vec<_>) = all.subsets().partition(of_one);
        frequent.into_iter().chain(others)
    }

    /// A role by its name in the documentation. Names have no spaces in scopes and in many
    /// directories, so separators between the words are ignored.
    fn built_in(&self, name: &str) -> Option<RoleGrant> {
        let letters = name.chars().filter(|c| !matches!(c, ' ' | '.' | '-' | '_'));
        let name: String = letters.map(|c| c.to_ascii_lowercase()).collect();
        let name = name.strip_prefix("storage")?.strip_prefix(self.service)?;
        self.abbreviated(name.strip_prefix("data").unwrap_or(name))
    }

    /// A role by the short name that an operator uses. In a token, such a word could mean anything.
    fn abbreviated(&self, name: &str) -> Option<RoleGrant> {
        find(self.roles, name)
    }

    /// A data action by the end of its name.
    fn data_action(&self, name: &str) -> Option<RoleGrant> {
        let end = match name.rsplit_once("Services/") {
            Some((provider, end)) => provider.ends_with(self.service).then_some(end)?,
            None => name,
        };
        find(self.actions, end)
    }
}

fn find(names: &[(&str, RoleGrant)], name: &str) -> Option<RoleGrant> {
    names.iter().find(|(known, _)| *known == name).map(|(_, grant)| *grant)
}

/// What values of role claims permit: the names of the services' roles, and the operator's own.
#[derive(Clone, Debug)]
pub struct RoleMap {
    services: &'static [&'static RoleNames],
    /// By value: what it permits in each service.
    added: HashMap<String, Vec<(&'static str, RoleGrant)>>,
}

/// Why a mapping is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleMapError {
    #[error("'{0}' is not VALUE=ROLE")]
    Shape(String),
    #[error("'{0}' is neither a role nor a data action")]
    Role(String),
}

impl RoleMap {
    /// A map of the roles of these services only.
    pub fn new(services: &'static [&'static RoleNames]) -> Self {
        Self { services, added: HashMap::new() }
    }

    /// Adds `VALUE=ROLE`, where the role is `reader`, `contributor`, or comma-separated data
    /// actions, such as `tables/entities/read,tables/entities/add/action`.
    pub fn add(&mut self, mapping: &str) -> Result<(), RoleMapError> {
        let shape = || RoleMapError::Shape(mapping.to_owned());
        let (value, role) = mapping.rsplit_once('=').ok_or_else(shape)?;
        if value.is_empty() || role.is_empty() {
            return Err(shape());
        }
        let mut grants = Vec::new();
        for part in role.split(',').map(str::trim) {
            let known = grants.len();
            grants.extend(self.services.iter().filter_map(|names| {
                let role = names.abbreviated(part).or_else(|| names.built_in(part));
                Some((names.service, role.or_else(|| names.data_action(part))?))
            }));
            if grants.len() == known {
                return Err(RoleMapError::Role(part.to_owned()));
            }
        }
        self.added.entry(value.to_owned()).or_default().extend(grants);
        Ok(())
    }

    /// Everything that the values of a token's claims together permit in one service.
    pub(super) fn grant<'v>(
        &self,
        values: impl Iterator<Item = &'v str>,
        names: &RoleNames,
    ) -> RoleGrant {
        let added = |value: &str| {
            let grants = self.added.get(value)?.iter();
            let ours = grants.filter(|(service, _)| *service == names.service);
            Some(ours.fold(RoleGrant::NONE, |sum, (_, grant)| sum.union(*grant)))
        };
        values
            .filter_map(|value| added(value).or_else(|| names.built_in(value)))
            .fold(RoleGrant::NONE, RoleGrant::union)
    }
}
