//! Which requests are logged, and the content of a line.

use crate::harness::{Logged, PATIENCE, account_token, ask, drive, scrape, value};
use lazuli_testkit::http::{Request, connect};
use lazuli_testkit::server::ACCOUNT;
use std::io::{Read, Write};
use std::time::Instant;

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

/// O-4.2: hyper answers such a request by itself, so it never reaches the operations.
#[test]
fn a_request_that_cannot_be_read_is_counted_and_logged() {
    let data = tempfile::tempdir().unwrap();
    let logged = Logged::start(data.path(), &[]);
    let mut stream = connect(logged.server.address()).unwrap();
    let head = format!("GET /Tables HTTP/1.1\r\n{}\r\n", "X-More: 1\r\n".repeat(200));
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let line = logged.wait_for(&[r#""msg":"request""#, r#""code":"InvalidHeaderValue""#]);
    let (_, id) = answer.split_once("x-ms-request-id: ").unwrap();
    assert!(line.contains(&format!(r#""id":"{}""#, id.get(..36).unwrap())), "{line}");
    assert!(line.contains(r#""status":431"#) && line.contains(r#""peer":"#), "{line}");
    for unknown in ["method", "path", "auth", "outcome"] {
        assert!(!line.contains(&format!("\"{unknown}\":")), "{unknown}: {line}");
    }
    let samples = scrape(&logged.server);
    let requests = |outcome| {
        let labels = format!(r#"service="table",operation="Unknown",outcome="{outcome}""#);
        value(&samples, &format!("lazuli_requests_total{{{labels}}}"))
    };
    assert_eq!((requests("client_error"), requests("cut")), (1.0, 0.0));
    let code = r#"lazuli_errors_total{service="table",code="InvalidHeaderValue"}"#;
    assert_eq!(value(&samples, code), 1.0);
}

/// O-4.2: a request that got no answer.
#[test]
fn a_request_that_is_cut_is_logged() {
    let data = tempfile::tempdir().unwrap();
    let logged = Logged::start(data.path(), &["--grace-seconds", "0"]);
    let mut stream = connect(logged.server.address()).unwrap();
    let head = format!(
        "POST /{ACCOUNT}/Tables?{} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
        account_token()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let in_flight = r#"lazuli_requests_in_flight{service="table"}"#;
    while value(&scrape(&logged.server), in_flight) == 0.0 {
        assert!(Instant::now() < deadline, "the request does not arrive");
    }
    let Logged { server, directory } = logged;
    assert_eq!(server.terminate().unwrap().code(), Some(0));
    let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
    let line = log.lines().find(|line| line.contains(r#""outcome":"cut""#));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    let path = format!(r#""method":"POST","path":"/{ACCOUNT}/Tables","outcome":"cut","us":"#);
    assert!(line.contains(r#""op":"CreateTable""#) && line.contains(&path), "{line}");
    assert!(!line.contains(r#""status":"#), "{line}");
}

/// O-4.3.
#[test]
fn a_request_without_a_credential_is_anonymous() {
    let data = tempfile::tempdir().unwrap();
    let logged = Logged::start(data.path(), &["--access-log", "all"]);
    let send = |request: (&str, &str), headers: &[(&str, &str)]| {
        assert_eq!(ask(logged.server.address(), request, headers, "").0, 403);
    };
    send(("GET", "/Anonymous"), &[]);
    send(("GET", "/Signed?sv=2019-02-02&sig=AAAA"), &[]);
    send(("GET", "/Refused"), &[("Authorization", &format!("SharedKey {ACCOUNT}:AAAA"))]);
    let origin = ("Origin", "http://a.test");
    send(("OPTIONS", "/Preflight"), &[origin, ("Access-Control-Request-Method", "GET")]);
    for (resource, is_anonymous) in
        [("Anonymous", true), ("Signed", false), ("Refused", false), ("Preflight", true)]
    {
        let line = logged.wait_for(&[&format!(r#""resource":"{resource}""#)]);
        assert_eq!(line.contains(r#""auth":"anonymous""#), is_anonymous, "{line}");
        assert_eq!(line.contains(r#""auth":"#), is_anonymous, "{line}");
    }
}

/// O-4.3: whatever began with the name of the account lost it: a table named like it in host style, and the
/// secondary. A request to no account had the account as its resource.
#[test]
fn the_resource_of_a_line_is_what_follows_the_account() {
    let data = tempfile::tempdir().unwrap();
    let logged = Logged::start(data.path(), &["--access-log", "all"]);
    let own_host = format!("{ACCOUNT}.table.localhost");
    for (host, path, resource) in [
        (own_host.as_str(), format!("/{ACCOUNT}s()"), Some(format!("{ACCOUNT}s"))),
        (&own_host, format!("/{ACCOUNT}()"), Some(ACCOUNT.to_owned())),
        ("localhost", format!("/{ACCOUNT}/Orders()"), Some("Orders".to_owned())),
        ("localhost", format!("/{ACCOUNT}-secondary/Others()"), Some("Others".to_owned())),
        ("localhost", "/nobody/Orders()".to_owned(), None),
    ] {
        let mut stream = connect(logged.server.address()).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.read_to_string(&mut String::new()).unwrap();
        let line = logged.wait_for(&[&format!(r#""path":"{path}""#)]);
        let shown = resource.as_ref().map(|name| format!(r#""resource":"{name}""#));
        assert_eq!(line.contains(r#""resource":"#), resource.is_some(), "{line}");
        assert!(shown.is_none_or(|shown| line.contains(&shown)), "{line}");
    }
}
