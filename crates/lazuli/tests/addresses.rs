//! How clients may name an account, with the real binary: by path and by host, at both locations, over
//! IPv4 and IPv6 (1.1).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::http::{Connection, Operation, Request, Response, connect};
use lazuli_testkit::server::{ACCOUNT, Server};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// A running server and its data.
struct Lazuli {
    server: Server,
    _data: tempfile::TempDir,
}

impl Lazuli {
    fn start(arguments: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_lazuli"));
        let server = Server::start(binary, data.path(), arguments).unwrap();
        Self { server, _data: data }
    }

    fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A connection with the host `host` (its port is added) that puts `segment` before every path.
    fn connect(&self, host: &str, segment: &str) -> Connection {
        let address = self.address();
        let host = format!("{host}:{}", address.port());
        Connection::over(connect(address).unwrap(), host).unwrap().under(segment)
    }
}

#[track_caller]
fn expect(response: Response, status: u16) -> Response {
    assert_eq!(response.status, status, "{}", response.text());
    response
}

/// Creates a table and two entities, and reads them; every link must begin with `base`.
#[track_caller]
fn check_served(connection: &mut Connection, base: &str) {
    let mut send =
        |request: Request<'_>, status| expect(connection.send(&request).unwrap(), status);
    let created = send(Request::new("POST", "/Tables").json(r#"{"TableName":"Orders"}"#), 201);
    assert_eq!(created.header("location"), Some(format!("{base}Tables('Orders')").as_str()));
    let entity = r#"{"PartitionKey":"p","RowKey":"1"}"#;
    let inserted = send(Request::new("POST", "/Orders").json(entity), 201);
    let location = format!("{base}Orders(PartitionKey='p',RowKey='1')");
    assert_eq!(inserted.header("location"), Some(location.as_str()));
    let operation = Operation {
        method: "POST",
        path: "/Orders".to_owned(),
        headers: Vec::new(),
        body: r#"{"PartitionKey":"p","RowKey":"2"}"#.to_owned(),
    };
    let batch = connection.send_batch(&[operation]).unwrap();
    assert_eq!(batch.status, 202, "{}", batch.body);
    assert!(batch.body.contains(&format!("{base}Orders(PartitionKey='p',RowKey='2')")));
    let found = connection.send(&Request::new("GET", "/Orders()")).unwrap();
    let text = expect(found, 200).text();
    assert!(text.starts_with(&format!(r#"{{"odata.metadata":"{base}$metadata#Orders""#)), "{text}");
    assert_eq!(text.matches("RowKey").count(), 2, "{text}");
    expect(connection.send(&Request::new("DELETE", "/Tables('Orders')")).unwrap(), 204);
}

/// Reads and requests statistics; writes must be refused.
#[track_caller]
fn check_secondary(connection: &mut Connection) {
    let mut send = |request: Request<'_>| connection.send(&request).unwrap();
    expect(send(Request::new("GET", "/Tables")), 200);
    let stats = expect(send(Request::new("GET", "/?restype=service&comp=stats")), 200).text();
    assert!(stats.contains("<Status>live</Status>"), "{stats}");
    let refused = send(Request::new("POST", "/Tables").json(r#"{"TableName":"Orders"}"#));
    let refused = expect(refused, 403).text();
    assert!(refused.contains("InsufficientAccountPermissions"), "{refused}");
}

#[test]
fn the_account_is_a_segment_of_the_path() {
    let lazuli = Lazuli::start(&[]);
    let port = lazuli.address().port();
    for host in ["127.0.0.1", "localhost", "lazuli.example.org"] {
        let base = format!("http://{host}:{port}/{ACCOUNT}/");
        check_served(&mut lazuli.connect(host, &format!("/{ACCOUNT}")), &base);
        check_secondary(&mut lazuli.connect(host, &format!("/{ACCOUNT}-secondary")));
    }
    // As the az command line and the JavaScript library query the secondary.
    check_secondary(&mut lazuli.connect("127.0.0.1", &format!("/{ACCOUNT}-secondary/{ACCOUNT}")));
    check_secondary(&mut lazuli.connect("127-secondary.0.0.1", &format!("/{ACCOUNT}")));
}

#[test]
fn the_account_is_a_label_of_the_host() {
    let lazuli = Lazuli::start(&["--host-suffix", "tables.example.org"]);
    let port = lazuli.address().port();
    for suffix in ["table.localhost", "table.core.windows.net", "tables.example.org"] {
        let host = format!("{ACCOUNT}.{suffix}");
        check_served(&mut lazuli.connect(&host, ""), &format!("http://{host}:{port}/"));
        check_secondary(&mut lazuli.connect(&format!("{ACCOUNT}-secondary.{suffix}"), ""));
    }
    let mut stranger = lazuli.connect("stranger.tables.example.org", "");
    expect(stranger.send(&Request::new("GET", "/Tables")).unwrap(), 404);
    // Not under a suffix: the first segment must name the account.
    let mut elsewhere = lazuli.connect(&format!("{ACCOUNT}.other.example.org"), "");
    expect(elsewhere.send(&Request::new("GET", "/Tables")).unwrap(), 404);
}

#[test]
fn ipv6_is_an_address_like_any_other() {
    if TcpListener::bind("[::1]:0").is_err() {
        // The machine has no IPv6.
        return;
    }
    let lazuli = Lazuli::start(&["--host", "::1"]);
    assert!(lazuli.address().is_ipv6());
    let port = lazuli.address().port();
    let base = format!("http://[::1]:{port}/{ACCOUNT}/");
    check_served(&mut lazuli.connect("[::1]", &format!("/{ACCOUNT}")), &base);
    check_secondary(&mut lazuli.connect("[::1]", &format!("/{ACCOUNT}-secondary")));
    let host = format!("{ACCOUNT}.table.localhost");
    check_served(&mut lazuli.connect(&host, ""), &format!("http://{host}:{port}/"));
}

#[test]
fn several_accounts_do_not_see_each_other() {
    let key = lazuli_testkit::server::ACCOUNT_KEY;
    let accounts = format!("{ACCOUNT}:{key};other:{key}");
    let lazuli = Lazuli::start(&["--accounts", &accounts]);
    let create = Request::new("POST", "/Tables").json(r#"{"TableName":"Orders"}"#);
    let mut ours = lazuli.connect("localhost", &format!("/{ACCOUNT}"));
    expect(ours.send(&create).unwrap(), 201);
    // The same key, but the signature is made for another account name.
    let mut theirs = lazuli.connect("localhost", "/other");
    expect(theirs.send(&Request::new("GET", "/Tables")).unwrap(), 403);
}
