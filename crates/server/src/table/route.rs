//! Maps method, path and query to an [`Operation`] and its [`Resource`]; no I/O.

use crate::error::{ApiError, ApiResult};
use crate::operation::Verb;
use crate::table::error::url_key_error;
use crate::table::operation::{Operation, Resource, Setting, writes_metrics};
use lazuli_model::{AccountName, EntityKey, TableName};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::uri::{PathError, Query, ResourcePath};

/// What the path of a request names, or why it names nothing.
pub(crate) type PathOutcome<'a> = Result<ResourcePath<'a>, PathError<'a>>;

/// What the headers of a request contribute to its route.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) has_if_match: bool,
    /// Whether it requests extensions.
    pub(crate) extensions: bool,
}

/// Determines the operation and its resource. `path` follows the account, decoded.
pub(crate) fn resolve(
    verb: Verb,
    path: PathOutcome<'_>,
    query: &Query<'_>,
    account: &AccountName,
    marks: Marks,
) -> ApiResult<(Operation, Resource)> {
    let is_unnamed = path == Ok(ResourcePath::Unnamed);
    resolve_any(verb, path, query, account, marks).map_err(|error| match is_unnamed {
        true => error.while_addressing(),
        false => error.while_parsing(),
    })
}

fn resolve_any(
    verb: Verb,
    path: PathOutcome<'_>,
    query: &Query<'_>,
    account: &AccountName,
    marks: Marks,
) -> ApiResult<(Operation, Resource)> {
    let path = path.map_err(|error| path_error(error, account))?;
    let (resource, wrong_verb) = match query.get("comp") {
        Some(comp) => (named_by_comp(&path, comp, query, marks)?, ErrorCode::UnsupportedHttpVerb),
        None if query.get("restype").is_some() => {
            return Err(ErrorCode::MissingRequiredQueryParameter.into());
        }
        None => (named_by_path(path, verb, marks)?, ErrorCode::MethodNotAllowed),
    };
    let operation = Operation::find(verb, &resource).ok_or(wrong_verb)?;
    match writes_metrics(operation, &resource) {
        // The code is a guess: no source documents one.
        true => Err(ErrorCode::InsufficientAccountPermissions.into()),
        false => Ok((operation, resource)),
    }
}

fn named_by_path(path: ResourcePath<'_>, verb: Verb, marks: Marks) -> ApiResult<Resource> {
    match path {
        ResourcePath::Unnamed => Err(ErrorCode::ResourceNotFound.into()),
        ResourcePath::Service => match verb {
            Verb::Get | Verb::Head => Err(ErrorCode::InvalidUri.into()),
            _ => Err(ErrorCode::MethodNotAllowed.into()),
        },
        ResourcePath::Tables => Ok(Resource::Tables),
        ResourcePath::Table { name } => Ok(Resource::Table { table: TableName::parse_any(&name)? }),
        ResourcePath::Entities { table } if verb == Verb::Delete && marks.extensions => {
            Ok(Resource::Selection { table: TableName::parse_any(table)? })
        }
        ResourcePath::Count { table } if marks.extensions => {
            Ok(Resource::Count { table: TableName::parse_any(table)? })
        }
        ResourcePath::Entities { table } | ResourcePath::Nested { table, keyed: false } => {
            Ok(Resource::Entities { table: TableName::parse_any(table)? })
        }
        ResourcePath::Entity { table, partition_key, row_key } => {
            let table = TableName::parse_any(table)?;
            let key = EntityKey::parse(&partition_key, &row_key).map_err(url_key_error)?;
            Ok(Resource::Entity { table, key, has_if_match: marks.has_if_match })
        }
        ResourcePath::Batch => Ok(Resource::Batch),
        // The error depends on whether the table exists (T-1.13, T-1.14); the handler checks.
        ResourcePath::Nested { table, keyed: true } => {
            Ok(Resource::KeyedNested { table: TableName::parse_any(table)? })
        }
        ResourcePath::Unsupported | ResourcePath::Count { .. } => {
            Err(ErrorCode::NotImplemented.into())
        }
    }
}

/// ACL, service properties and statistics, and the settings of a table: resources named by `comp`
/// (T-1.16, T-9.16, X-0.4).
fn named_by_comp(
    path: &ResourcePath<'_>,
    comp: &str,
    query: &Query<'_>,
    marks: Marks,
) -> ApiResult<Resource> {
    if marks.extensions && *path == ResourcePath::Service && comp == "lazuli-advice" {
        return Ok(Resource::Advice);
    }
    if marks.extensions
        && let (ResourcePath::Entities { table }, Some(setting)) = (path, Setting::of_comp(comp))
    {
        return Ok(Resource::Setting { table: TableName::parse_any(table)?, setting });
    }
    if marks.extensions
        && let (ResourcePath::Entities { table }, "lazuli-changes") = (path, comp)
    {
        return Ok(Resource::Changes { table: TableName::parse_any(table)? });
    }
    let resource = match (path, comp) {
        (ResourcePath::Entities { table }, "acl") => {
            return Ok(Resource::Acl { table: TableName::parse_any(table)? });
        }
        (ResourcePath::Service, "properties") => Resource::ServiceProperties,
        (ResourcePath::Service, "stats") => Resource::ServiceStats,
        (ResourcePath::Service, "userdelegationkey") => Resource::UserDelegationKey,
        _ => return Err(ErrorCode::InvalidQueryParameterValue.into()),
    };
    match query.get("restype") {
        Some("service") => Ok(resource),
        Some(_) => Err(ErrorCode::InvalidQueryParameterValue.into()),
        None => Err(ErrorCode::MissingRequiredQueryParameter.into()),
    }
}

/// An invalid table name is reported before an invalid predicate (T-1.17).
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
        let path = ResourcePath::parse(path);
        let marks = Marks { has_if_match: true, extensions: false };
        let got = resolve(Verb::parse(method), path, &query, &account, marks);
        assert_eq!(got.map(|(operation, _)| operation.facts().name).map_err(|e| e.code), expect);
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
        check("GET", "/(PartitionKey='p',RowKey='r')", "", Err(ErrorCode::ResourceNotFound));
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
    fn writes_without_a_condition_are_upserts() {
        let account = AccountName::parse("acct1").unwrap();
        let name = |method, has_if_match| {
            let path = ResourcePath::parse("/abc(PartitionKey='p',RowKey='r')");
            let query = Query::default();
            let marks = Marks { has_if_match, extensions: false };
            let got = resolve(Verb::parse(method), path, &query, &account, marks);
            got.unwrap().0.facts().name
        };
        assert_eq!(
            [name("PUT", true), name("PUT", false)],
            ["UpdateEntity", "InsertOrReplaceEntity"]
        );
        assert_eq!(
            [name("MERGE", true), name("PATCH", false)],
            ["MergeEntity", "InsertOrMergeEntity"]
        );
        assert_eq!([name("GET", true), name("DELETE", false)], ["QueryEntity", "DeleteEntity"]);
    }

    ///
    #[test]
    fn settings_of_a_table_are_resources_for_those_who_ask() {
        let account = AccountName::parse("acct1").unwrap();
        let name = |method: &str, path, query, extensions| {
            let query = Query::parse(query).unwrap();
            let marks = Marks { has_if_match: false, extensions };
            let path = ResourcePath::parse(path);
            let got = resolve(Verb::parse(method), path, &query, &account, marks);
            got.map(|(operation, _)| operation.facts().name).map_err(|error| error.code)
        };
        for comp in ["comp=lazuli-indexes", "comp=lazuli-ttl", "comp=lazuli-feed"] {
            assert_eq!(name("GET", "/abc", comp, true), Ok("GetTableSetting"));
            assert_eq!(name("PUT", "/abc()", comp, true), Ok("SetTableSetting"));
            assert_eq!(name("DELETE", "/abc", comp, true), Ok("DeleteTableSetting"));
            assert_eq!(name("POST", "/abc", comp, true), Err(ErrorCode::UnsupportedHttpVerb));
            let unknown = Err(ErrorCode::InvalidQueryParameterValue);
            assert_eq!(name("GET", "/abc", comp, false), unknown);
            assert_eq!(name("GET", "/", comp, true), unknown);
        }
        let changes = "comp=lazuli-changes&after=now";
        assert_eq!(name("GET", "/abc", changes, true), Ok("GetTableChanges"));
        assert_eq!(name("PUT", "/abc", changes, true), Err(ErrorCode::UnsupportedHttpVerb));
        let unknown = Err(ErrorCode::InvalidQueryParameterValue);
        assert_eq!(name("GET", "/abc", changes, false), unknown);
        let advice = "comp=lazuli-advice";
        assert_eq!(name("GET", "/", advice, true), Ok("GetAdvice"));
        assert_eq!(name("PUT", "/", advice, true), Err(ErrorCode::UnsupportedHttpVerb));
        for (path, extensions) in [("/", false), ("/abc", true)] {
            let unknown = Err(ErrorCode::InvalidQueryParameterValue);
            assert_eq!(name("GET", path, advice, extensions), unknown);
        }
        let refused = Err(ErrorCode::InsufficientAccountPermissions);
        assert_eq!(name("PUT", "/$MetricsX", "comp=lazuli-ttl", true), refused);
    }
}
