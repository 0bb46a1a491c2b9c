//! Which requests are logged, and what a line says.

use crate::harness::{Logged, drive};
use lazuli_testkit::http::Request;

#[test]
fn access_lines_have_their_fields_in_order() {
    let data = tempfile::tempdir().unwrap();
    let logged = Logged::start(data.path(), &["--access-log", "all"]);
    drive(&logged.server);
    let line = logged.wait_for(&[r#""op":"QueryEntity""#, r#""status":200"#]);
    let fields = [
        "ts", "level", "msg", "id", "service", "account", "op", "resource", "method", "path",
        "status", "us", "out", "plan", "examined", "returned", "auth", "peer", "api",
    ];
    let places: Vec<_> = fields.iter().map(|name| line.find(&format!("\"{name}\":"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{line}");
    for part in [
        r#""msg":"request""#,
        r#""service":"table","account":"devstoreaccount1","op":"QueryEntity","resource":"Orders","method":"GET""#,
        r#""plan":"Point","examined":1,"returned":1,"auth":"key1""#,
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!line.contains("\"code\":") && !line.contains("\"ops\":"), "{line}");
    assert!(!line.contains("\"commit_us\":"), "a read commits nothing: {line}");
    let insert = logged.wait_for(&[r#""op":"InsertEntity""#, r#""status":201"#]);
    let places = ["us", "commit_us", "in", "out"].map(|name| insert.find(&format!("\"{name}\":")));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{insert}");
    logged.wait_for(&[r#""op":"EntityGroupTransaction""#, r#""ops":2"#]);
    logged.wait_for(&[r#""status":409"#, r#""code":"EntityAlreadyExists""#]);
}

#[test]
fn people_read_aligned_lines() {
    let data = tempfile::tempdir().unwrap();
    let logged = Logged::start(data.path(), &["--access-log", "all", "--log-format", "human"]);
    drive(&logged.server);
    logged.wait_for(&["  200  ", "  table  QueryEntity  ", "  Orders  ", "  plan Point 1/1"]);
}

#[test]
fn only_what_an_operator_should_see_is_logged_by_default() {
    let data = tempfile::tempdir().unwrap();
    let quiet = Logged::start(data.path(), &["--slow-ms", "60000"]);
    drive(&quiet.server);
    quiet.server.signal("USR1").unwrap();
    quiet.wait_for(&[r#""msg":"status""#]);
    assert!(!quiet.log().contains(r#""msg":"request""#), "{}", quiet.log());
    drop(quiet);
    let slow = Logged::start(data.path(), &["--slow-ms", "0"]);
    let mut connection = slow.server.connect().unwrap();
    assert_eq!(connection.send(&Request::new("GET", "/Tables")).unwrap().status, 200);
    slow.wait_for(&[r#""msg":"request""#, r#""op":"QueryTables""#]);
}
