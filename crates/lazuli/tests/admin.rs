//! The admin listener of the real binary, and the command that queries it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_model::Timestamp;
use lazuli_server::SelfSigned;
use lazuli_testkit::held_store::HeldStore;
use lazuli_testkit::http::{Request, get};
use lazuli_testkit::server::Server;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

/// How long an expected event may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(data: &Path, arguments: &[&str]) -> Server {
    Server::start(Path::new(BINARY), data, arguments).unwrap()
}

fn lazuli(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().unwrap()
}

fn health(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let url = format!("http://{}", server.admin().unwrap());
    let output = lazuli(&[&["health", "--url", &url], arguments].concat());
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Asks until the answer is as expected.
#[track_caller]
fn wait_for(server: &Server, path: &str, status: u16, part: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (got, answer) = server.ask_admin(path).unwrap();
        if got == status && answer.contains(part) {
            return;
        }
        assert!(Instant::now() < deadline, "{answer}");
        std::thread::yield_now();
    }
}

fn list_tables(server: &Server) -> u16 {
    server.connect().unwrap().send(&Request::new("GET", "/Tables")).unwrap().status
}

#[test]
fn a_server_that_names_its_ports_is_ready() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    assert_eq!(server.ask_admin("/readyz").unwrap().0, 200);
    assert_eq!(server.ask_admin("/healthz").unwrap().0, 200);
    assert_eq!(list_tables(&server), 200);
    let (status, metrics) = server.ask_admin("/metrics").unwrap();
    assert_eq!(status, 200);
    for part in ["lazuli_build_info{version=", "lazuli_ready 1\n", "process_open_fds "] {
        assert!(metrics.contains(part), "{part} is missing: {metrics}");
    }
    // The service ports serve none of this: `healthz` is a legal account name.
    let answer = server.connect().unwrap().send(&Request::new("GET", "/healthz")).unwrap();
    assert_ne!(answer.status, 200);
}

#[test]
fn health_tells_by_its_exit_code() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--drain-seconds", "3600"]);
    let ready = "{\"ready\":true,\"reasons\":[]}\n";
    assert_eq!(health(&server, &[]), (Some(0), ready.to_owned()));
    assert_eq!(health(&server, &["--live"]), (Some(0), "ok\n".to_owned()));
    server.signal("TERM").unwrap();
    wait_for(&server, "/readyz", 503, r#""code":"stopping""#);
    let (code, reasons) = health(&server, &[]);
    assert_eq!(code, Some(1));
    assert!(reasons.contains("SIGTERM was received"), "{reasons}");
    assert_eq!(health(&server, &["--live"]).0, Some(0));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = lazuli(&["health", "--url", &format!("http://{free}")]);
    assert_eq!(gone.status.code(), Some(5));
    assert_eq!(lazuli(&["health", "--url", "ftp://x"]).status.code(), Some(2));
    assert_eq!(lazuli(&["health", "--nonsense"]).status.code(), Some(2));
}

#[test]
fn health_waits_until_a_server_is_there() {
    let data = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut waiting = Command::new(BINARY)
        .args(["health", "--wait", "60"])
        .env("LAZULI_ADMIN", &address)
        .spawn()
        .unwrap();
    let server = start(data.path(), &["--admin", &address]);
    assert_eq!(server.admin().unwrap().to_string(), address);
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}

/// O-2.1, O-2.2: alive, but not ready, while the store opens.
#[test]
fn a_server_that_opens_its_store_is_alive_and_not_ready() {
    let data = tempfile::tempdir().unwrap();
    start(data.path(), &[]).terminate().unwrap();
    let held = HeldStore::hold(data.path()).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = free.to_string();
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| start(data.path(), &["--admin", &address]));
        let deadline = Instant::now() + PATIENCE;
        let alive = loop {
            match get(free, "/healthz", "") {
                Ok(answer) => break answer,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        };
        assert_eq!(alive.0, 200);
        let (status, answer) = get(free, "/readyz", "").unwrap();
        assert_eq!(status, 503);
        assert!(answer.contains(r#""code":"starting""#), "{answer}");
        held.release().unwrap();
        let server = starting.join().unwrap();
        assert_eq!(server.ask_admin("/readyz").unwrap().0, 200);
    });
}

#[test]
fn a_draining_server_serves_and_a_second_signal_stops_it_at_once() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--drain-seconds", "3600"]);
    server.signal("TERM").unwrap();
    wait_for(&server, "/readyz", 503, r#""code":"stopping""#);
    assert_eq!(list_tables(&server), 200);
    server.signal("INT").unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(130));
}

/// Ctrl-C twice is common: what it leaves would fill the disk, start after start.
#[test]
fn a_server_in_memory_that_is_stopped_at_once_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let entries = || fs::read_dir(scratch.path()).unwrap().count();
    let mut command = Command::new(BINARY);
    command.env("TMPDIR", scratch.path());
    let arguments = ["--in-memory", "--drain-seconds", "3600"];
    let server = Server::start_command(command, scratch.path(), &arguments).unwrap();
    assert_eq!(entries(), 1, "its data are elsewhere");
    server.signal("TERM").unwrap();
    wait_for(&server, "/readyz", 503, r#""code":"stopping""#);
    server.signal("INT").unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(130));
    assert_eq!(entries(), 0);
}

#[test]
fn a_disk_below_the_reserve_is_not_ready() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--disk-reserve-mib", "4294967295"]);
    wait_for(&server, "/readyz", 503, r#""code":"disk-full""#);
}

#[test]
fn an_expired_certificate_is_not_ready() {
    let data = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let long_ago = Timestamp::from_unix_seconds(1_000_000_000);
    let made = SelfSigned::generate(&["localhost".to_owned()], long_ago).unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| files.path().join(name));
    fs::write(&certificate, made.certificate).unwrap();
    fs::write(&key, made.key).unwrap();
    let arguments =
        ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let server = start(data.path(), &arguments);
    wait_for(&server, "/readyz", 503, r#""code":"certificate-expired""#);
    let expiry = r#"lazuli_tls_certificate_expiry_timestamp_seconds{listener="table"}"#;
    wait_for(&server, "/metrics", 200, expiry);
}

#[test]
fn the_listener_is_opened_to_the_network_only_on_purpose() {
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().to_str().unwrap();
    let open =
        ["--table-port", "0", "--queue-port", "0", "--data", directory, "--admin", "0.0.0.0:0"];
    let refused = lazuli(&open);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--admin-insecure"), "{stderr}");

    let server = start(data.path(), &["--admin", "0.0.0.0:0", "--admin-insecure"]);
    assert_eq!(server.ask_admin("/readyz").unwrap().0, 200);
    assert_eq!(server.ask_admin("/metrics").unwrap().0, 401);
    let token = fs::read_to_string(data.path().join("admin-token")).unwrap();
    assert_eq!(server.ask_admin_with("/metrics", token.trim()).unwrap().0, 200);
}

/// O-1.4: the token lasts as long as a server that keeps no data, and people see where it is.
#[test]
fn the_token_of_a_server_in_memory_is_in_a_file_that_it_prints() {
    let mut server = Command::new(BINARY)
        .args(["serve", "--in-memory", "--table-port", "0", "--queue-port", "0"])
        .args(["--admin", "0.0.0.0:0", "--admin-insecure"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut value_of = |name: &str| {
        let mut values = lines
            .by_ref()
            .filter_map(|line| Some(line.strip_prefix(&format!("  {name:<8} "))?.to_owned()));
        values.next().unwrap()
    };
    let admin = value_of("admin").strip_prefix("http://").unwrap().parse().unwrap();
    let file = PathBuf::from(value_of("token").strip_suffix(" (for the metrics)").unwrap());
    let token = format!("Authorization: Bearer {}\r\n", fs::read_to_string(&file).unwrap().trim());
    assert_eq!(get(admin, "/metrics", "").unwrap().0, 401);
    assert_eq!(get(admin, "/metrics", &token).unwrap().0, 200);
    let pid = server.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert!(!file.exists(), "it is deleted with the rest");
}

#[test]
fn a_taken_admin_port_is_named() {
    let data = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = data.path().to_str().unwrap();
    let refused = lazuli(&[
        "--table-port",
        "0",
        "--queue-port",
        "0",
        "--data",
        directory,
        "--admin",
        &address,
    ]);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("is taken") && stderr.contains("--admin"), "{stderr}");
}

#[test]
fn there_need_not_be_an_admin_listener() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--admin", "off"]);
    assert_eq!(server.admin(), None);
    assert_eq!(list_tables(&server), 200);
    assert_eq!(server.terminate().unwrap().code(), Some(0));
}

#[test]
fn exit_codes_are_documented() {
    let help = lazuli(&["help", "exit-codes"]);
    let text = String::from_utf8(help.stdout).unwrap();
    assert_eq!(help.status.code(), Some(0));
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "7 ", "8 ", "130 "] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(code)), "{code}: {text}");
    }
}
