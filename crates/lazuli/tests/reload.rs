//! SIGHUP: keys change while the server runs, and a bad file changes nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::http::{Connection, Request};
use lazuli_testkit::server::{ACCOUNT, Server};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const OLD: &str = "dGhlIG9sZCBrZXk=";
const NEW: &str = "dGhlIG5ldyBrZXk=";

/// How long a signal may take to have an effect.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(data: &Path, arguments: &[&str]) -> Server {
    Server::start(Path::new(env!("CARGO_BIN_EXE_lazuli")), data, arguments).unwrap()
}

/// The status of a request signed with `key`.
fn status(server: &Server, key: &str) -> u16 {
    let connection = Connection::open(server.address()).unwrap();
    let mut connection = connection.sign_with(key).unwrap();
    connection.send(&Request::new("GET", "/Tables")).unwrap().status
}

/// Asks until `happened`, because the sender of a signal is not told when it took effect.
#[track_caller]
fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "{what} does not happen");
        std::thread::yield_now();
    }
}

#[test]
fn keys_of_an_accounts_file_rotate_without_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("accounts");
    let write = |text: String| fs::write(&file, text).unwrap();
    write(format!("{ACCOUNT}:{OLD}\n"));
    let server = start(data.path(), &["--accounts-file", file.to_str().unwrap()]);
    assert_eq!((status(&server, OLD), status(&server, NEW)), (200, 403));

    write(format!("# both\n{ACCOUNT}:{OLD}:{NEW}\n"));
    server.signal("HUP").unwrap();
    wait_until("the new key", || status(&server, NEW) == 200);
    assert_eq!(status(&server, OLD), 200);

    write(format!("{ACCOUNT}:{NEW}\n"));
    server.signal("HUP").unwrap();
    wait_until("the end of the old key", || status(&server, OLD) == 403);
    assert_eq!(status(&server, NEW), 200);
}

#[test]
fn a_bad_file_keeps_the_accounts_and_says_why() {
    let data = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("lazuli.toml");
    let accounts = |key: &str| format!("[[accounts]]\nname = '{ACCOUNT}'\nkey1 = '{key}'\n");
    fs::write(&file, accounts(OLD)).unwrap();
    let server = start(data.path(), &["--config", file.to_str().unwrap()]);
    assert_eq!(status(&server, OLD), 200);

    let check = |text: &str, reason: &str| {
        fs::write(&file, text).unwrap();
        server.signal("HUP").unwrap();
        server.wait_for_log(reason).unwrap();
        assert_eq!(status(&server, OLD), 200);
    };
    check("accounts = [", "lazuli.toml, line 1: ");
    check(&accounts("c2VjcmV0!"), "a key of account 'devstoreaccount1' is not base64");
    check("", "no accounts are configured any more");
    assert!(!server.log().contains("c2VjcmV0"), "{}", server.log());
    assert!(server.log().contains("accounts, certificate and tokens are unchanged"));

    fs::write(&file, accounts(NEW)).unwrap();
    server.signal("HUP").unwrap();
    wait_until("the new key", || status(&server, NEW) == 200);
    assert_eq!(status(&server, OLD), 403);
}

/// O-1.4, O-6.2: both tokens of the admin listener are read again, or neither is.
#[test]
fn tokens_of_the_admin_listener_rotate_without_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let [admin, metrics] = ["admin", "metrics"].map(|name| scratch.path().join(name));
    fs::write(&admin, "old-admin\n").unwrap();
    fs::write(&metrics, "old-metrics\n").unwrap();
    let listener = ["--admin", "0.0.0.0:0", "--admin-insecure"];
    let files = [
        "--admin-token-file",
        admin.to_str().unwrap(),
        "--metrics-token-file",
        metrics.to_str().unwrap(),
    ];
    let server = start(data.path(), &[&listener[..], &files].concat());
    let opens = |token: &str| match server.ask_admin_with("/metrics", token).unwrap().0 {
        200 => true,
        401 => false,
        status => panic!("{status}"),
    };
    assert!(opens("old-admin") && opens("old-metrics") && !opens("new-admin"));

    fs::write(&admin, "new-admin\n").unwrap();
    fs::remove_file(&metrics).unwrap();
    server.signal("HUP").unwrap();
    server.wait_for_log("accounts, certificate and tokens are unchanged").unwrap();
    assert!(opens("old-admin") && opens("old-metrics") && !opens("new-admin"));

    fs::write(&metrics, "new-metrics\n").unwrap();
    server.signal("HUP").unwrap();
    wait_until("the new token", || opens("new-admin"));
    assert!(opens("new-metrics") && !opens("old-admin") && !opens("old-metrics"));
    assert!(!data.path().join("admin-token").exists());
    for token in ["old-admin", "old-metrics", "new-admin", "new-metrics"] {
        assert!(!server.whole_log().contains(token), "{token} is in the log");
    }
}
