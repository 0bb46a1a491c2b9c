//! The operations of the Table service, and the permission each needs.

use lazuli_model::{EntityKey, TableName};
use lazuli_wire::version::ApiVersion;

/// What a request asks for, its names already parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    QueryTables,
    CreateTable,
    GetTable {
        table: TableName,
    },
    DeleteTable {
        table: TableName,
    },
    QueryEntities {
        table: TableName,
    },
    InsertEntity {
        table: TableName,
    },
    GetEntity {
        table: TableName,
        key: EntityKey,
    },
    /// Update with If-Match, Insert Or Replace without.
    PutEntity {
        table: TableName,
        key: EntityKey,
    },
    /// Merge with If-Match, Insert Or Merge without.
    MergeEntity {
        table: TableName,
        key: EntityKey,
    },
    DeleteEntity {
        table: TableName,
        key: EntityKey,
    },
    Transaction,
    /// `/table/..(..)`: always an error, which one depends on the table (T-1.13, T-1.14).
    KeyedNested {
        table: TableName,
    },
    GetTableAcl {
        table: TableName,
    },
    SetTableAcl {
        table: TableName,
    },
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
    GetUserDelegationKey,
}

impl Operation {
    /// The name in logs and messages.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::QueryTables => "QueryTables",
            Self::CreateTable => "CreateTable",
            Self::GetTable { .. } => "QueryTable",
            Self::DeleteTable { .. } => "DeleteTable",
            Self::QueryEntities { .. } => "QueryEntities",
            Self::InsertEntity { .. } => "InsertEntity",
            Self::GetEntity { .. } => "QueryEntity",
            Self::PutEntity { .. } => "UpdateEntity",
            Self::MergeEntity { .. } => "MergeEntity",
            Self::DeleteEntity { .. } => "DeleteEntity",
            Self::Transaction => "EntityGroupTransaction",
            Self::KeyedNested { .. } => "Unknown",
            Self::GetTableAcl { .. } => "GetTableAcl",
            Self::SetTableAcl { .. } => "SetTableAcl",
            Self::GetServiceProperties => "GetTableServiceProperties",
            Self::SetServiceProperties => "SetTableServiceProperties",
            Self::GetServiceStats => "GetTableServiceStats",
            Self::GetUserDelegationKey => "GetUserDelegationKey",
        }
    }

    /// The name that analytics give it: an upsert, which has no `If-Match`, is not an update
    /// (T-9.39).
    pub(crate) const fn api(&self, has_if_match: bool) -> &'static str {
        match self {
            Self::PutEntity { .. } if !has_if_match => "InsertOrReplaceEntity",
            Self::MergeEntity { .. } if !has_if_match => "InsertOrMergeEntity",
            _ => self.name(),
        }
    }

    /// Whether the secondary location refuses it.
    pub(crate) const fn writes(&self) -> bool {
        match self {
            Self::QueryTables
            | Self::GetTable { .. }
            | Self::QueryEntities { .. }
            | Self::GetEntity { .. }
            | Self::GetTableAcl { .. }
            | Self::GetServiceProperties
            | Self::GetServiceStats
            | Self::GetUserDelegationKey
            | Self::KeyedNested { .. } => false,
            Self::CreateTable
            | Self::DeleteTable { .. }
            | Self::InsertEntity { .. }
            | Self::PutEntity { .. }
            | Self::MergeEntity { .. }
            | Self::DeleteEntity { .. }
            | Self::Transaction
            | Self::SetTableAcl { .. }
            | Self::SetServiceProperties => true,
        }
    }

    /// Whether it would drop or fill an analytics table, which clients only read and empty (T-9.47).
    pub(crate) fn writes_metrics(&self) -> bool {
        match self {
            Self::DeleteTable { table }
            | Self::InsertEntity { table }
            | Self::PutEntity { table, .. }
            | Self::MergeEntity { table, .. }
            | Self::SetTableAcl { table } => table.is_metrics(),
            _ => false,
        }
    }

    /// Whether the service had it at `version` already (the table of 2.2).
    pub(crate) fn exists_at(&self, version: ApiVersion) -> bool {
        match self {
            Self::GetTableAcl { .. } | Self::SetTableAcl { .. } => version.has_table_acl(),
            Self::GetServiceStats => version.has_service_stats(),
            _ => true,
        }
    }

    /// Whether it speaks XML whatever the request accepts (T-2.15).
    pub(crate) const fn is_xml(&self) -> bool {
        matches!(
            self,
            Self::GetTableAcl { .. }
                | Self::SetTableAcl { .. }
                | Self::GetServiceProperties
                | Self::SetServiceProperties
                | Self::GetServiceStats
                | Self::GetUserDelegationKey
        )
    }

    /// Whether it answers with a page of many.
    pub(crate) const fn is_query(&self) -> bool {
        matches!(self, Self::QueryTables | Self::QueryEntities { .. })
    }

    /// Whether a request body belongs to it.
    pub(crate) const fn takes_body(&self) -> bool {
        matches!(
            self,
            Self::CreateTable
                | Self::InsertEntity { .. }
                | Self::PutEntity { .. }
                | Self::MergeEntity { .. }
                | Self::Transaction
                | Self::SetTableAcl { .. }
                | Self::SetServiceProperties
                | Self::GetUserDelegationKey
        )
    }

    /// Whether `Prefer` applies (T-2.51).
    pub(crate) const fn takes_prefer(&self) -> bool {
        matches!(self, Self::CreateTable | Self::InsertEntity { .. })
    }

    /// The table whose entities or policies it touches.
    pub(crate) const fn table(&self) -> Option<&TableName> {
        match self {
            Self::QueryEntities { table }
            | Self::InsertEntity { table }
            | Self::GetEntity { table, .. }
            | Self::PutEntity { table, .. }
            | Self::MergeEntity { table, .. }
            | Self::DeleteEntity { table, .. }
            | Self::KeyedNested { table }
            | Self::GetTableAcl { table }
            | Self::SetTableAcl { table } => Some(table),
            _ => None,
        }
    }
}
