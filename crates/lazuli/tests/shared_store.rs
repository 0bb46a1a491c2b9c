//! Gateways on PostgreSQL: how they start, refuse to start with a hint, and survive an outage (K-8).

#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::http::Request;
use lazuli_testkit::outbox;
use lazuli_testkit::server::Server;
use lazuli_testkit::stores::postgres::{self, fresh_address, in_name_space};
use lazuli_testkit::wire_cut::{Weather, WireCut};
use std::process::Command;
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

fn start(address: &str, arguments: &[&str]) -> Server {
    Server::start_gateway(Command::new(BINARY), address, arguments).unwrap()
}

/// Starts a gateway on a store that it must refuse; returns what it said.
#[track_caller]
fn check_refused(address: &str, arguments: &[&str], problem: &str, hint: &str) -> String {
    check_ended(1, address, arguments, problem, hint)
}

/// Starts a gateway with options that no store can satisfy (O-6.5); returns what it said.
#[track_caller]
fn check_wrong(address: &str, arguments: &[&str], problem: &str, hint: &str) -> String {
    check_ended(2, address, arguments, problem, hint)
}

/// Starts a gateway, which must end of itself with this code, a problem and a hint.
#[track_caller]
fn check_ended(code: i32, address: &str, arguments: &[&str], problem: &str, hint: &str) -> String {
    let ports = ["--table-port", "0", "--queue-port", "0", "--admin", "off"];
    let output = Command::new(BINARY)
        .args(ports)
        .args(["--engine", address])
        .args(arguments)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    let (error, advice) = stderr.split_once("\nhint: ").unwrap_or((stderr.as_str(), ""));
    assert!(error.contains(problem), "{stderr}");
    assert!(advice.contains(hint), "{stderr}");
    stderr
}

/// The address with another port: that of a proxy.
fn through(proxy: &WireCut, address: &str) -> String {
    let (before, after) = address.split_once("127.0.0.1:").unwrap();
    let (_, after) = after.split_once('/').unwrap();
    format!("{before}127.0.0.1:{}/{after}", proxy.address().port())
}

fn target(address: &str) -> std::net::SocketAddr {
    let (_, after) = address.split_once('@').unwrap();
    after.split_once('/').unwrap().0.parse().unwrap()
}

fn create_table(server: &Server, name: &str) -> u16 {
    let body = format!(r#"{{"TableName":"{name}"}}"#);
    send(server, Request::new("POST", "/Tables").json(&body)).0
}

/// Status and headers.
fn send(server: &Server, request: Request) -> (u16, Option<String>) {
    let response = server.connect().unwrap().send(&request).unwrap();
    (response.status, response.header("Retry-After").map(str::to_owned))
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::yield_now();
    }
}

/// X-4.5, K-7.16: a snapshot belongs to the gateway that made it, and occupies a connection.
#[test]
fn snapshots_are_of_one_gateway_and_leave_connections_to_others() {
    if !postgres::is_there() {
        return;
    }
    let address = fresh_address();
    let (one, other) = (start(&address, &["--postgres-connections", "4"]), start(&address, &[]));
    assert_eq!(create_table(&one, "kept"), 201);
    let ask = |server: &Server, snapshot: &str| {
        let headers = [("x-lazuli-extensions", "on"), ("x-lazuli-snapshot", snapshot)];
        let request = Request::new("GET", "/kept()").headers(&headers);
        server.connect().unwrap().send(&request).unwrap()
    };
    let made = ask(&one, "new");
    let name = made.header("x-lazuli-snapshot").unwrap();
    assert_eq!((ask(&one, name).status, ask(&other, name).status), (200, 410));
    let refused = ask(&one, "new");
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("what the store allows"), "{}", refused.text());
    for _ in 0..8 {
        assert_eq!(send(&one, Request::new("GET", "/kept()")).0, 200);
    }
    assert_eq!(ask(&one, &format!("{name};end")).status, 200);
    assert_eq!(ask(&one, name).status, 410);
    assert_eq!(ask(&one, "new").status, 200);
}

/// K-1.1, K-1.2, K-8.2: the second gateway finds what the first one wrote.
#[test]
fn gateways_share_one_store() {
    if !postgres::is_there() {
        return;
    }
    let address = fresh_address();
    let (one, other) = (start(&address, &[]), start(&address, &["--gateway-id", "second"]));
    assert_eq!(create_table(&one, "shared"), 201);
    assert_eq!(create_table(&other, "shared"), 409);
    let entity = r#"{"PartitionKey":"p","RowKey":"r","Text":"kept"}"#;
    assert_eq!(send(&one, Request::new("POST", "/shared").json(entity)).0, 201);
    let path = "/shared(PartitionKey='p',RowKey='r')";
    assert_eq!(send(&other, Request::new("GET", path)).0, 200);
    drop((one, other));
    let later = start(&address, &[]);
    assert_eq!(send(&later, Request::new("GET", path)).0, 200);
    let (status, metrics) = later.ask_admin("/metrics").unwrap();
    assert_eq!(status, 200);
    for line in [
        "engine=\"postgres\"",
        "lazuli_engine_call_seconds_count{call=\"get\"}",
        "lazuli_engine_retries_total{reason=\"conflict\"}",
        "lazuli_store_calls_total",
        "lazuli_store_lost_answers",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

/// X-4.6: an entity and a message are written in one commit, through either gateway.
#[test]
fn transaction_with_a_message_is_seen_whole_through_the_other_gateway() {
    if !postgres::is_there() {
        return;
    }
    let address = fresh_address();
    let (one, other) = (start(&address, &[]), start(&address, &["--gateway-id", "second"]));
    outbox::check_on_gateways(&one, &other).unwrap();
}

/// K-8.6, K-8.7: 503 within the wait, then everything continues without a restart.
#[test]
fn store_that_is_away_is_503_and_comes_back() {
    if !postgres::is_there() {
        return;
    }
    let address = fresh_address();
    let proxy = WireCut::before(target(&address), 1).unwrap();
    let server = start(&through(&proxy, &address), &[]);
    assert_eq!(create_table(&server, "before"), 201);
    assert_eq!(server.ask_admin("/readyz").unwrap().0, 200);
    proxy.set(Weather::Cut);
    let (status, retry_after) = send(&server, Request::new("GET", "/before()"));
    assert_eq!(status, 503);
    assert!(retry_after.is_some());
    wait_for("/readyz says that the store is away", || {
        let (status, answer) = server.ask_admin("/readyz").unwrap();
        status == 503 && answer.contains(r#""code":"engine-unreachable""#)
    });
    assert_eq!(server.ask_admin("/healthz").unwrap().0, 200);
    proxy.set(Weather::Clear);
    wait_for("/readyz says that it is back", || server.ask_admin("/readyz").unwrap().0 == 200);
    assert_eq!(send(&server, Request::new("GET", "/before()")).0, 200);
    assert_eq!(create_table(&server, "after"), 201);
}

/// K-8.1, O-6.5
#[test]
fn what_contradicts_a_shared_store_is_explained() {
    let address = "postgres://lazuli@127.0.0.1:1/data";
    let exclude = "exclude each other";
    check_wrong(address, &["--data", "here"], exclude, "leave out --data");
    check_wrong(address, &["--durability", "memory"], exclude, "--durability");
    check_wrong(address, &["--in-memory"], exclude, "--in-memory");
    let said = check_wrong(
        "postgres://lazuli:secret@127.0.0.1/data",
        &[],
        "has a password",
        "--engine-password-file",
    );
    assert!(!said.contains("secret"), "{said}");
    let said = check_wrong("postgres://h/d?user=u&password=secret", &[], "has a password", "-file");
    assert!(!said.contains("secret"), "{said}");
    let said =
        check_wrong("postgres://h/d?user=u&password=secret&colour=blue", &[], "not an address", "");
    assert!(!said.contains("secret"), "{said}");
    check_wrong("postgres://u:se@cret@h/d", &[], "has an @", "%40");
    check_wrong("mysql://secret@h/d", &[], "not the address of a store", "postgres://");
    check_wrong("postgres://h/d", &[], "names no user", "postgres://lazuli@host");
    check_wrong("postgres://u@h/d?colour=blue", &[], "not an address", "schema=");
    check_wrong("postgres://u@h/d?sslmode=maybe", &[], "no sslmode", "verify-full");
    let weak = "postgres://u@h/d?sslrootcert=root.pem";
    check_wrong(weak, &[], "asks nobody for a certificate", "sslmode=verify-full");
    let missing = ["sslrootcert=/none/such", "sslcert=/none/such&sslkey=/none/other"];
    for files in missing {
        let address = format!("postgres://u@h/d?sslmode=require&{files}");
        check_wrong(&address, &[], "/none/", "PEM files");
    }
    check_wrong(address, &["--engine-password-file", "none"], "cannot read none", "path");
}

/// K-8.2, K-8.3: each refusal names its reason and what to do.
#[test]
fn store_that_cannot_be_used_is_explained() {
    if !postgres::is_there() {
        return;
    }
    let shared = postgres::shared_address();
    let nobody = in_name_space(&shared.replace("lazuli@", "nobody@"), "x");
    check_refused(&nobody, &[], "role \"nobody\" does not exist", "accepts this user");
    // K-8.9; what each certificate leads to is in the tests of the engine.
    let encrypted = format!("{shared}?sslmode=require");
    check_refused(&encrypted, &[], "does not speak TLS", "ssl = on");
    let server = postgres::Server::start("-c fsync=off");
    let address = server.address();
    check_refused(&address, &[], "its setting fsync is off", "--unsafe-store");
    drop(start(&address, &["--unsafe-store"]));
    let sql = |text: &str| server.instance.sql(text).unwrap();
    sql("update lazuli_meta set value = '99' where name = 'format'");
    let unsafe_store = &["--unsafe-store"];
    check_refused(&address, unsafe_store, "format 99", "newer lazuli");
    sql("create schema foreign_1; create table foreign_1.lazuli_kv (id int)");
    let foreign = in_name_space(&address, "foreign_1");
    check_refused(&foreign, unsafe_store, "lazuli_kv that was not created", "schema=");
    sql("create schema foreign_2; create table foreign_2.lazuli_meta (id int)");
    let foreign = in_name_space(&address, "foreign_2");
    check_refused(&foreign, unsafe_store, "lazuli_meta that was not created", "schema=");
    sql("create schema foreign_3; create table foreign_3.lazuli_gone (id int)");
    let foreign = in_name_space(&address, "foreign_3");
    check_refused(&foreign, unsafe_store, "lazuli_gone that was not created", "schema=");
    let half = in_name_space(&address, "half");
    drop(start(&half, unsafe_store));
    sql("drop function half.lazuli_commit");
    check_refused(&half, unsafe_store, "but no function lazuli_commit", "restore the whole backup");
    sql("create role guest login; create schema closed");
    let guest = in_name_space(&address.replace("lazuli@", "guest@"), "closed");
    check_refused(&guest, unsafe_store, "no schema has been selected", "create tables");
    let guest = in_name_space(&address.replace("lazuli@", "guest@"), "missing");
    check_refused(&guest, unsafe_store, "no schema missing", "create schema");
    let guest = in_name_space(&address.replace("lazuli@", "guest@"), "half");
    sql("grant usage on schema half to guest");
    check_refused(&guest, unsafe_store, "permission denied for table lazuli_meta", "to use those");
    // Rights that only later operations would miss: the first deletion, the first of several writes.
    let guest = in_name_space(&address.replace("lazuli@", "guest@"), "granted");
    drop(start(&in_name_space(&address, "granted"), unsafe_store));
    sql("grant usage on schema granted to guest; \
         grant select, update on granted.lazuli_meta to guest; \
         grant select, insert, update, delete on granted.lazuli_kv to guest; \
         revoke execute on function granted.lazuli_commit from public");
    check_refused(&guest, unsafe_store, "no right to select lazuli_gone", "grant select");
    sql("grant select, insert, update, delete on granted.lazuli_gone to guest");
    check_refused(&guest, unsafe_store, "no right to execute lazuli_commit", "grant execute");
    sql("grant execute on function granted.lazuli_commit to guest");
    drop(start(&guest, unsafe_store));
}

/// A password from a file and from the environment.
#[test]
fn password_comes_from_a_file_or_the_environment() {
    if !postgres::is_there() {
        return;
    }
    let server = postgres::Server::start("-c password_encryption=scram-sha-256");
    server.instance.sql("create role keeper superuser login password 'open sesame'").unwrap();
    let hba = server.instance.data.join("pg_hba.conf");
    std::fs::write(&hba, "host all lazuli all trust\nhost all all all scram-sha-256\n").unwrap();
    server.instance.control(&["reload"]).unwrap();
    let address = server.address().replace("lazuli@", "keeper@");
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("password");
    std::fs::write(&file, "open sesame\n").unwrap();
    let file = file.to_str().unwrap();
    drop(start(&address, &["--engine-password-file", file]));
    std::fs::write(file, "wrong").unwrap();
    let said = check_refused(
        &address,
        &["--engine-password-file", file],
        "password authentication failed",
        "accepts this user",
    );
    assert!(!said.contains("wrong"), "{said}");
    let with_password = address.replace("keeper@", "keeper:open%20sesame@");
    // The password is accepted; then it finds a foreign table.
    server
        .instance
        .sql("create table lazuli_kv_old as table lazuli_kv; drop table lazuli_meta")
        .unwrap();
    let output = Command::new(BINARY)
        .args(["--table-port", "0", "--queue-port", "0", "--admin", "off"])
        .env("LAZULI_ENGINE", &with_password)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("lazuli_kv that was not created by lazuli"), "{said}");
}
