//! Gateways on the stand-in for a TiKV cluster: how they share it, and what they refuse (K-8).

#![cfg(feature = "tikv")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::http::Request;
use lazuli_testkit::outbox;
use lazuli_testkit::server::Server;
use lazuli_testkit::stores::tikv::StandIn;
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

fn start(cluster: &StandIn) -> Server {
    let address = format!("tikv://{}", cluster.driver());
    Server::start_gateway(Command::new(BINARY), &address, &[]).unwrap()
}

fn status(server: &Server, request: &Request<'_>) -> u16 {
    server.connect().unwrap().send(request).unwrap().status
}

fn insert(server: &Server, row: &str) -> u16 {
    let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}","Text":"kept"}}"#);
    status(server, &Request::new("POST", "/shared").json(&entity))
}

fn get(server: &Server, row: &str) -> u16 {
    let path = format!("/shared(PartitionKey='p',RowKey='{row}')");
    status(server, &Request::new("GET", &path))
}

/// K-1.1, K-1.2, K-1.3: all gateways see what one has acknowledged, and a killed one loses nothing.
#[test]
fn gateways_share_one_cluster() {
    let cluster = StandIn::start();
    let (one, other) = (start(&cluster), start(&cluster));
    let table = Request::new("POST", "/Tables").json(r#"{"TableName":"shared"}"#);
    assert_eq!((status(&one, &table), status(&other, &table)), (201, 409));
    assert_eq!((insert(&one, "1"), insert(&other, "1")), (201, 409));
    assert_eq!(get(&other, "1"), 200);
    one.kill().unwrap();
    assert_eq!((insert(&other, "2"), get(&other, "1")), (201, 200));
    let later = start(&cluster);
    assert_eq!((get(&later, "2"), get(&later, "3")), (200, 404));
    let page = later.connect().unwrap().send(&Request::new("GET", "/shared()")).unwrap();
    assert_eq!(page.status, 200);
    assert_eq!(String::from_utf8_lossy(&page.body).matches("kept").count(), 2);
    // It announces its kind of store.
    later.wait_for_log("not on a cluster").unwrap();
}

/// X-4.6: an entity and a message are written in one commit, through either gateway.
#[test]
fn transaction_with_a_message_is_seen_whole_through_the_other_gateway() {
    let cluster = StandIn::start();
    let (one, other) = (start(&cluster), start(&cluster));
    outbox::check_on_gateways(&one, &other).unwrap();
}

/// K-11.8: with three gateways on one table, an operation asks the region of the catalog at most once.
#[test]
fn operation_asks_the_region_of_the_catalog_once() {
    let cluster = StandIn::start();
    // The catalog's records have a region of their own.
    cluster.control_at("split", b"Lc");
    cluster.control_at("split", b"Ld");
    let gateways = [start(&cluster), start(&cluster), start(&cluster)];
    let table = Request::new("POST", "/Tables").json(r#"{"TableName":"shared"}"#);
    assert_eq!(status(&gateways[0], &table), 201);
    let work = |row: &str| {
        let mut operations = 0;
        for (number, gateway) in gateways.iter().enumerate() {
            let row = format!("{row}{number}");
            let path = format!("/shared(PartitionKey='p',RowKey='{row}')");
            let any = [("If-Match", "*")];
            let merge = Request::new("MERGE", &path).headers(&any).json(r#"{"Text":"new"}"#);
            let delete = Request::new("DELETE", &path).headers(&any);
            assert_eq!(insert(gateway, &row), 201);
            assert_eq!((get(gateway, &row), get(gateway, "none")), (200, 404));
            assert_eq!(status(gateway, &merge), 204);
            assert_eq!(status(gateway, &Request::new("GET", "/shared()")), 200);
            assert_eq!(status(gateway, &delete), 204);
            operations += 6;
        }
        operations
    };
    // Now every gateway knows the table and the regions.
    work("first");
    cluster.control("reset");
    let operations: usize = (0..5).map(|round| work(&round.to_string())).sum();
    let counts = cluster.counts_at(b"Lc");
    // Chores scan the catalog; operations read its records.
    let asked: usize = ["KvGet", "KvBatchGet"].iter().filter_map(|call| counts.get(*call)).sum();
    assert!(asked <= operations, "{asked} calls for {operations} operations: {counts:?}");
    assert!(asked > 0, "the region is the wrong one: {counts:?}");
}

/// K-6.13, K-8.1, O-6.5: one sentence and a hint. Files are read before anything is sent.
#[test]
fn wrong_addresses_are_refused_with_a_hint() {
    let cases = [
        (2, "tikv://", "is not a host", "tikv://pd1:2379"),
        (2, "tikv://pd:port", "'pd:port' is not a host", "tikv://pd1:2379"),
        (2, "tikv://me:secret@pd", "no user and no password", "tikv://pd1:2379"),
        (2, "tikv://pd/space", "keyspaces", "begin with L"),
        (2, "tikv://pd?cert=a", "cert and key go together", "?ca=FILE"),
        (2, "tikv://pd?ca=/none/such", "/none/such: I/O error: No such file", "PEM files"),
        (2, "tikv://pd?ca=/none/such&cert=/a&key=/b", "/none/such: ", "PEM files"),
        (2, "tidb://pd", "is not the address of a store", "tikv://"),
    ];
    for (code, address, problem, hint) in cases {
        let ports = ["--table-port", "0", "--queue-port", "0", "--admin", "off"];
        let mut command = Command::new(BINARY);
        let output = command.args(ports).args(["--engine", address]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{address}: {stderr}");
        let (error, advice) = stderr.split_once("\nhint: ").unwrap_or((stderr.as_str(), ""));
        assert!(error.contains(problem), "{address}: {stderr}");
        assert!(advice.contains(hint), "{address}: {stderr}");
        assert!(!stderr.contains("secret"), "{stderr}");
    }
}
