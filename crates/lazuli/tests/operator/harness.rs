//! A server, its log, its metrics, and one request of each kind.

use lazuli_testkit::http::{Operation, Request, connect};
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY, Server};
use lazuli_wire::sas::AccountSas;
use lazuli_wire::shared_key::SigningKey;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

/// How long an expected event may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn start(data: &Path, arguments: &[&str]) -> Server {
    Server::start(Path::new(BINARY), data, arguments).unwrap()
}

/// A server that logs to a file.
pub(crate) struct Logged {
    pub(crate) server: Server,
    pub(crate) directory: tempfile::TempDir,
}

impl Logged {
    pub(crate) fn start(data: &Path, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("log");
        let arguments = [&["--log-file", file.to_str().unwrap()], arguments].concat();
        Self { server: start(data, &arguments), directory }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// The first line that contains each of `parts`; waits for it.
    #[track_caller]
    pub(crate) fn wait_for(&self, parts: &[&str]) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            let mut lines = log.lines();
            if let Some(line) = lines.find(|line| parts.iter().all(|part| line.contains(part))) {
                return line.to_owned();
            }
            assert!(Instant::now() < deadline, "no line with {parts:?}: {log}");
            std::thread::yield_now();
        }
    }
}

/// The samples of a scrape: name with labels, and value.
pub(crate) fn scrape(server: &Server) -> Vec<(String, f64)> {
    let (status, answer) = server.ask_admin("/metrics").unwrap();
    assert_eq!(status, 200, "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let samples = body.lines().filter(|line| !line.starts_with('#') && line.contains(' '));
    samples
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect()
}

pub(crate) fn value(samples: &[(String, f64)], name: &str) -> f64 {
    let found = samples.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("{name} is missing: {samples:?}")).1
}

pub(crate) fn insert(row: &str) -> String {
    format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#)
}

/// Sends one request of each kind; two of them fail.
pub(crate) fn drive(server: &Server) {
    let mut connection = server.connect().unwrap();
    let mut send = |request: Request<'_>, status| {
        let answer = connection.send(&request).unwrap();
        assert_eq!(answer.status, status, "{}", answer.text());
    };
    send(Request::new("POST", "/Tables").json(r#"{"TableName":"Orders"}"#), 201);
    send(Request::new("POST", "/Orders").json(&insert("1")), 201);
    send(Request::new("POST", "/Orders").json(&insert("1")), 409);
    send(Request::new("GET", "/Orders(PartitionKey='p',RowKey='1')"), 200);
    send(Request::new("GET", "/Orders(PartitionKey='p',RowKey='2')"), 404);
    send(Request::new("GET", "/Orders()?$filter=PartitionKey%20eq%20'p'"), 200);
    send(Request::new("GET", "/Tables"), 200);
    let step = |row: &str| Operation {
        method: "POST",
        path: "/Orders".to_owned(),
        headers: Vec::new(),
        body: insert(row),
    };
    assert_eq!(connection.send_batch(&[step("3"), step("4")]).unwrap().status, 202);
}

/// A token for everything in the account, as a query string.
pub(crate) fn account_token() -> String {
    let sas = AccountSas {
        version: "2021-02-12",
        services: "tq",
        resource_types: "sco",
        permissions: "rwdlacup",
        expiry: "2099-01-01T00:00:00Z",
        ..AccountSas::default()
    };
    sas.token(ACCOUNT, &SigningKey::from_base64(ACCOUNT_KEY).unwrap()).unwrap()
}

/// One request with its own connection and exactly these headers besides the length: the status, and
/// everything that came back.
pub(crate) fn ask(
    address: SocketAddr,
    (method, target): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut stream = connect(address).unwrap();
    let mut head = format!("{method} /{ACCOUNT}{target} HTTP/1.1\r\nHost: {address}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.get(9..12).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{answer}")), answer)
}

/// One request to the Queue service, opened by `token`.
pub(crate) fn ask_queue(
    server: &Server,
    (method, target): (&str, &str),
    token: &str,
    body: &str,
) -> (u16, String) {
    let joint = if target.contains('?') { '&' } else { '?' };
    let target = format!("{target}{joint}{token}");
    ask(server.queue().unwrap(), (method, &target), &[("x-ms-version", "2021-02-12")], body)
}

/// The body of a message to put.
pub(crate) fn message(text: &str) -> String {
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>")
}

/// The text of the first element of this name.
pub(crate) fn element<'a>(answer: &'a str, name: &str) -> &'a str {
    let found = answer.split_once(&format!("<{name}>"));
    let text = found.and_then(|(_, rest)| rest.split_once(&format!("</{name}>")));
    text.unwrap_or_else(|| panic!("no {name}: {answer}")).0
}

/// The target that names the message `got` from the queue `orders` by its receipt.
pub(crate) fn held_message(got: &str) -> String {
    let (id, receipt) = (element(got, "MessageId"), element(got, "PopReceipt"));
    let receipt = utf8_percent_encode(receipt, NON_ALPHANUMERIC);
    format!("/orders/messages/{id}?popreceipt={receipt}")
}
