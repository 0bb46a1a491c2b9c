//! How the binary starts, refuses to start with a hint, and ends without cutting a request short.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::held_store::HeldStore;
use lazuli_testkit::http::{Connection, Request, connect, get};
use lazuli_testkit::server::Server;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

/// How long the server may take to close its port.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(data: &Path, arguments: &[&str]) -> Server {
    Server::start(Path::new(BINARY), data, arguments).unwrap()
}

/// Starts the binary, which must end by itself with a problem and a hint.
#[track_caller]
fn check_refused(arguments: &[&str], problem: &str, hint: &str) {
    let output = Command::new(BINARY).args(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let (error, advice) = stderr.split_once("\nhint: ").unwrap_or((stderr.as_str(), ""));
    assert!(error.contains(problem), "{stderr}");
    assert!(advice.contains(hint), "{stderr}");
}

#[test]
fn a_data_directory_serves_one_process() {
    let data = tempfile::tempdir().unwrap();
    let _server = start(data.path(), &[]);
    let directory = data.path().to_str().unwrap();
    let arguments = ["--table-port", "0", "--queue-port", "0", "--data", directory];
    check_refused(&arguments, "in use by another process", "--data");
}

#[test]
fn a_port_serves_one_process() {
    let [data, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let server = start(data.path(), &[]);
    let port = server.address().port().to_string();
    let arguments =
        ["--queue-port", "0", "--table-port", &port, "--data", other.path().to_str().unwrap()];
    check_refused(&arguments, "is taken", "--table-port");
}

/// Starts the binary, whose store does not open, and sends a signal once it listens; returns how it ended and
/// what it logged.
fn stop_while_opening(arguments: &[&str], signal: &str) -> (Option<i32>, String) {
    let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let starting = Command::new(BINARY)
        .args(["serve", "--table-port", "0", "--queue-port", "0", "--admin", &admin.to_string()])
        .args(["--log-format", "json"])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !get(admin, "/readyz", "").is_ok_and(|(status, _)| status == 503) {
        assert!(Instant::now() < deadline, "it does not listen");
        std::thread::yield_now();
    }
    let pid = starting.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    let output = starting.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// O-6.2.
#[test]
fn a_server_that_opens_its_store_can_be_stopped() {
    let data = tempfile::tempdir().unwrap();
    start(data.path(), &[]).terminate().unwrap();
    let held = HeldStore::hold(data.path()).unwrap();
    for signal in ["TERM", "INT"] {
        let (code, log) = stop_while_opening(&["--data", data.path().to_str().unwrap()], signal);
        assert_eq!(code, Some(0), "{log}");
        for part in ["\"msg\":\"stopping\"", signal, "\"msg\":\"stopped\""] {
            assert!(log.contains(part), "{log}");
        }
    }
    drop(held);
}

/// O-6.2: it waits half a minute for its store.
#[cfg(feature = "postgres")]
#[test]
fn a_gateway_that_waits_for_its_store_can_be_stopped() {
    // It accepts connections, but never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("postgres://me@{}/nothing", silent.local_addr().unwrap());
    let began = Instant::now();
    let (code, log) = stop_while_opening(&["--engine", &address], "TERM");
    assert_eq!(code, Some(0), "{log}");
    assert!(began.elapsed() < Duration::from_secs(20), "it waited for the store");
}

/// The path is checked before the directory is there (O-6.5).
#[test]
fn the_port_file_may_be_in_a_data_directory_that_is_created() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let file = data.join("ports.json");
    let mut command = Command::new(BINARY);
    command.args(["serve", "--table-port", "0", "--queue-port", "0", "--admin", "off", "--silent"]);
    command.arg("--data").arg(&data).arg("--port-file").arg(&file);
    let mut server = command.stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !file.exists() {
        assert!(Instant::now() < deadline, "no port file");
        std::thread::yield_now();
    }
    let pid = server.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_name_can_be_listened_on() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--host", "localhost"]);
    assert!(server.address().ip().is_loopback());
    let mut connection = server.connect().unwrap();
    assert_eq!(connection.send(&Request::new("GET", "/Tables")).unwrap().status, 200);
}

/// X-4.5.
#[test]
fn a_snapshot_ends_with_the_process() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let create = Request::new("POST", "/Tables").json(r#"{"TableName":"Orders"}"#);
    assert_eq!(server.connect().unwrap().send(&create).unwrap().status, 201);
    let ask = |server: &Server, snapshot: &str| {
        let headers = [("x-lazuli-extensions", "on"), ("x-lazuli-snapshot", snapshot)];
        let request = Request::new("GET", "/Orders()").headers(&headers);
        server.connect().unwrap().send(&request).unwrap()
    };
    let name = ask(&server, "new").header("x-lazuli-snapshot").unwrap().to_owned();
    assert_eq!(ask(&server, &name).status, 200);
    assert_eq!(server.terminate().unwrap().code(), Some(0));
    let answer = ask(&start(data.path(), &[]), &name);
    assert_eq!(answer.status, 410);
    assert!(answer.text().contains("has ended or never was"), "{}", answer.text());
}

#[test]
fn a_request_in_flight_is_finished_before_the_end() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let address = server.address();
    let expect = [("Expect", "100-continue")];
    let request = Request::new("POST", "/Tables").json(r#"{"TableName":"Orders"}"#);
    let request = request.headers(&expect);
    let mut idle = Connection::open(address).unwrap();
    assert_eq!(idle.send(&Request::new("GET", "/Tables")).unwrap().status, 200);
    let mut slow = Connection::open(address).unwrap();
    slow.start(&request, 5).unwrap();
    slow.wait_for_continue().unwrap();

    server.signal("TERM").unwrap();
    let deadline = Instant::now() + PATIENCE;
    while connect(address).is_ok() {
        assert!(Instant::now() < deadline, "the port stays open");
        std::thread::yield_now();
    }
    let answer = slow.finish(&request, 5).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(server.wait().unwrap().code(), Some(0));

    let server = start(data.path(), &[]);
    let listed = server.connect().unwrap().send(&Request::new("GET", "/Tables")).unwrap();
    assert!(listed.text().contains("Orders"), "what was answered is kept");
}
