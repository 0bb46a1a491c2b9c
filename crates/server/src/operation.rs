//! The facts about an operation: one row in the table of its service.
//!
//! The router reads its verb and URL, the front its version, body and access, authorization its
//! letters and roles, analytics and metrics its names. A service declares its rows with
//! [`operations!`]; a row that lacks a field does not compile.

use crate::error::ApiResult;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::{Permissions, ResourceTypes};
use lazuli_wire::version::ApiVersion;

/// The facts of one operation that every part of the server reads.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Its name in analytics, logs and messages.
    pub(crate) name: &'static str,
    /// Its kind in metrics.
    pub(crate) kind: Kind,
    /// The first version that has it.
    pub(crate) since: ApiVersion,
    pub(crate) body: Body,
    pub(crate) answer: Answer,
    /// Whether the secondary location refuses it.
    pub(crate) access: Access,
    /// The permissions it needs in a service SAS; `None` if no service SAS permits it.
    pub(crate) service_sas: Option<Permissions>,
    /// What it needs in an account SAS; `None` if no account SAS permits it.
    pub(crate) account_sas: Option<AccountSas>,
    /// The role it needs in a bearer token.
    pub(crate) role: Role,
}

impl Facts {
    /// The row of OPTIONS, which the front handles without a credential.
    pub(crate) const fn preflight(name: &'static str, answer: Answer) -> Self {
        Self {
            name,
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer,
            access: Access::Reads,
            service_sas: None,
            account_sas: None,
            role: Role::Nobody(ErrorCode::AuthorizationPermissionMismatch),
        }
    }
}

/// An operation of a service. [`operations!`] implements it.
pub(crate) trait Operation: Copy + Send + Sync + 'static {
    /// Every operation, in the order of [`index`](Self::index).
    fn all() -> &'static [Self];

    fn index(self) -> usize;

    fn facts(self) -> &'static Facts;
}

/// What an operation needs in a token for the account: one of `types`, and one of the sets of letters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountSas {
    pub(crate) types: ResourceTypes,
    pub(crate) any_of: [Permissions; 2],
}

impl AccountSas {
    pub(crate) const fn new(types: ResourceTypes, letters: Permissions) -> Self {
        Self { types, any_of: [letters; 2] }
    }
}

/// The role permissions that an operation needs, by the level of its resource.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    /// Entities, messages, blobs.
    Object(Permissions),
    /// Tables, queues, containers.
    Container(Permissions),
    /// Properties and statistics of the service.
    Service(Permissions),
    /// User delegation keys.
    Delegation,
    /// No role permits it; this is the error to return.
    Nobody(ErrorCode),
}

/// Whether an operation has a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    /// Read whole before the operation begins.
    Whole,
}

/// The response format of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// In the format that the request accepts.
    Negotiated,
    /// Like [`Answer::Negotiated`], or with no body when the request prefers that (T-2.51).
    Preferred,
    /// Without a body, which it confirms when the request prefers that (T-2.57).
    NoContent,
    /// Like [`Answer::Negotiated`], for a page of many items, which reserves response memory.
    Page,
    /// In parts, each with the response of its own operation. Authorization is per part too.
    Parts,
    /// XML, whatever the request accepts (T-2.15).
    Xml,
    /// JSON, whatever the request accepts: settings that exist only as extensions.
    Json,
    /// Like [`Answer::Json`], for a page of many items that a request may wait for.
    Changes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Reads,
    Writes,
}

lazuli_meter::label! {
    /// The kinds of operations that metrics distinguish.
    pub(crate) enum Kind {
        PointRead => "point_read",
        Query => "query",
        Write => "write",
        Batch => "batch",
        List => "list",
        Settings => "settings",
    }
}

lazuli_meter::label! {
    /// The names of the services in metrics and logs.
    pub(crate) enum ServiceName {
        Table => "table",
        Queue => "queue",
        Blob => "blob",
    }
}

lazuli_meter::label! {
    /// How a query reads, from cheap to expensive.
    pub(crate) enum Plan {
        Point => "Point",
        MultiPoint => "MultiPoint",
        RowRange => "RowRange",
        Partition => "Partition",
        PartitionRange => "PartitionRange",
        Table => "Table",
        Index => "Index",
    }
}

/// The effective verb: that of the request line, or the one tunnelled through POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Head,
    Post,
    Put,
    Merge,
    Delete,
    Options,
    Other,
}

impl Verb {
    pub(crate) fn parse(method: &str) -> Self {
        match method {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            // PATCH and MERGE are synonyms (T-5.41).
            "PATCH" | "MERGE" => Self::Merge,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }

    /// Applies `X-HTTP-Method` (T-5.13 to T-5.16). `values` are all headers of that name.
    pub(crate) fn tunnelled<'v>(
        self,
        mut values: impl Iterator<Item = &'v str>,
    ) -> ApiResult<Self> {
        let Some(value) = values.next() else { return Ok(self) };
        if values.next().is_some() || value.contains(',') {
            return Err(ErrorCode::XMethodIncorrectCount.into());
        }
        if self != Self::Post {
            return Err(ErrorCode::XMethodNotUsingPost.into());
        }
        match Self::parse(value.trim()) {
            verb @ (Self::Put | Self::Merge | Self::Delete) => Ok(verb),
            _ => Err(ErrorCode::XMethodIncorrectValue.into()),
        }
    }
}

/// Declares the operations of a service and the row of each: its verbs, a pattern for its resources,
/// which are values of the service's own type, and its [`Facts`].
macro_rules! operations {
    (
        $(#[$doc:meta])*
        $vis:vis enum $name:ident on $resource:ty {
            $($(#[$variant_doc:meta])* $variant:ident: [$($verb:ident)*] $pattern:pat => $facts:tt)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// Every operation, in the order of the rows.
            $vis const ALL: &'static [Self] = &[$(Self::$variant,)*];

            $vis const fn facts(self) -> &'static $crate::operation::Facts {
                match self {
                    $(Self::$variant => {
                        const ROW: $crate::operation::Facts = $crate::operation::Facts $facts;
                        &ROW
                    })*
                }
            }

            /// The operation for a verb on a resource.
            $vis fn find(verb: $crate::operation::Verb, resource: &$resource) -> Option<Self> {
                Self::ALL.iter().copied().find(|operation| operation.is(verb, resource))
            }

            /// A row without verbs matches every verb.
            fn is(self, verb: $crate::operation::Verb, resource: &$resource) -> bool {
                match self {
                    $(Self::$variant => {
                        matches!(resource, $pattern)
                            && $crate::operation::operations!(@verbs verb $($verb)*)
                    })*
                }
            }
        }

        impl $crate::operation::Operation for $name {
            fn all() -> &'static [Self] {
                Self::ALL
            }

            fn index(self) -> usize {
                self as usize
            }

            fn facts(self) -> &'static $crate::operation::Facts {
                Self::facts(self)
            }
        }
    };
    (@verbs $given:ident) => { true };
    (@verbs $given:ident $($verb:ident)+) => {
        matches!($given, $($crate::operation::Verb::$verb)|+)
    };
}

pub(crate) use operations;

/// Short names for the letters and types in rows.
pub(crate) mod letters {
    use lazuli_wire::sas::{Permissions, ResourceTypes};

    pub(crate) const READ: Permissions = Permissions::READ;
    pub(crate) const ADD: Permissions = Permissions::ADD;
    pub(crate) const UPDATE: Permissions = Permissions::UPDATE;
    pub(crate) const PROCESS: Permissions = Permissions::PROCESS;
    pub(crate) const DELETE: Permissions = Permissions::DELETE;
    pub(crate) const LIST: Permissions = Permissions::LIST;
    pub(crate) const CREATE: Permissions = Permissions::CREATE;
    pub(crate) const WRITE: Permissions = Permissions::WRITE;
    pub(crate) const OBJECT: ResourceTypes = ResourceTypes::OBJECT;
    pub(crate) const CONTAINER: ResourceTypes = ResourceTypes::CONTAINER;
    pub(crate) const SERVICE: ResourceTypes = ResourceTypes::SERVICE;
}

/// What holds for the rows of every service: names are unique, the secondary location is read-only,
/// and everything that writes counts as a write or a setting in metrics.
#[cfg(test)]
pub(crate) fn check_rows<O: Operation>() {
    let names: std::collections::BTreeSet<_> = O::all().iter().map(|o| o.facts().name).collect();
    assert_eq!(names.len(), O::all().len());
    for facts in O::all().iter().map(|operation| operation.facts()) {
        match facts.kind {
            Kind::PointRead | Kind::Query | Kind::List => {
                assert_eq!(facts.access, Access::Reads, "{}", facts.name);
            }
            Kind::Write | Kind::Batch => assert_eq!(facts.access, Access::Writes, "{}", facts.name),
            Kind::Settings => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_tunnel_through_post_only() {
        let tunnel = |verb: Verb, values: &[&'static str]| {
            verb.tunnelled(values.iter().copied()).map_err(|error| error.code)
        };
        assert_eq!(tunnel(Verb::Post, &["MERGE"]), Ok(Verb::Merge));
        assert_eq!(tunnel(Verb::Post, &["DELETE"]), Ok(Verb::Delete));
        assert_eq!(tunnel(Verb::Get, &[]), Ok(Verb::Get));
        assert_eq!(tunnel(Verb::Put, &["MERGE"]), Err(ErrorCode::XMethodNotUsingPost));
        assert_eq!(tunnel(Verb::Post, &["FETCH"]), Err(ErrorCode::XMethodIncorrectValue));
        assert_eq!(tunnel(Verb::Post, &["MERGE", "PUT"]), Err(ErrorCode::XMethodIncorrectCount));
    }
}
