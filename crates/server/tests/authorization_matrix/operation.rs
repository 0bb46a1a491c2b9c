//! The operations, one request for each, and the permissions each needs: the table of the
//! specification's section on permissions, row by row.

use crate::server::ACCOUNT;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done, with the status of the operation.
    Done,
    /// It is refused because of its credential, which was not even found genuine.
    Unauthenticated(u16, &'static str),
    /// Its credential is genuine, and does not permit it.
    Forbidden(&'static str),
}

pub(crate) const FAILED: Outcome = Outcome::Unauthenticated(403, "AuthenticationFailed");
pub(crate) const FORBIDDEN: Outcome = Outcome::Forbidden("AuthorizationFailure");

/// An operation, as one request that does it.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) method: &'static str,
    /// Follows the account.
    pub(crate) path: &'static str,
    pub(crate) query: &'static str,
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    pub(crate) secondary: bool,
    /// The status when it is done: of the part, if it is a batch.
    pub(crate) status: u16,
    /// The letters it needs of a token for its table; `None` where no such token will do.
    pub(crate) table_sas: Option<&'static str>,
    /// The types and the sets of letters; a token for the account needs one of each.
    pub(crate) account_sas: Option<(&'static str, &'static [&'static str])>,
    /// Whether it names the entity `m`, `5` or a neighbour, and not a table or a query.
    pub(crate) names_entity: bool,
}

impl Operation {
    const fn new(name: &'static str, method: &'static str, path: &'static str) -> Self {
        Self {
            name,
            method,
            path,
            query: "",
            headers: &[],
            content_type: "",
            body: String::new(),
            secondary: false,
            status: 200,
            table_sas: None,
            account_sas: None,
            names_entity: false,
        }
    }

    fn entities(name: &'static str, method: &'static str, letters: &'static str) -> Self {
        let account: &[&str] = match letters {
            "r" => &["r"],
            "a" => &["a"],
            "u" => &["u"],
            "d" => &["d"],
            "au" => &["au"],
            _ => &["ad"],
        };
        Self {
            table_sas: Some(letters),
            account_sas: Some(("o", account)),
            ..Self::new(name, method, "/Orders")
        }
    }

    fn entity(name: &'static str, method: &'static str, letters: &'static str) -> Self {
        Self {
            path: "/Orders(PartitionKey='m',RowKey='5')",
            names_entity: true,
            ..Self::entities(name, method, letters)
        }
    }

    fn json(self, status: u16, body: &str) -> Self {
        Self { status, content_type: "application/json", body: body.to_owned(), ..self }
    }

    fn xml(self, status: u16, body: &str) -> Self {
        Self { status, content_type: "application/xml", body: body.to_owned(), ..self }
    }

    fn batch(name: &'static str, status: u16, letters: &'static str, body: String) -> Self {
        Self {
            path: "/$batch",
            content_type: "multipart/mixed; boundary=b",
            body,
            status,
            names_entity: true,
            ..Self::entities(name, "POST", letters)
        }
    }

    pub(crate) fn is_batch(&self) -> bool {
        self.path == "/$batch"
    }
}

const IF_MATCH: &[(&str, &str)] = &[("If-Match", "*")];
const MERGE_TUNNEL: &[(&str, &str)] = &[("If-Match", "*"), ("X-HTTP-Method", "MERGE")];
const DELETE_TUNNEL: &[(&str, &str)] = &[("If-Match", "*"), ("X-HTTP-Method", "DELETE")];
const NEW: &str = r#"{"PartitionKey":"m","RowKey":"6","v":1}"#;
const POLICIES: &str = "<SignedIdentifiers><SignedIdentifier><Id>x</Id><AccessPolicy>\
    <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
const PROPERTIES: &str = "<StorageServiceProperties><Cors><CorsRule>\
    <AllowedOrigins>http://else</AllowedOrigins><AllowedMethods>PUT</AllowedMethods>\
    <MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders></ExposedHeaders>\
    <AllowedHeaders></AllowedHeaders></CorsRule></Cors></StorageServiceProperties>";

/// Every operation of the service.
pub(crate) fn all() -> Vec<Operation> {
    let mut all = on_tables();
    all.extend(on_entities());
    all.extend(on_service());
    all.extend(batches());
    all
}

fn on_tables() -> Vec<Operation> {
    let of_table = |operation: Operation, letters| Operation {
        account_sas: Some(("c", letters)),
        ..operation
    };
    let acl =
        |name, method| Operation { query: "comp=acl", ..Operation::new(name, method, "/Orders") };
    vec![
        of_table(Operation::new("Query Tables", "GET", "/Tables"), &["l"]),
        of_table(Operation::new("Query Table", "GET", "/Tables('Orders')"), &["l"]),
        of_table(
            Operation::new("Create Table", "POST", "/Tables").json(201, r#"{"TableName":"Fresh"}"#),
            &["c", "w"],
        ),
        of_table(
            Operation {
                status: 204,
                ..Operation::new("Delete Table", "DELETE", "/Tables('Spare')")
            },
            &["d"],
        ),
        acl("Get Table ACL", "GET"),
        acl("Get Table ACL by HEAD", "HEAD"),
        acl("Set Table ACL", "PUT").xml(204, POLICIES),
    ]
}

fn on_entities() -> Vec<Operation> {
    let query = |name, path| Operation {
        path,
        // Whether a query is of a container or of objects, sources disagree; both are taken.
        account_sas: Some(("co", &["r"])),
        ..Operation::entities(name, "GET", "r")
    };
    let changed =
        |operation: Operation| Operation { headers: IF_MATCH, ..operation }.json(204, "{}");
    vec![
        query("Query Entities", "/Orders()"),
        query("Query Entities without parentheses", "/Orders"),
        Operation::entity("Query Entity", "GET", "r"),
        Operation { names_entity: true, ..Operation::entities("Insert Entity", "POST", "a") }
            .json(201, NEW),
        Operation {
            names_entity: true,
            path: "/Orders/more",
            ..Operation::entities("Insert Entity by a longer path", "POST", "a")
        }
        .json(201, NEW),
        changed(Operation::entity("Update Entity", "PUT", "u")),
        changed(Operation::entity("Merge Entity", "MERGE", "u")),
        changed(Operation::entity("Merge Entity by PATCH", "PATCH", "u")),
        Operation {
            headers: MERGE_TUNNEL,
            ..changed(Operation::entity("Merge Entity through POST", "POST", "u"))
        },
        Operation::entity("Insert Or Replace Entity", "PUT", "au").json(204, "{}"),
        Operation::entity("Insert Or Merge Entity", "MERGE", "au").json(204, "{}"),
        Operation {
            status: 204,
            headers: IF_MATCH,
            ..Operation::entity("Delete Entity", "DELETE", "d")
        },
        Operation {
            status: 204,
            headers: DELETE_TUNNEL,
            ..Operation::entity("Delete Entity through POST", "POST", "d")
        },
        // No such resource; but only a caller that may read the table learns that the table is there.
        Operation {
            path: "/Orders/more(PartitionKey='m')",
            status: 400,
            ..Operation::entities("nothing, under a table", "GET", "r")
        },
    ]
}

fn on_service() -> Vec<Operation> {
    let service = |name, method, query, letters| Operation {
        query,
        account_sas: Some(("s", letters)),
        ..Operation::new(name, method, "/")
    };
    let properties = "restype=service&comp=properties";
    vec![
        service("Get Table Service Properties", "GET", properties, &["r"]),
        service("Set Table Service Properties", "PUT", properties, &["w"]).xml(202, PROPERTIES),
        Operation {
            secondary: true,
            ..service("Get Table Service Stats", "GET", "restype=service&comp=stats", &["r"])
        },
    ]
}

fn batches() -> Vec<Operation> {
    let entity = format!("/{ACCOUNT}/Orders(PartitionKey='m',RowKey='5')");
    let insert = change("POST", &format!("/{ACCOUNT}/Orders"), "", NEW);
    let update = change("PUT", &entity, "If-Match: *\r\n", "{}");
    let upsert = change("PUT", &entity, "", "{}");
    let delete = change("DELETE", &entity, "If-Match: *\r\n", "");
    let query = format!("--b\r\n{PART}GET {entity} HTTP/1.1\r\n{ACCEPT}\r\n\r\n--b--\r\n");
    vec![
        Operation::batch("a transaction that inserts", 201, "a", change_set(&[&insert])),
        Operation::batch("a transaction that updates", 204, "u", change_set(&[&update])),
        Operation::batch("a transaction that upserts", 204, "au", change_set(&[&upsert])),
        Operation::batch("a transaction that deletes", 204, "d", change_set(&[&delete])),
        Operation::batch(
            "a transaction that inserts and deletes",
            201,
            "ad",
            change_set(&[&insert, &delete]),
        ),
        Operation::batch("a batch that queries", 200, "r", query),
    ]
}

const PART: &str = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
const ACCEPT: &str = "Accept: application/json;odata=nometadata\r\n";

pub(crate) fn change(method: &str, path: &str, headers: &str, body: &str) -> String {
    format!(
        "{PART}{method} {path} HTTP/1.1\r\n{ACCEPT}Content-Type: application/json\r\n{headers}\r\n\
         {body}\r\n"
    )
}

pub(crate) fn change_set(changes: &[&str]) -> String {
    let parts: String = changes.iter().map(|change| format!("--c\r\n{change}")).collect();
    format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n")
}
