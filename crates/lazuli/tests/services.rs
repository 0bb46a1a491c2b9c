//! Tables and queues in one process: both by default, or those selected.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::http::Request;
use lazuli_testkit::server::{ACCOUNT, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

fn start(arguments: &[&str]) -> (Server, tempfile::TempDir) {
    let data = tempfile::tempdir().unwrap();
    (Server::start(Path::new(BINARY), data.path(), arguments).unwrap(), data)
}

/// The response of the service at `address` to a request without a credential.
fn ask(address: SocketAddr, target: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: {address}\r\nx-ms-version: 2021-02-12\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn tables_and_queues_are_served_on_ports_of_their_own() {
    let (server, _data) = start(&[]);
    let tables = server.connect().unwrap().send(&Request::new("GET", "/Tables")).unwrap();
    assert_eq!(tables.status, 200);
    let queue = server.queue().unwrap();
    let answer = ask(queue, &format!("/{ACCOUNT}?comp=list"));
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert!(answer.contains("server: Windows-Azure-Queue/1.0 Microsoft-HTTPAPI/2.0\r\n"));
    assert!(answer.contains("<Code>NoAuthenticationInformation</Code>"), "{answer}");
    assert!(
        server.connection_string().contains(&format!("QueueEndpoint=http://{queue}/{ACCOUNT};"))
    );
    assert_eq!(server.terminate().unwrap().code(), Some(0));
}

#[test]
fn a_service_that_is_not_asked_for_has_no_port() {
    let (server, _data) = start(&["--services", "table"]);
    assert_eq!(server.queue(), None);
    let output = Command::new(BINARY).args(["--services", "tables"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("expected `table`, `queue`"));
}

#[test]
fn a_taken_queue_port_is_named() {
    let (server, _data) = start(&[]);
    let data = tempfile::tempdir().unwrap();
    let port = server.queue().unwrap().port().to_string();
    let output = Command::new(BINARY)
        .args(["--table-port", "0", "--queue-port", &port, "--data"])
        .arg(data.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("is taken") && text.contains("--queue-port"), "{text}");
}
