//! From method, path and query to an [`Operation`]; no I/O.

use crate::http::error::{ApiError, ApiResult, url_key_error};
use crate::table::operation::Operation;
use lazuli_model::{AccountName, EntityKey, TableName};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::uri::{PathError, Query, ResourcePath};

/// The verb that counts: that of the request line, or the one tunnelled through POST.
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

    /// Applies `X-HTTP-Method` (T-5.13 to T-5.16). `values` are all the headers of that name.
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

/// What the path of a request names, or why it names nothing.
pub(crate) type PathOutcome<'a> = Result<ResourcePath<'a>, PathError<'a>>;

/// Names the operation. `path` is what follows the account, decoded.
pub(crate) fn resolve(
    verb: Verb,
    path: PathOutcome<'_>,
    query: &Query<'_>,
    account: &AccountName,
) -> ApiResult<Operation> {
    let operation = resolve_any(verb, path, query, account)?;
    match operation.writes_metrics() {
        // Which code the service has for it, no source tells.
        true => Err(ErrorCode::InsufficientAccountPermissions.into()),
        false => Ok(operation),
    }
}

fn resolve_any(
    verb: Verb,
    path: PathOutcome<'_>,
    query: &Query<'_>,
    account: &AccountName,
) -> ApiResult<Operation> {
    let path = path.map_err(|error| path_error(error, account))?;
    if let Some(comp) = query.get("comp") {
        return resolve_comp(verb, &path, comp, query);
    }
    if query.get("restype").is_some() {
        return Err(ErrorCode::MissingRequiredQueryParameter.into());
    }
    match path {
        ResourcePath::Service => match verb {
            Verb::Get | Verb::Head => Err(ErrorCode::InvalidUri.into()),
            _ => Err(ErrorCode::MethodNotAllowed.into()),
        },
        ResourcePath::Tables => match verb {
            Verb::Get => Ok(Operation::QueryTables),
            Verb::Post => Ok(Operation::CreateTable),
            _ => Err(ErrorCode::MethodNotAllowed.into()),
        },
        ResourcePath::Table { name } => resolve_table(verb, &name),
        ResourcePath::Entities { table } => resolve_entities(verb, table),
        ResourcePath::Entity { table, partition_key, row_key } => {
            resolve_entity(verb, table, &partition_key, &row_key)
        }
        ResourcePath::Batch => match verb {
            Verb::Post => Ok(Operation::Transaction),
            _ => Err(ErrorCode::MethodNotAllowed.into()),
        },
        // Whether the table exists decides between two answers (T-1.13, T-1.14); the handler asks.
        ResourcePath::Nested { table, keyed: true } => {
            Ok(Operation::KeyedNested { table: TableName::parse_any(table)? })
        }
        ResourcePath::Nested { table, keyed: false } => resolve_entities(verb, table),
        ResourcePath::Unsupported => Err(ErrorCode::NotImplemented.into()),
    }
}

/// ACL, service properties and statistics: resources named by `comp` (T-1.16, T-9.16).
fn resolve_comp(
    verb: Verb,
    path: &ResourcePath<'_>,
    comp: &str,
    query: &Query<'_>,
) -> ApiResult<Operation> {
    let invalid = || Err(ErrorCode::InvalidQueryParameterValue.into());
    match (path, comp) {
        (ResourcePath::Entities { table }, "acl") => {
            let table = TableName::parse_any(table)?;
            match verb {
                Verb::Get | Verb::Head => Ok(Operation::GetTableAcl { table }),
                Verb::Put => Ok(Operation::SetTableAcl { table }),
                _ => Err(ErrorCode::UnsupportedHttpVerb.into()),
            }
        }
        (ResourcePath::Service, "properties" | "stats" | "userdelegationkey") => {
            match query.get("restype") {
                Some("service") => {}
                Some(_) => return invalid(),
                None => return Err(ErrorCode::MissingRequiredQueryParameter.into()),
            }
            match (comp, verb) {
                ("properties", Verb::Get) => Ok(Operation::GetServiceProperties),
                ("properties", Verb::Put) => Ok(Operation::SetServiceProperties),
                ("stats", Verb::Get) => Ok(Operation::GetServiceStats),
                ("userdelegationkey", Verb::Post) => Ok(Operation::GetUserDelegationKey),
                _ => Err(ErrorCode::UnsupportedHttpVerb.into()),
            }
        }
        _ => invalid(),
    }
}

fn resolve_table(verb: Verb, name: &str) -> ApiResult<Operation> {
    let table = TableName::parse_any(name)?;
    match verb {
        Verb::Get => Ok(Operation::GetTable { table }),
        Verb::Delete => Ok(Operation::DeleteTable { table }),
        _ => Err(ErrorCode::MethodNotAllowed.into()),
    }
}

fn resolve_entities(verb: Verb, table: &str) -> ApiResult<Operation> {
    let table = TableName::parse_any(table)?;
    match verb {
        Verb::Get => Ok(Operation::QueryEntities { table }),
        Verb::Post => Ok(Operation::InsertEntity { table }),
        _ => Err(ErrorCode::MethodNotAllowed.into()),
    }
}

fn resolve_entity(
    verb: Verb,
    table: &str,
    partition_key: &str,
    row_key: &str,
) -> ApiResult<Operation> {
    let table = TableName::parse_any(table)?;
    let key = EntityKey::parse(partition_key, row_key).map_err(url_key_error)?;
    match verb {
        Verb::Get => Ok(Operation::GetEntity { table, key }),
        Verb::Put => Ok(Operation::PutEntity { table, key }),
        Verb::Merge => Ok(Operation::MergeEntity { table, key }),
        Verb::Delete => Ok(Operation::DeleteEntity { table, key }),
        _ => Err(ErrorCode::MethodNotAllowed.into()),
    }
}

/// A table name that breaks the rules is told before a predicate that does (T-1.17).
fn path_error(error: PathError<'_>, account: &AccountName) -> ApiError {
    match TableName::parse_any(error.resource) {
        Err(name) if error.resource != "Tables" => name.into(),
        _ => ApiError::invalid_input(error.message(account.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, path: &str, query: &str, expect: Result<&str, ErrorCode>) {
        let account = AccountName::parse("acct1").unwrap();
        let query = Query::parse(query).unwrap();
        let got = resolve(Verb::parse(method), ResourcePath::parse(path), &query, &account);
        assert_eq!(got.as_ref().map(Operation::name).map_err(|e| e.code), expect);
    }

    #[test]
    fn each_resource_has_its_verbs() {
        check("GET", "/Tables", "", Ok("QueryTables"));
        check("POST", "/Tables", "", Ok("CreateTable"));
        check("DELETE", "/Tables", "", Err(ErrorCode::MethodNotAllowed));
        check("GET", "/Tables('abc')", "", Ok("QueryTable"));
        check("DELETE", "/Tables('abc')", "", Ok("DeleteTable"));
        check("GET", "/abc()", "", Ok("QueryEntities"));
        check("POST", "/abc", "", Ok("InsertEntity"));
        check("PUT", "/abc", "", Err(ErrorCode::MethodNotAllowed));
        check("GET", "/abc(PartitionKey='',RowKey='')", "", Ok("QueryEntity"));
        check("PATCH", "/abc(PartitionKey='p',RowKey='r')", "", Ok("MergeEntity"));
        check("MERGE", "/abc(PartitionKey='p',RowKey='r')", "", Ok("MergeEntity"));
        check("POST", "/$batch", "", Ok("EntityGroupTransaction"));
        check("GET", "/", "", Err(ErrorCode::InvalidUri));
    }

    #[test]
    fn comp_names_the_xml_resources() {
        check("HEAD", "/abc", "comp=acl", Ok("GetTableAcl"));
        check("PUT", "/abc", "comp=acl", Ok("SetTableAcl"));
        check("GET", "/", "restype=service&comp=properties", Ok("GetTableServiceProperties"));
        check("POST", "/", "restype=service&comp=userdelegationkey", Ok("GetUserDelegationKey"));
        let invalid = Err(ErrorCode::InvalidQueryParameterValue);
        check("GET", "/abc", "restype=service&comp=properties", invalid);
        check("GET", "/", "comp=nonsense", invalid);
        let missing = Err(ErrorCode::MissingRequiredQueryParameter);
        check("GET", "/", "comp=properties", missing);
    }

    #[test]
    fn names_are_judged_before_anything_else_of_the_path() {
        check("GET", "/aa", "", Err(ErrorCode::OutOfRangeInput));
        check("GET", "/my_table", "comp=acl", Err(ErrorCode::InvalidResourceName));
        let forbidden = "/abc(PartitionKey='a#b',RowKey='r')";
        check("GET", forbidden, "", Err(ErrorCode::InvalidInput));
    }

    /// T-3.4, T-9.47.
    #[test]
    fn analytics_tables_are_read_and_emptied_and_nothing_else() {
        let refused = Err(ErrorCode::InsufficientAccountPermissions);
        let (table, entity) = ("/$MetricsX", "/$MetricsX(PartitionKey='p',RowKey='r')");
        check("GET", table, "", Ok("QueryEntities"));
        check("GET", entity, "", Ok("QueryEntity"));
        check("DELETE", entity, "", Ok("DeleteEntity"));
        check("GET", table, "comp=acl", Ok("GetTableAcl"));
        check("GET", "/Tables('$MetricsX')", "", Ok("QueryTable"));
        check("POST", table, "", refused);
        check("PUT", entity, "", refused);
        check("MERGE", entity, "", refused);
        check("PUT", table, "comp=acl", refused);
        check("DELETE", "/Tables('$MetricsX')", "", refused);
    }

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
