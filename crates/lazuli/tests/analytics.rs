//! Counts for analytics with the real binary: what was counted is in the tables after a stop.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::http::Request;
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
    let query = Request::new("GET", "/$MetricsHourPrimaryTransactionsTable()");
    let rows = server.connect().unwrap().send(&query).unwrap();
    assert_eq!(rows.status, 200, "{}", rows.text());
    for row in ["system;All", "user;All", "user;QueryTables", "user;SetTableServiceProperties"] {
        assert!(rows.text().contains(&format!(r#""RowKey":"{row}""#)), "{row}: {}", rows.text());
    }
}
