//! `lazuli copy` between data directories: what is copied, what is refused, how it resumes (O-12).

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_testkit::http::Request;
use lazuli_testkit::server::Server;
use std::path::Path;
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

fn copy(arguments: &[&str]) -> Output {
    Command::new(BINARY).arg("copy").args(arguments).output().unwrap()
}

fn copy_between(from: &Path, to: &Path, more: &[&str]) -> Output {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    copy(&[&["--from", from, "--to", to], more].concat())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// A directory with a table of `entities`, whose server has stopped.
fn filled(directory: &Path, entities: usize) {
    let server = Server::start(Path::new(BINARY), directory, &[]).unwrap();
    let mut connection = server.connect().unwrap();
    let table = Request::new("POST", "/Tables").json("{\"TableName\":\"Orders\"}");
    assert_eq!(connection.send(&table).unwrap().status, 201);
    for number in 0..entities {
        let path = format!("/Orders(PartitionKey='p',RowKey='{number:04}')");
        let body = format!("{{\"n\":{number}}}");
        assert_eq!(connection.send(&Request::new("PUT", &path).json(&body)).unwrap().status, 204);
    }
    drop(connection);
    assert!(server.terminate().unwrap().success());
}

fn page(directory: &Path) -> String {
    let server = Server::start(Path::new(BINARY), directory, &[]).unwrap();
    let mut connection = server.connect().unwrap();
    let headers = [("Accept", "application/json;odata=nometadata")];
    let path = "/Orders()?$select=RowKey,n";
    let page = connection.send(&Request::new("GET", path).headers(&headers)).unwrap();
    assert_eq!(page.status, 200);
    drop(connection);
    assert!(server.terminate().unwrap().success());
    page.text()
}

#[test]
fn a_copy_serves_what_the_source_served() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    filled(&from, 50);
    let planned = copy_between(&from, &to, &["--dry-run", "--json"]);
    assert!(said(&planned).contains("\"entries\":"), "{}", said(&planned));
    assert!(!to.exists(), "a dry run creates nothing");
    let state = dir.path().join("state");
    let copied = copy_between(&from, &to, &["--state", state.to_str().unwrap()]);
    assert_eq!(copied.status.code(), Some(0), "{}", said(&copied));
    assert!(said(&copied).contains("all the same"), "{}", said(&copied));
    assert!(!state.exists(), "a copy that is complete leaves no state");
    assert_eq!(page(&from), page(&to));

    // A second copy would mix two stores.
    let again = copy_between(&from, &to, &[]);
    assert_eq!(again.status.code(), Some(6), "{}", said(&again));
    assert!(said(&again).contains("is not empty") && said(&again).contains("hint:"));
}

/// O-12.6: a state left by an earlier run, however old, leads to the same target.
#[test]
fn a_copy_goes_on_from_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    filled(&from, 20);
    assert_eq!(copy_between(&from, &to, &["--verify", "none"]).status.code(), Some(0));
    let state = dir.path().join("state");
    let noted = format!(
        "{{\"version\":1,\"from\":\"{}\",\"to\":\"{}\",\"next\":\"4c\",\"entries\":0,\"bytes\":0,\
         \"views\":1}}",
        from.display(),
        to.display()
    );
    std::fs::write(&state, noted).unwrap();
    let state = state.to_str().unwrap();
    let copied = copy_between(&from, &to, &["--state", state, "--json"]);
    assert_eq!(copied.status.code(), Some(0), "{}", said(&copied));
    assert!(said(&copied).contains("\"missing\":0"), "{}", said(&copied));
    assert_eq!(page(&from), page(&to));
}

#[test]
fn what_cannot_be_copied_is_refused_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    let to = dir.path().join("to");
    let same = nowhere.to_str().unwrap();
    for (from, to, expect) in [
        (same, same, "the same store"),
        (same, to.to_str().unwrap(), "is not a data directory"),
        ("https://a.table.core.windows.net", same, "not accounts"),
    ] {
        let refused = copy(&["--from", from, "--to", to]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(expect), "{}", said(&refused));
        assert!(said(&refused).contains("hint:"), "{}", said(&refused));
    }
    assert!(!nowhere.exists() && !to.exists());
    for (engine, expect) in [
        (dir.path().to_str().unwrap(), "has to itself"),
        ("db1:5432", "not the address of a store"),
        ("mysql://me:secret@db1/x", "not the address of a store"),
    ] {
        let status = Command::new(BINARY).args(["status", "--engine", engine]).output().unwrap();
        assert_eq!(status.status.code(), Some(2), "{}", said(&status));
        assert!(said(&status).contains(expect), "{}", said(&status));
        assert!(!said(&status).contains("secret"), "{}", said(&status));
    }
}
