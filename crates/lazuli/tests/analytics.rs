//! Analytics with the real binary: after a stop, the counts are in the tables.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::http::{Connection, Request};
use lazuli_testkit::server::Server;
use std::path::Path;

fn start(data: &Path) -> Server {
    Server::start(Path::new(env!("CARGO_BIN_EXE_lazuli")), data, &[]).unwrap()
}

#[test]
fn a_stop_keeps_what_was_counted() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path());
    let mut connection = server.connect().unwrap();
    let body = "<StorageServiceProperties><HourMetrics><Version>1.0</Version><Enabled>true</Enabled>\
         <IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days>\
         </RetentionPolicy></HourMetrics></StorageServiceProperties>";
    let set = Request {
        content_type: "application/xml",
        body: body.as_bytes(),
        ..Request::new("PUT", "/?restype=service&comp=properties")
    };
    assert_eq!(connection.send(&set).unwrap().status, 202);
    assert_eq!(connection.send(&Request::new("GET", "/Tables")).unwrap().status, 200);
    assert_eq!(server.terminate().unwrap().code(), Some(0));

    let server = start(data.path());
    check_rows(
        &server,
        "$MetricsHourPrimaryTransactionsTable",
        &["system;All", "user;All", "user;QueryTables", "user;SetTableServiceProperties"],
    );
}

#[track_caller]
fn check_rows(server: &Server, table: &str, expect: &[&str]) {
    let query = format!("/{table}()");
    let rows = server.connect().unwrap().send(&Request::new("GET", &query)).unwrap();
    assert_eq!(rows.status, 200, "{}", rows.text());
    for row in expect {
        assert!(rows.text().contains(&format!(r#""RowKey":"{row}""#)), "{row}: {}", rows.text());
    }
}

/// The status with which the Queue service answers a signed request.
fn ask_queues(server: &Server, method: &str, target: &str, body: &str) -> u16 {
    let mut connection = Connection::open(server.queue().unwrap()).unwrap().of_queues();
    connection.send(&Request::new(method, target).xml(body.as_bytes())).unwrap().status
}

/// Q-9.12: queues are counted in tables of their own, by the hour and by the minute, with the names of
/// their operations. There is no `$MetricsCapacityQueue` (9.7 of the Table rules: Blob only).
#[test]
fn requests_to_queues_are_counted_too() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path());
    let metrics = |name| {
        format!(
            "<{name}><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
             <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></{name}>"
        )
    };
    let body = format!(
        "<StorageServiceProperties>{}{}</StorageServiceProperties>",
        metrics("HourMetrics"),
        metrics("MinuteMetrics")
    );
    let set = "/?restype=service&comp=properties";
    assert_eq!(ask_queues(&server, "PUT", set, &body), 202);
    assert_eq!(ask_queues(&server, "PUT", "/orders", ""), 201);
    let message = "<QueueMessage><MessageText>a</MessageText></QueueMessage>";
    assert_eq!(ask_queues(&server, "POST", "/orders/messages", message), 201);
    assert_eq!(ask_queues(&server, "GET", "/orders/messages?peekonly=true", ""), 200);
    assert_eq!(ask_queues(&server, "GET", "/orders/messages?numofmessages=2", ""), 200);
    assert_eq!(ask_queues(&server, "GET", "/missing/messages", ""), 404);
    assert_eq!(server.terminate().unwrap().code(), Some(0));

    let server = start(data.path());
    let rows = [
        "system;All",
        "user;All",
        "user;SetQueueServiceProperties",
        "user;CreateQueue",
        "user;PutMessage",
        "user;PeekMessage",
        "user;GetMessages",
        "user;GetMessage",
    ];
    check_rows(&server, "$MetricsHourPrimaryTransactionsQueue", &rows);
    check_rows(&server, "$MetricsMinutePrimaryTransactionsQueue", &rows);
    // The name in old versions.
    check_rows(&server, "$MetricsTransactionsQueue", &rows);
    let query = Request::new("GET", "/$MetricsCapacityQueue()");
    assert_eq!(server.connect().unwrap().send(&query).unwrap().status, 404);
}
