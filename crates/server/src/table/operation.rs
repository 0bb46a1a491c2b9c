//! The operations of the Table service, one row each, and their resources.

use crate::http::service;
use crate::operation::{Access, AccountSas, Answer, Body, Facts, Kind, Role, operations};
use lazuli_model::{EntityKey, TableName};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::{Permissions, ResourceTypes};
use lazuli_wire::version::ApiVersion;

/// The resource of a request, with its names parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// `/Tables`
    Tables,
    /// `/Tables('name')`
    Table { table: TableName },
    /// `/name` and `/name()`
    Entities { table: TableName },
    /// `/name(PartitionKey='…',RowKey='…')`, with or without a condition: PUT and MERGE without one
    /// are upserts.
    Entity { table: TableName, key: EntityKey, has_if_match: bool },
    /// `/name?comp=acl`
    Acl { table: TableName },
    /// `/table/..(..)`
    KeyedNested { table: TableName },
    /// `/$batch`
    Batch,
    /// `/?restype=service&comp=properties`
    ServiceProperties,
    /// `/?restype=service&comp=stats`
    ServiceStats,
    /// `/?restype=service&comp=userdelegationkey`
    UserDelegationKey,
}

impl Resource {
    /// The table whose entities or policies are addressed.
    pub(crate) const fn table(&self) -> Option<&TableName> {
        match self {
            Self::Entities { table }
            | Self::Entity { table, .. }
            | Self::KeyedNested { table }
            | Self::Acl { table } => Some(table),
            // A table addressed by itself does not count.
            Self::Table { .. }
            | Self::Tables
            | Self::Batch
            | Self::ServiceProperties
            | Self::ServiceStats
            | Self::UserDelegationKey => None,
        }
    }
}

const READ: Permissions = Permissions::READ;
const ADD: Permissions = Permissions::ADD;
const UPDATE: Permissions = Permissions::UPDATE;
const ADD_AND_UPDATE: Permissions = ADD.union(UPDATE);
const DELETE: Permissions = Permissions::DELETE;
const LIST: Permissions = Permissions::LIST;
const CREATE: Permissions = Permissions::CREATE;
const WRITE: Permissions = Permissions::WRITE;
const OBJECT: ResourceTypes = ResourceTypes::OBJECT;
const CONTAINER: ResourceTypes = ResourceTypes::CONTAINER;
const OBJECT_OR_CONTAINER: ResourceTypes = OBJECT.union(CONTAINER);
const SERVICE: ResourceTypes = ResourceTypes::SERVICE;

operations! {
    /// The operations. The frequent ones come first, because the router searches from the top.
    pub(crate) enum Operation on Resource {
        QueryEntity: [Get] Resource::Entity { .. } => {
            name: "QueryEntity",
            kind: Kind::PointRead,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Negotiated,
            access: Access::Reads,
            service_sas: Some(READ),
            account_sas: Some(AccountSas::new(OBJECT, READ)),
            role: Role::Object(READ),
        }

        InsertEntity: [Post] Resource::Entities { .. } => {
            name: "InsertEntity",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::Preferred,
            access: Access::Writes,
            service_sas: Some(ADD),
            account_sas: Some(AccountSas::new(OBJECT, ADD)),
            role: Role::Object(ADD),
        }

        UpdateEntity: [Put] Resource::Entity { has_if_match: true, .. } => {
            name: "UpdateEntity",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::NoContent,
            access: Access::Writes,
            service_sas: Some(UPDATE),
            account_sas: Some(AccountSas::new(OBJECT, UPDATE)),
            role: Role::Object(UPDATE),
        }

        /// An upsert may do either, so it needs both letters (TR-95).
        InsertOrReplaceEntity: [Put] Resource::Entity { has_if_match: false, .. } => {
            name: "InsertOrReplaceEntity",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::NoContent,
            access: Access::Writes,
            service_sas: Some(ADD_AND_UPDATE),
            account_sas: Some(AccountSas::new(OBJECT, ADD_AND_UPDATE)),
            role: Role::Object(ADD_AND_UPDATE),
        }

        MergeEntity: [Merge] Resource::Entity { has_if_match: true, .. } => {
            name: "MergeEntity",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::NoContent,
            access: Access::Writes,
            service_sas: Some(UPDATE),
            account_sas: Some(AccountSas::new(OBJECT, UPDATE)),
            role: Role::Object(UPDATE),
        }

        InsertOrMergeEntity: [Merge] Resource::Entity { has_if_match: false, .. } => {
            name: "InsertOrMergeEntity",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::NoContent,
            access: Access::Writes,
            service_sas: Some(ADD_AND_UPDATE),
            account_sas: Some(AccountSas::new(OBJECT, ADD_AND_UPDATE)),
            role: Role::Object(ADD_AND_UPDATE),
        }

        DeleteEntity: [Delete] Resource::Entity { .. } => {
            name: "DeleteEntity",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Negotiated,
            access: Access::Writes,
            service_sas: Some(DELETE),
            account_sas: Some(AccountSas::new(OBJECT, DELETE)),
            role: Role::Object(DELETE),
        }

        /// Sources disagree on whether a query is of type container or object (A-9.3).
        QueryEntities: [Get] Resource::Entities { .. } => {
            name: "QueryEntities",
            kind: Kind::Query,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Page,
            access: Access::Reads,
            service_sas: Some(READ),
            account_sas: Some(AccountSas::new(OBJECT_OR_CONTAINER, READ)),
            role: Role::Object(READ),
        }

        /// Each part is authorized by the row of its own operation.
        EntityGroupTransaction: [Post] Resource::Batch => {
            name: "EntityGroupTransaction",
            kind: Kind::Batch,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::Parts,
            access: Access::Writes,
            service_sas: None,
            account_sas: None,
            role: Role::Nobody(ErrorCode::AuthorizationPermissionMismatch),
        }

        QueryTables: [Get] Resource::Tables => {
            name: "QueryTables",
            kind: Kind::List,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Page,
            access: Access::Reads,
            service_sas: None,
            account_sas: Some(AccountSas { types: CONTAINER, any_of: [LIST; 2] }),
            role: Role::Container(READ),
        }

        QueryTable: [Get] Resource::Table { .. } => {
            name: "QueryTable",
            kind: Kind::List,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Negotiated,
            access: Access::Reads,
            service_sas: None,
            account_sas: Some(AccountSas { types: CONTAINER, any_of: [LIST; 2] }),
            role: Role::Container(READ),
        }

        CreateTable: [Post] Resource::Tables => {
            name: "CreateTable",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::Preferred,
            access: Access::Writes,
            service_sas: None,
            account_sas: Some(AccountSas { types: CONTAINER, any_of: [CREATE, WRITE] }),
            role: Role::Container(CREATE),
        }

        DeleteTable: [Delete] Resource::Table { .. } => {
            name: "DeleteTable",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Negotiated,
            access: Access::Writes,
            service_sas: None,
            account_sas: Some(AccountSas { types: CONTAINER, any_of: [DELETE; 2] }),
            role: Role::Container(DELETE),
        }

        /// Access policies need the account key (A-9.5); for a bearer token they do not exist (A-8.9, TR-104).
        GetTableAcl: [Get Head] Resource::Acl { .. } => {
            name: "GetTableAcl",
            kind: Kind::Settings,
            since: ApiVersion::ACCESS_POLICIES,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: None,
            account_sas: None,
            role: Role::Nobody(ErrorCode::ResourceNotFound),
        }

        SetTableAcl: [Put] Resource::Acl { .. } => {
            name: "SetTableAcl",
            kind: Kind::Settings,
            since: ApiVersion::ACCESS_POLICIES,
            body: Body::Whole,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: None,
            account_sas: None,
            role: Role::Nobody(ErrorCode::ResourceNotFound),
        }

        GetServiceProperties: [Get] Resource::ServiceProperties => {
            name: "GetTableServiceProperties",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: None,
            account_sas: Some(AccountSas::new(SERVICE, READ)),
            role: Role::Service(READ),
        }

        SetServiceProperties: [Put] Resource::ServiceProperties => {
            name: "SetTableServiceProperties",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: None,
            account_sas: Some(AccountSas::new(SERVICE, WRITE)),
            role: Role::Service(WRITE),
        }

        GetServiceStats: [Get] Resource::ServiceStats => {
            name: "GetTableServiceStats",
            kind: Kind::Settings,
            since: ApiVersion::SERVICE_STATS,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: None,
            account_sas: Some(AccountSas::new(SERVICE, READ)),
            role: Role::Service(READ),
        }

        GetUserDelegationKey: [Post] Resource::UserDelegationKey => {
            name: "GetUserDelegationKey",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: None,
            account_sas: None,
            role: Role::Delegation,
        }

        /// `/table/..(..)`: always an error, which one depends on the table (T-1.13, T-1.14).
        KeyedNested: [] Resource::KeyedNested { .. } => {
            name: "Unknown",
            kind: Kind::PointRead,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Negotiated,
            access: Access::Reads,
            service_sas: Some(READ),
            account_sas: Some(AccountSas::new(OBJECT, READ)),
            role: Role::Object(READ),
        }
    }
}

/// OPTIONS, which the front handles without a credential.
pub(crate) const PREFLIGHT: Facts = Facts {
    name: "TablePreflightRequest",
    kind: Kind::Settings,
    since: ApiVersion::FIRST,
    body: Body::None,
    answer: Answer::Negotiated,
    access: Access::Reads,
    service_sas: None,
    account_sas: None,
    role: Role::Nobody(ErrorCode::AuthorizationPermissionMismatch),
};

impl service::Operation for Operation {
    fn all() -> &'static [Self] {
        Self::ALL
    }

    fn index(self) -> usize {
        self as usize
    }

    fn facts(self) -> &'static Facts {
        Self::facts(self)
    }
}

/// Whether an operation would drop or fill an analytics table; clients may only read it and delete
/// entities (T-9.47). Of the rows that write, the resource says which name a table.
pub(crate) fn writes_metrics(operation: Operation, resource: &Resource) -> bool {
    let table = match resource {
        Resource::Table { table } => Some(table),
        resource => resource.table(),
    };
    let is_refused =
        operation.facts().access == Access::Writes && operation != Operation::DeleteEntity;
    is_refused && table.is_some_and(TableName::is_metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Verb;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = Operation::ALL.iter().map(|o| o.facts().name).collect();
        assert_eq!(names.len(), Operation::ALL.len());
    }

    /// T-9.47.
    #[test]
    fn an_analytics_table_can_be_read_and_emptied() {
        let table = TableName::parse_any("$MetricsHourPrimaryTransactionsTable").unwrap();
        let key = EntityKey::parse("p", "r").unwrap();
        let entity = |has_if_match| Resource::Entity {
            table: table.clone(),
            key: key.clone(),
            has_if_match,
        };
        let resources = [
            Resource::Tables,
            Resource::Table { table: table.clone() },
            Resource::Entities { table: table.clone() },
            entity(true),
            entity(false),
            Resource::Acl { table: table.clone() },
            Resource::Batch,
            Resource::ServiceProperties,
        ];
        let verbs = [Verb::Get, Verb::Post, Verb::Put, Verb::Merge, Verb::Delete];
        let requests = resources.iter().flat_map(|resource| verbs.map(|verb| (verb, resource)));
        let found = requests.filter_map(|(verb, it)| Some((Operation::find(verb, it)?, it)));
        let refused: Vec<_> = found
            .filter(|(operation, it)| writes_metrics(*operation, it))
            .map(|(o, _)| o)
            .collect();
        let expect = [
            Operation::DeleteTable,
            Operation::InsertEntity,
            Operation::UpdateEntity,
            Operation::MergeEntity,
            Operation::InsertOrReplaceEntity,
            Operation::InsertOrMergeEntity,
            Operation::SetTableAcl,
        ];
        assert_eq!(refused, expect);
    }

    /// The secondary location is read-only, and everything that writes counts as a write or a
    /// setting in metrics.
    #[test]
    fn kinds_fit_what_operations_do() {
        for operation in Operation::ALL {
            let facts = operation.facts();
            match facts.kind {
                Kind::PointRead | Kind::Query | Kind::List => {
                    assert_eq!(facts.access, Access::Reads, "{operation:?}");
                }
                Kind::Write | Kind::Batch => assert_eq!(facts.access, Access::Writes),
                Kind::Settings => {}
            }
        }
    }
}
