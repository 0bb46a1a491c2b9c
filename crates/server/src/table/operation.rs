//! The operations of the Table service, one row each, and their resources.

use crate::operation::letters::{
    ADD, CONTAINER, CREATE, DELETE, LIST, OBJECT, READ, SERVICE, UPDATE, WRITE,
};
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
    /// `/name?comp=lazuli-…`
    Setting { table: TableName, setting: Setting },
    /// `/name?comp=lazuli-changes`
    Changes { table: TableName },
    /// `/name/$count`, for clients that request extensions
    Count { table: TableName },
    /// `/name`, whose entities are deleted by a filter, for clients that request extensions
    Selection { table: TableName },
    /// `/table/..(..)`
    KeyedNested { table: TableName },
    /// `/$batch`
    Batch,
    /// `/?comp=lazuli-advice`
    Advice,
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
            | Self::Acl { table }
            | Self::Changes { table }
            | Self::Count { table }
            | Self::Selection { table }
            | Self::Setting { table, .. } => Some(table),
            // A table addressed as a resource does not count.
            Self::Table { .. }
            | Self::Tables
            | Self::Batch
            | Self::Advice
            | Self::ServiceProperties
            | Self::ServiceStats
            | Self::UserDelegationKey => None,
        }
    }
}

/// A setting of a table that exists only as an extension (X-0.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Secondary indexes (X-3.1).
    Indexes,
    /// Expiry (X-7.1).
    Ttl,
    /// The change feed (X-6.1).
    Feed,
    /// Whether the indexes agree with the entities (X-3.12); read only.
    Verify,
    /// An index to be built again (X-3.12); written only.
    Rebuild,
}

impl Setting {
    /// The name that a response uses for it (X-0.3).
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Indexes => "indexes",
            Self::Ttl => "ttl",
            Self::Feed => "feed",
            Self::Verify => "verify",
            Self::Rebuild => "rebuild",
        }
    }

    pub(crate) fn of_comp(comp: &str) -> Option<Self> {
        match comp {
            "lazuli-indexes" => Some(Self::Indexes),
            "lazuli-ttl" => Some(Self::Ttl),
            "lazuli-feed" => Some(Self::Feed),
            "lazuli-verify" => Some(Self::Verify),
            "lazuli-rebuild" => Some(Self::Rebuild),
            _ => None,
        }
    }
}

const ADD_AND_UPDATE: Permissions = ADD.union(UPDATE);
const READ_AND_DELETE: Permissions = READ.union(DELETE);
const OBJECT_OR_CONTAINER: ResourceTypes = OBJECT.union(CONTAINER);

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

        CountEntities: [Get] Resource::Count { .. } => {
            name: "CountEntities",
            kind: Kind::Query,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Page,
            access: Access::Reads,
            service_sas: Some(READ),
            account_sas: Some(AccountSas::new(OBJECT_OR_CONTAINER, READ)),
            role: Role::Object(READ),
        }

        /// It also reads what it deletes (X-4.4).
        DeleteEntities: [Delete] Resource::Selection { .. } => {
            name: "DeleteEntities",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Page,
            access: Access::Writes,
            service_sas: Some(READ_AND_DELETE),
            account_sas: Some(AccountSas::new(OBJECT, READ_AND_DELETE)),
            role: Role::Object(READ_AND_DELETE),
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

        /// A token for a range of keys gets no settings, which the handler checks (X-0.4).
        GetTableSetting: [Get] Resource::Setting { .. } => {
            name: "GetTableSetting",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Json,
            access: Access::Reads,
            service_sas: Some(READ),
            account_sas: Some(AccountSas::new(CONTAINER, READ)),
            role: Role::Container(READ),
        }

        SetTableSetting: [Put] Resource::Setting { .. } => {
            name: "SetTableSetting",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::Json,
            access: Access::Writes,
            service_sas: None,
            account_sas: Some(AccountSas::new(CONTAINER, WRITE)),
            role: Role::Container(CREATE),
        }

        DeleteTableSetting: [Delete] Resource::Setting { .. } => {
            name: "DeleteTableSetting",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Json,
            access: Access::Writes,
            service_sas: None,
            account_sas: Some(AccountSas::new(CONTAINER, WRITE)),
            role: Role::Container(CREATE),
        }

        /// A token for a range of keys gets no feed, which the handler checks (X-0.4).
        GetTableChanges: [Get] Resource::Changes { .. } => {
            name: "GetTableChanges",
            kind: Kind::Query,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Changes,
            access: Access::Reads,
            service_sas: Some(READ),
            account_sas: Some(AccountSas::new(OBJECT_OR_CONTAINER, READ)),
            role: Role::Object(READ),
        }

        /// It includes hot keys, and filters without their literals: a client that may read all entities may
        /// read it (X-5.2b).
        GetAdvice: [Get] Resource::Advice => {
            name: "GetAdvice",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Json,
            access: Access::Reads,
            service_sas: None,
            account_sas: Some(AccountSas::new(SERVICE, READ)),
            role: Role::Object(READ),
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

        /// `/table/..(..)`: always an error; which one depends on the table (T-1.13, T-1.14).
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

pub(crate) const PREFLIGHT: Facts = Facts::preflight("TablePreflightRequest", Answer::Negotiated);

/// Whether an operation would drop or fill an analytics table; clients may only read it and delete
/// entities (T-9.47). For rows that write, the resource shows whether a table is named.
pub(crate) fn writes_metrics(operation: Operation, resource: &Resource) -> bool {
    let table = match resource {
        Resource::Table { table } => Some(table),
        resource => resource.table(),
    };
    let empties = matches!(operation, Operation::DeleteEntity | Operation::DeleteEntities);
    let is_refused = operation.facts().access == Access::Writes && !empties;
    is_refused && table.is_some_and(TableName::is_metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Verb, check_rows};

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

    #[test]
    fn rows_are_sound() {
        check_rows::<Operation>();
    }
}
