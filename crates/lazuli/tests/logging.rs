//! A log that cannot be written never stops the server, nor does a full standard output.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::http::Request;
use lazuli_testkit::server::Server;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

/// How long a line of the log, or the port file, may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "{what} does not happen");
        std::thread::yield_now();
    }
}

/// A shell that starts the server with standard error on a device that is full.
fn with_full_stderr() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$0" "$@" 2>/dev/full"#, BINARY]);
    command
}

fn list_tables(server: &Server) -> u16 {
    server.connect().unwrap().send(&Request::new("GET", "/Tables")).unwrap().status
}

#[test]
fn a_full_standard_error_does_not_stop_the_server() {
    let data = tempfile::tempdir().unwrap();
    let arguments = ["--log", "trace", "--explain-auth"];
    let server = Server::start_command(with_full_stderr(), data.path(), &arguments).unwrap();
    assert_eq!(list_tables(&server), 200);
    assert_eq!(server.terminate().unwrap().code(), Some(0));
}

#[test]
fn a_full_standard_error_leaves_the_exit_code_of_a_refused_start() {
    let status = with_full_stderr().args(["--config", "nowhere.toml"]).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// Lines to a closed or full standard output were printed with `println!`, which panics.
#[test]
fn a_full_standard_output_does_not_stop_the_server() {
    let data = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let port_file = scratch.path().join("ports.json");
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = Command::new(BINARY)
        .args(["serve", "--table-port", "0", "--queue-port", "0", "--data"])
        .arg(data.path())
        .arg("--port-file")
        .arg(&port_file)
        .stdout(full())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the port file", || port_file.exists());
    let terminated =
        Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().unwrap();
    assert!(terminated.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let version = Command::new(BINARY).arg("version").stdout(full()).output().unwrap();
    assert_eq!(version.status.code(), Some(1), "{version:?}");
}

fn lines(log: &Path) -> Vec<String> {
    fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn a_log_file_is_opened_again_at_sighup() {
    let data = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let [log, renamed] = ["log", "log.1"].map(|name| scratch.path().join(name));
    let arguments = ["--log-file", log.to_str().unwrap(), "--explain-auth"];
    let server = Server::start(Path::new(BINARY), data.path(), &arguments).unwrap();
    wait_until("the first line", || !lines(&log).is_empty());
    let first = lines(&log).remove(0);
    assert!(first.starts_with(r#"{"ts":""#) && first.contains(r#""level":"WARN""#), "{first}");
    fs::rename(&log, &renamed).unwrap();
    server.signal("HUP").unwrap();
    wait_until("the new file", || !lines(&log).is_empty());
    assert_eq!(server.log(), "", "standard error is left alone");
    assert_eq!(server.terminate().unwrap().code(), Some(0));
    let last = lines(&log).pop().unwrap();
    assert!(last.contains(r#""msg":"stopped""#), "the last line is written at the end: {last}");
}

#[test]
fn a_log_for_people_can_be_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let arguments = ["--log-format", "human", "--explain-auth"];
    let server = Server::start(Path::new(BINARY), data.path(), &arguments).unwrap();
    server.wait_for_log(" WARN lazuli::auth: --explain-auth ").unwrap();
}
