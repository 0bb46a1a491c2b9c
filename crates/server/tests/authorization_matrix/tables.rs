//! The operations of the Table service, and the permissions each needs: the table of the
//! specification's section on permissions, row by row.

use crate::operation::{Operation, POLICIES, on_service};
use crate::server::ACCOUNT;

/// What roles must give: the names of data actions (A-8).
const ADD: &str = "tables/entities/add/action";
const UPDATE: &str = "tables/entities/update/action";
const WRITE: &str = "tables/entities/write";
const DELETE: &str = "tables/entities/delete";
const READ_TABLE: &[&[&str]] = &[&["tables/read"]];

const IF_MATCH: &[(&str, &str)] = &[("If-Match", "*")];
const MERGE_TUNNEL: &[(&str, &str)] = &[("If-Match", "*"), ("X-HTTP-Method", "MERGE")];
const DELETE_TUNNEL: &[(&str, &str)] = &[("If-Match", "*"), ("X-HTTP-Method", "DELETE")];
const EXTENDED: &[(&str, &str)] = &[("x-lazuli-extensions", "on")];
const EXPLAINED: &[(&str, &str)] = &[("x-lazuli-extensions", "on"), ("x-lazuli-explain", "plan")];
const ANY: &[(&str, &str)] = &[("x-lazuli-extensions", "on"), ("x-lazuli-transaction", "any")];
const INDEXES: &str = r#"{"indexes":[{"name":"byV","on":["v"]},{"name":"byW","on":["w"]}]}"#;
const FEED: &str = r#"{"images":"both","retention_hours":1}"#;
const NEW: &str = r#"{"PartitionKey":"m","RowKey":"6","v":1}"#;

impl Operation {
    fn entities(name: &'static str, method: &'static str, letters: &'static str) -> Self {
        let (account, actions): (&[&str], &[&[&str]]) = match letters {
            "r" => (&["r"], &[&["tables/entities/read"]]),
            "a" => (&["a"], &[&[ADD], &[WRITE]]),
            "u" => (&["u"], &[&[UPDATE], &[WRITE]]),
            "d" => (&["d"], &[&[DELETE]]),
            "au" => (&["au"], &[&[ADD, UPDATE], &[WRITE]]),
            "rd" => (&["rd"], &[&["tables/entities/read", DELETE]]),
            _ => (&["ad"], &[&[ADD, DELETE], &[WRITE, DELETE]]),
        };
        Self {
            service_sas: Some(letters),
            account_sas: Some(("o", account)),
            actions,
            reads: letters == "r",
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
}

/// Every operation of the service.
pub(crate) fn all() -> Vec<Operation> {
    let mut all = on_tables();
    all.extend(on_entities());
    let names =
        ["Get Table Service Properties", "Set Table Service Properties", "Get Table Service Stats"];
    all.extend(on_service(names));
    all.extend(batches());
    all.extend(settings());
    all.extend(extensions());
    all
}

/// The settings of a table (X-0.4), and the upkeep of its indexes (X-3.12).
fn settings() -> Vec<Operation> {
    let read = |name, query| Operation {
        query,
        headers: EXTENDED,
        reads: true,
        service_sas: Some("r"),
        account_sas: Some(("c", &["r"])),
        actions: READ_TABLE,
        of_whole_table: true,
        ..Operation::new(name, "GET", "/Orders")
    };
    let write = |name, method, query| Operation {
        query,
        headers: EXTENDED,
        account_sas: Some(("c", &["w"])),
        actions: &[&["tables/write"]],
        ..Operation::new(name, method, "/Orders")
    };
    vec![
        read("Get Indexes", "comp=lazuli-indexes"),
        write("Set Indexes", "PUT", "comp=lazuli-indexes").json(202, INDEXES),
        Operation { status: 204, ..write("Delete Indexes", "DELETE", "comp=lazuli-indexes") },
        read("Verify Indexes", "comp=lazuli-verify"),
        Operation { status: 202, ..write("Rebuild Index", "PUT", "comp=lazuli-rebuild&index=byV") },
        read("Get Feed", "comp=lazuli-feed"),
        write("Set Feed", "PUT", "comp=lazuli-feed").json(200, FEED),
        Operation { status: 204, ..write("Delete Feed", "DELETE", "comp=lazuli-feed") },
        read("Get Expiry", "comp=lazuli-ttl"),
        write("Set Expiry", "PUT", "comp=lazuli-ttl").json(200, r#"{"seconds":1000000}"#),
        Operation { status: 204, ..write("Delete Expiry", "DELETE", "comp=lazuli-ttl") },
        Operation {
            account_sas: Some(("co", &["r"])),
            actions: &[&["tables/entities/read"]],
            ..read("Get Changes", "comp=lazuli-changes")
        },
    ]
}

/// What extensions do with entities (X-2.1, X-4.3, X-4.4, X-4.6).
fn extensions() -> Vec<Operation> {
    let read = |name, path, headers| Operation {
        path,
        headers,
        account_sas: Some(("co", &["r"])),
        ..Operation::entities(name, "GET", "r")
    };
    let insert = change("POST", &format!("/{ACCOUNT}/Orders"), "", NEW);
    let entity = format!("/{ACCOUNT}/Orders(PartitionKey='m',RowKey='5')");
    let delete = change("DELETE", &entity, "If-Match: *\r\n", "");
    vec![
        read("the plan of a query", "/Orders()", EXPLAINED),
        read("Count Entities", "/Orders()/$count", EXTENDED),
        read("Count Entities without parentheses", "/Orders/$count", EXTENDED),
        Operation {
            path: "/Orders()",
            query: "$filter=RowKey%20eq%20'5'",
            headers: EXTENDED,
            ..Operation::entities("Delete Entities", "DELETE", "rd")
        },
        Operation {
            headers: ANY,
            ..Operation::batch(
                "a transaction over partitions",
                201,
                "ad",
                change_set(&[&insert, &delete]),
            )
        },
    ]
}

fn on_tables() -> Vec<Operation> {
    let of_table = |operation: Operation, letters, actions| Operation {
        account_sas: Some(("c", letters)),
        reads: operation.method == "GET",
        actions,
        ..operation
    };
    let acl = |name, method| Operation {
        query: "comp=acl",
        reads: method != "PUT",
        ..Operation::new(name, method, "/Orders")
    };
    vec![
        of_table(Operation::new("Query Tables", "GET", "/Tables"), &["l"], READ_TABLE),
        of_table(Operation::new("Query Table", "GET", "/Tables('Orders')"), &["l"], READ_TABLE),
        of_table(
            Operation::new("Create Table", "POST", "/Tables").json(201, r#"{"TableName":"Fresh"}"#),
            &["c", "w"],
            &[&["tables/write"]],
        ),
        of_table(
            Operation {
                status: 204,
                ..Operation::new("Delete Table", "DELETE", "/Tables('Spare')")
            },
            &["d"],
            &[&["tables/delete"]],
        ),
        acl("Get Table ACL", "GET"),
        acl("Get Table ACL by HEAD", "HEAD"),
        acl("Set Table ACL", "PUT").xml(204, POLICIES),
    ]
}

fn on_entities() -> Vec<Operation> {
    let query = |name, path| Operation {
        path,
        // Sources disagree on whether a query is of type container or object; both are accepted.
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
        // No such resource; but only a caller that may read the table learns that the table exists.
        Operation {
            path: "/Orders/more(PartitionKey='m')",
            status: 400,
            ..Operation::entities("nothing, under a table", "GET", "r")
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
