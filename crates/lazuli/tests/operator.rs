//! What an operator sees of the real binary: metrics, access lines, the lines of start and stop.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::http::{Operation, Request};
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY, Server};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every metric whose subject exists, as `docs/operations.md` lists them.
const METRICS: &[&str] = &[
    "lazuli_build_info",
    "lazuli_ready",
    "lazuli_requests_total",
    "lazuli_errors_total",
    "lazuli_request_duration_seconds",
    "lazuli_requests_in_flight",
    "lazuli_request_bytes_total",
    "lazuli_response_bytes_total",
    "lazuli_account_requests_total",
    "lazuli_connections",
    "lazuli_connections_total",
    "lazuli_connections_cut_total",
    "lazuli_tls_handshakes_total",
    "lazuli_auth_refusals_total",
    "lazuli_busy_total",
    "lazuli_memory_bytes",
    "lazuli_memory_limit_bytes",
    "lazuli_queries_total",
    "lazuli_entities_examined_total",
    "lazuli_entities_returned_total",
    "lazuli_batch_operations",
    "lazuli_conflicts_total",
    "lazuli_commits_total",
    "lazuli_commit_wait_seconds",
    "lazuli_commit_group_commits",
    "lazuli_sync_seconds",
    "lazuli_commit_queue_bytes",
    "lazuli_store_bytes",
    "lazuli_store_files",
    "lazuli_store_writable",
    "lazuli_store_reopens_total",
    "lazuli_store_recovery_seconds",
    "lazuli_flushes_total",
    "lazuli_compactions_total",
    "lazuli_disk_free_bytes",
    "lazuli_views_open",
    "lazuli_oldest_view_seconds",
    "lazuli_log_lines_dropped_total",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
];

/// Series that there may be, whatever clients send.
const SERIES_MAX: usize = 3000;

fn start(data: &Path, arguments: &[&str]) -> Server {
    Server::start(Path::new(BINARY), data, arguments).unwrap()
}

/// A server that logs to a file.
struct Logged {
    server: Server,
    directory: tempfile::TempDir,
}

impl Logged {
    fn start(data: &Path, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("log");
        let arguments = [&["--log-file", file.to_str().unwrap()], arguments].concat();
        Self { server: start(data, &arguments), directory }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// The first line that holds each of `parts`, once it is there.
    #[track_caller]
    fn wait_for(&self, parts: &[&str]) -> String {
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
fn scrape(server: &Server) -> Vec<(String, f64)> {
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

fn value(samples: &[(String, f64)], name: &str) -> f64 {
    let found = samples.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("{name} is missing: {samples:?}")).1
}

fn insert(row: &str) -> String {
    format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#)
}

/// Sends one request of each kind; two of them fail.
fn drive(server: &Server) {
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

#[test]
fn every_metric_is_there_and_counts() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    drive(&server);
    let samples = scrape(&server);
    let bare = |name: &str| {
        let name = name.split('{').next().unwrap();
        let suffixes = ["_bucket", "_sum", "_count"];
        let base = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
        base.filter(|base| METRICS.contains(base)).unwrap_or(name).to_owned()
    };
    let found: BTreeSet<String> = samples.iter().map(|(name, _)| bare(name)).collect();
    let expect: BTreeSet<String> = METRICS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, expect);

    let requests = |operation: &str, outcome: &str| {
        let labels = format!(r#"service="table",operation="{operation}",outcome="{outcome}""#);
        value(&samples, &format!("lazuli_requests_total{{{labels}}}"))
    };
    assert_eq!(requests("QueryEntity", "ok"), 1.0);
    assert_eq!(requests("QueryEntity", "client_error"), 1.0);
    assert_eq!(requests("InsertEntity", "client_error"), 1.0);
    assert_eq!(requests("EntityGroupTransaction", "ok"), 1.0);
    let check = |name: &str, expect: f64| assert_eq!(value(&samples, name), expect, "{name}");
    check(r#"lazuli_errors_total{service="table",code="EntityAlreadyExists"}"#, 1.0);
    check(r#"lazuli_conflicts_total{code="409"}"#, 1.0);
    check(r#"lazuli_queries_total{plan="Point"}"#, 1.0);
    check(r#"lazuli_queries_total{plan="Partition"}"#, 1.0);
    check(r#"lazuli_entities_returned_total{plan="Partition"}"#, 1.0);
    check(r#"lazuli_request_duration_seconds_count{service="table",kind="point_read"}"#, 2.0);
    check("lazuli_batch_operations_sum", 2.0);
    check(r#"lazuli_requests_in_flight{service="table"}"#, 0.0);
    check("lazuli_store_writable", 1.0);
    check(r#"lazuli_memory_limit_bytes{pool="cache"}"#, 134_217_728.0);
    let account =
        format!(r#"lazuli_account_requests_total{{account="{ACCOUNT}",service="table"}}"#);
    assert!(value(&samples, &account) >= 8.0);
    assert!(value(&samples, r#"lazuli_commits_total{outcome="done"}"#) >= 3.0);
}

#[test]
fn metrics_are_documented() {
    let page = include_str!("../../../docs/operations.md");
    for name in METRICS {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/operations.md");
    }
}

/// Names, keys, agents, methods and paths that a client may send are not labels.
#[test]
fn hostile_names_make_no_series() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    drive(&server);
    let before: BTreeSet<_> = scrape(&server).into_iter().map(|(name, _)| name).collect();
    let mut connection = server.connect().unwrap();
    for n in 0..200 {
        let agent = format!("agent-{n}");
        let headers = [("User-Agent", agent.as_str()), ("x-ms-client-request-id", agent.as_str())];
        for path in [format!("/T{n}(PartitionKey='{n}',RowKey='')"), format!("/{n}%22%0A{{}}")] {
            let request = Request::new("GET", &path).headers(&headers);
            assert!(connection.send(&request).unwrap().status >= 400);
        }
    }
    let after: BTreeSet<_> = scrape(&server).into_iter().map(|(name, _)| name).collect();
    assert_eq!(after, before);
    assert!(after.len() <= SERIES_MAX, "{}", after.len());
}

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

/// Writes are refused below the reserve, and logged; a table can still be deleted.
#[test]
fn a_disk_below_the_reserve_refuses_writes_but_not_the_deletion_of_a_table() {
    let data = tempfile::tempdir().unwrap();
    drive(&start(data.path(), &[]));
    let logged = Logged::start(data.path(), &["--disk-reserve-mib", "4294967295"]);
    let mut connection = logged.server.connect().unwrap();
    let mut status = |request: Request<'_>| connection.send(&request).unwrap().status;
    assert_eq!(status(Request::new("POST", "/Orders").json(&insert("9"))), 503);
    assert_eq!(status(Request::new("GET", "/Orders(PartitionKey='p',RowKey='1')")), 200);
    logged.wait_for(&[r#""op":"InsertEntity""#, r#""status":503,"code":"ServerBusy""#]);
    assert_eq!(status(Request::new("DELETE", "/Tables('Orders')")), 204);
}

/// Signatures and keys are in no line, no metric and no status dump.
#[test]
fn secrets_appear_nowhere() {
    let data = tempfile::tempdir().unwrap();
    let arguments = ["--access-log", "all", "--log-query", "--log", "trace"];
    let logged = Logged::start(data.path(), &arguments);
    let server = &logged.server;
    drive(server);
    let mut plain = server.connect().unwrap();
    let path = "/Orders()?sv=2019-02-02&si=readers&sig=c2VjcmV0%3D&tn=Orders";
    assert_eq!(plain.send(&Request::new("GET", path)).unwrap().status, 403);
    let line = logged.wait_for(&[r#""msg":"request""#, "si=readers"]);
    assert!(line.contains("sig=***"), "{line}");
    server.signal("USR1").unwrap();
    logged.wait_for(&[r#""msg":"status""#, "lazuli_store_writable"]);
    let everything = [logged.log(), server.ask_admin("/metrics").unwrap().1].concat();
    let raw_key = ACCOUNT_KEY.get(..20).unwrap();
    for secret in [raw_key, "c2VjcmV0", "SharedKey "] {
        assert!(!everything.contains(secret), "{secret} appears");
    }
}

#[test]
fn start_and_stop_are_logged() {
    let data = tempfile::tempdir().unwrap();
    let logged = Logged::start(data.path(), &[]);
    let line = logged.wait_for(&[r#""msg":"started""#]);
    let fields = [
        "version",
        "revision",
        "engine",
        "data",
        "data_format",
        "durability",
        "recovery_ms",
        "addresses",
        "accounts",
        "tls",
        "memory_bound_mib",
        "profile",
        "extensions",
        "pid",
    ];
    let places: Vec<_> = fields.iter().map(|name| line.find(&format!("\"{name}\":"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{line}");
    drive(&logged.server);
    let Logged { server, directory } = logged;
    assert_eq!(server.terminate().unwrap().code(), Some(0));
    let text = std::fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(text.contains(r#""msg":"stopping","signal":"SIGTERM","in_flight":0"#), "{text}");
    assert!(text.contains(r#""msg":"stopped","uptime_s":"#), "{text}");
    assert!(text.contains(r#""requests":8,"cut":0"#), "{text}");
}

/// All connections are taken, and all that come are refused: the operator still gets an answer.
#[test]
fn a_saturated_server_can_be_scraped() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--connections-max", "2"]);
    let list = Request::new("GET", "/Tables");
    let mut held: Vec<_> = (0..2).map(|_| server.connect().unwrap()).collect();
    for connection in &mut held {
        assert_eq!(connection.send(&list).unwrap().status, 200);
    }
    for _ in 0..20 {
        assert_eq!(server.connect().unwrap().send(&list).unwrap().status, 503);
        assert_eq!(server.ask_admin("/readyz").unwrap().0, 200);
    }
    let samples = scrape(&server);
    assert!(value(&samples, r#"lazuli_busy_total{bound="connections"}"#) >= 20.0);
    let cut = r#"lazuli_connections_cut_total{listener="table",reason="limit"}"#;
    assert!(value(&samples, cut) >= 20.0);
    let throttled =
        r#"lazuli_requests_total{service="table",operation="Unknown",outcome="throttled"}"#;
    assert!(value(&samples, throttled) >= 20.0);
}

/// systemd's side of `Type=notify`, by hand.
#[test]
fn the_service_manager_is_notified() {
    let data = tempfile::tempdir().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let wait_for = |part: &str| {
        let mut buffer = [0; 1024];
        loop {
            let bytes = manager.recv(&mut buffer).unwrap();
            if String::from_utf8_lossy(&buffer[..bytes]).contains(part) {
                return;
            }
        }
    };
    let mut command = Command::new(BINARY);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    let server = Server::start_command(command, data.path(), &[]).unwrap();
    wait_for("READY=1");
    wait_for("WATCHDOG=1");
    server.signal("HUP").unwrap();
    wait_for("RELOADING=1");
    wait_for("READY=1");
    server.signal("TERM").unwrap();
    wait_for("STOPPING=1");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}
