//! What `/metrics` shows.

use crate::harness::{
    PATIENCE, account_token, ask, ask_queue, drive, element, held_message, insert, message, scrape,
    start, value,
};
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::http::Request;
use lazuli_testkit::server::{ACCOUNT, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The most series there may be, whatever clients send.
const SERIES_MAX: usize = 3000;

/// Metrics of O-3.3 whose subject does not exist yet: blobs, backups.
const LATER: [&str; 6] = [
    "lazuli_blob_content_bytes_total",
    "lazuli_backup_last_success_timestamp_seconds",
    "lazuli_backup_last_seconds",
    "lazuli_backup_failures_total",
    "lazuli_archive_lag_seconds",
    "lazuli_archive_bytes_total",
];

/// Rows that only a shared store has.
const OF_A_SHARED_STORE: [&str; 7] = [
    "lazuli_engine_call_seconds",
    "lazuli_engine_retries_total",
    "lazuli_store_calls_total",
    "lazuli_store_connection_wait_seconds",
    "lazuli_store_contended_commits_total",
    "lazuli_store_lost_answers_total",
    "lazuli_store_chunk_rows",
];

/// A metric: its type, and the names of its labels.
type Shape = (String, BTreeSet<String>);

/// The table of metrics in a document: by name, type and labels.
fn documented(page: &str) -> BTreeMap<String, Shape> {
    let mut found = BTreeMap::new();
    for row in page.lines().filter(|row| row.starts_with("| `lazuli_")) {
        let (names, rest) = row.trim_matches('|').split_once(" | ").unwrap();
        let (types, labels) = without_values(rest.split(" | ").next().unwrap());
        let names: Vec<_> = names.split('`').skip(1).step_by(2).collect();
        for (place, name) in names.iter().enumerate() {
            let kind = types.get(place).or(types.last()).unwrap().clone();
            found.insert((*name).to_owned(), (kind, labels.clone()));
        }
    }
    assert!(!found.is_empty());
    found
}

/// Parses `gauge, counter: listener, reason (limit, stalled)` into types and labels.
fn without_values(text: &str) -> (Vec<String>, BTreeSet<String>) {
    let parts = text.split('(').map(|part| part.split_once(')').map_or(part, |(_, rest)| rest));
    let first = text.split('(').next().unwrap();
    let text = std::iter::once(first).chain(parts.skip(1)).collect::<String>();
    let (types, labels) = text.split_once(':').unwrap_or((&text, ""));
    let words = |text: &str| -> Vec<String> {
        let words = text.split(',').map(|word| word.trim().to_owned());
        words.filter(|word| !word.is_empty()).collect()
    };
    (words(types), words(labels).into_iter().collect())
}

/// The metrics of a scrape: by name, type and labels.
fn scraped(server: &Server) -> BTreeMap<String, Shape> {
    let (_, answer) = server.ask_admin("/metrics").unwrap();
    let types = answer.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut found: BTreeMap<String, Shape> =
        types.map(|(name, kind)| (name.to_owned(), (kind.to_owned(), BTreeSet::new()))).collect();
    for (series, _) in scrape(server) {
        let (name, labels) = series.split_once('{').unwrap_or((&series, ""));
        let suffixes = ["_bucket", "_sum", "_count"];
        let base = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
        let name = base.filter(|base| found.contains_key(*base)).unwrap_or(name);
        let shape = found.get_mut(name).unwrap_or_else(|| panic!("{series} has no type"));
        let labels = labels.split("\",").filter_map(|label| label.split_once('='));
        shape.1.extend(labels.map(|(name, _)| name.to_owned()).filter(|name| name != "le"));
    }
    found
}

/// O-3.3, and the page that users read.
#[test]
fn every_metric_has_the_name_the_type_and_the_labels_that_are_documented() {
    let data = tempfile::tempdir().unwrap();
    // For the certificate, and for accounts that sent something.
    let mut found = scraped(&start(data.path(), &["--tls"]));
    let server = start(data.path(), &[]);
    drive(&server);
    found.extend(scraped(&server));
    let mut expect = documented(include_str!("../../../../docs/spec/operations.md"));
    for later in LATER {
        expect.remove(later);
    }
    assert_eq!(documented(include_str!("../../../../docs/operations.md")), expect);
    for shared in OF_A_SHARED_STORE {
        expect.remove(shared);
    }
    let (usual, own): (BTreeMap<_, _>, BTreeMap<_, _>) =
        found.into_iter().partition(|(name, _)| name.starts_with("process_"));
    assert_eq!(own, expect);
    let usual: Vec<_> = usual.keys().map(String::as_str).collect();
    let expect = [
        "process_cpu_seconds_total",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    ];
    assert_eq!(usual, expect);
}

/// Prometheus refuses a scrape that shows a series twice.
#[test]
fn no_series_is_there_twice() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--tls"]);
    let mut known = BTreeSet::new();
    for (series, _) in scrape(&server) {
        assert!(known.insert(series.clone()), "{series}");
    }
}

#[test]
fn requests_are_counted() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    drive(&server);
    let samples = scrape(&server);
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

/// Names, keys, agents, methods and paths from clients are not labels.
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

/// All connections are taken, and new ones are refused: the operator still gets an answer.
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

/// O-3.3, `lazuli_messages_total`.
#[test]
fn messages_are_counted() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let token = account_token();
    let send = |method: &str, target: &str, body: &str, status: u16| {
        let (got, answer) = ask_queue(&server, (method, target), &token, body);
        assert_eq!(got, status, "{answer}");
        answer
    };
    send("PUT", "/orders", "", 201);
    send("POST", "/orders/messages", &message("text"), 201);
    for _ in 0..4 {
        let got = send("GET", "/orders/messages", "", 200);
        // It is visible again at once.
        let held = format!("{}&visibilitytimeout=0", held_message(&got));
        send("PUT", &held, "", 204);
    }
    let got = send("GET", "/orders/messages", "", 200);
    assert_eq!(element(&got, "DequeueCount"), "5");
    send("DELETE", &held_message(&got), "", 204);
    let samples = scrape(&server);
    let count =
        |event: &str| value(&samples, &format!("lazuli_messages_total{{event=\"{event}\"}}"));
    assert_eq!((count("put"), count("received"), count("deleted")), (1.0, 5.0, 1.0));
    assert_eq!((count("expired"), count("poison")), (0.0, 1.0));
}

/// O-3.3: every value of these labels that has a subject.
#[test]
fn each_bound_and_each_pool_is_shown() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--advice-mib", "3"]);
    let samples = scrape(&server);
    let page = include_str!("../../../../docs/spec/operations.md");
    let named = |start: &str| {
        let row = page.lines().find(|row| row.starts_with(&format!("| `{start}`"))).unwrap();
        let (_, rest) = row.split_once('(').unwrap();
        rest.split_once(')').unwrap().0.split(", ").filter(|name| *name != "inspector")
    };
    for bound in named("lazuli_busy_total") {
        value(&samples, &format!("lazuli_busy_total{{bound=\"{bound}\"}}"));
    }
    for pool in named("lazuli_memory_bytes") {
        value(&samples, &format!("lazuli_memory_bytes{{pool=\"{pool}\"}}"));
        assert!(value(&samples, &format!("lazuli_memory_limit_bytes{{pool=\"{pool}\"}}")) > 0.0);
    }
    let sketches = value(&samples, r#"lazuli_memory_limit_bytes{pool="sketches"}"#);
    assert_eq!(sketches, 3.0 * 1024.0 * 1024.0);
}

/// O-3.3, `lazuli_feed_entries_total` and `lazuli_expired_entities_total`.
#[test]
fn recorded_changes_and_expired_entities_are_counted() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    drive(&server);
    let mut connection = server.connect().unwrap();
    let mut send = |request: Request<'_>, status| {
        let answer = connection.send(&request.headers(&[("x-lazuli-extensions", "on")])).unwrap();
        assert_eq!(answer.status, status, "{}", answer.text());
    };
    let feed = Request::new("PUT", "/Orders?comp=lazuli-feed");
    send(feed.json(r#"{"images":"keys","retention_hours":1}"#), 200);
    send(Request::new("POST", "/Orders").json(&insert("5")), 201);
    send(Request::new("POST", "/Orders").json(&insert("5")), 409);
    let count = |name: &str| value(&scrape(&server), name);
    assert_eq!(count("lazuli_feed_entries_total"), 1.0);
    // All four rows.
    send(Request::new("PUT", "/Orders?comp=lazuli-ttl").json(r#"{"seconds":1}"#), 200);
    let deadline = Instant::now() + PATIENCE;
    while count("lazuli_expired_entities_total") < 4.0 {
        assert!(Instant::now() < deadline, "they are not swept");
        std::thread::yield_now();
    }
    assert_eq!(count("lazuli_expired_entities_total"), 4.0);
    assert_eq!(count("lazuli_feed_entries_total"), 5.0);
}

/// O-3.3, `lazuli_reclaim_waiting_tables`: includes tables that were dropped before the start.
#[test]
fn dropped_tables_wait_for_their_space() {
    let data = tempfile::tempdir().unwrap();
    let waiting = |server: &Server| value(&scrape(server), "lazuli_reclaim_waiting_tables");
    let server = start(data.path(), &[]);
    drive(&server);
    assert_eq!(waiting(&server), 0.0);
    let mut connection = server.connect().unwrap();
    let dropped = connection.send(&Request::new("DELETE", "/Tables('Orders')")).unwrap();
    assert_eq!(dropped.status, 204);
    assert_eq!(waiting(&server), 1.0);
    server.terminate().unwrap();
    let server = start(data.path(), &[]);
    let deadline = Instant::now() + PATIENCE;
    while waiting(&server) != 1.0 {
        assert!(Instant::now() < deadline, "the mark is not counted");
        std::thread::yield_now();
    }
}

/// O-3.3, `lazuli_cache_reads_total`: a store that was just opened has nothing in its cache.
#[test]
fn reads_of_the_cache_are_counted() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--memtable-kib", "1"]);
    drive(&server);
    let mut connection = server.connect().unwrap();
    let filler = format!(r#"{{"PartitionKey":"q","RowKey":"1","Text":"{}"}}"#, "x".repeat(4000));
    assert_eq!(
        connection.send(&Request::new("POST", "/Orders").json(&filler)).unwrap().status,
        201
    );
    server.terminate().unwrap();
    let server = start(data.path(), &[]);
    let reads = |result: &str| {
        value(&scrape(&server), &format!("lazuli_cache_reads_total{{result=\"{result}\"}}"))
    };
    let mut connection = server.connect().unwrap();
    let mut get = || {
        let path = "/Orders(PartitionKey='p',RowKey='1')";
        assert_eq!(connection.send(&Request::new("GET", path)).unwrap().status, 200);
    };
    get();
    let hits = reads("hit");
    assert!(reads("miss") > 0.0);
    get();
    assert!(reads("hit") > hits);
}

/// O-3.3, `lazuli_auth_refusals_total`.
#[test]
fn refused_credentials_are_counted_by_their_reason() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let table = server.address();
    let now = SystemClock.now().rfc1123();
    let (version, date) = (("x-ms-version", "2019-02-02"), ("x-ms-date", now.as_str()));
    let header = |text: &'static str| ("Authorization", text);
    let wrong = "SharedKey devstoreaccount1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let token = account_token();
    let refuse = |target: &str, headers: &[(&str, &str)]| {
        let (status, answer) = ask(table, ("GET", target), headers, "");
        assert!(matches!(status, 401 | 403), "{answer}");
    };
    let list = "/Tables";
    refuse(list, &[version, date]);
    refuse(list, &[version, date, header(wrong)]);
    refuse(list, &[version, header(wrong)]);
    refuse(list, &[version, date, header("SharedKey other:AAAA")]);
    refuse(list, &[version, date, header("Bearer abc")]);
    refuse(&format!("/Tables?{token}"), &[version, date, header(wrong)]);
    refuse(&format!("/Tables?{}", token.replace("sp=rwdlacup", "sp=r")), &[version]);
    assert_eq!(ask_queue(&server, ("GET", "/?comp=list"), "", "").0, 401);
    let samples = scrape(&server);
    let count = |service: &str, reason: &str| {
        let labels = format!(r#"service="{service}",reason="{reason}""#);
        value(&samples, &format!("lazuli_auth_refusals_total{{{labels}}}"))
    };
    for reason in [
        "no_credential",
        "signature",
        "date",
        "other_account",
        "no_issuer",
        "two_credentials",
        "sas_signature",
    ] {
        assert_eq!(count("table", reason), 1.0, "{reason}");
    }
    assert_eq!(count("queue", "no_credential"), 1.0);
    let refused = samples.iter().filter(|(name, _)| name.starts_with("lazuli_auth_refusals"));
    assert_eq!(refused.map(|(_, count)| count).sum::<f64>(), 8.0);
}
