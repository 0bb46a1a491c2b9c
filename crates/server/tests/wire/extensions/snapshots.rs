//! Snapshot pages (X-4.5).

use super::{asking, token};
use crate::harness::{Lazuli, Request, Response};
use lazuli_engine::{Limits, MemoryEngine, MemoryOptions, ViewClock};
use lazuli_server::{FrontOptions, SnapshotOptions, TableOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SNAPSHOT: &str = "x-lazuli-snapshot";

fn at(name: &str, target: &str) -> Request {
    asking("GET", target).with(SNAPSHOT, name)
}

#[track_caller]
fn name(response: &Response) -> String {
    response.header(SNAPSHOT).expect("a snapshot").to_owned()
}

/// X-4.5, X-0.3.
#[test]
fn requests_of_a_snapshot_see_one_state() {
    let lazuli = Lazuli::with_rows(&[("1", r#""N":1"#), ("2", r#""N":2"#), ("3", r#""N":3"#)]);
    lazuli.create_table("Other");
    let first = lazuli.send(&at("new", "/Orders()?$top=1")).expect(200);
    assert_eq!(first.header("x-lazuli-used"), Some("snapshot"));
    let name = name(&first);
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"15","N":15}"#).expect(201);
    lazuli.write("DELETE", "3", Some("*"), "").expect(204);
    lazuli.write("PUT", "2", None, r#"{"N":22}"#).expect(204);
    lazuli.insert("Other", r#"{"PartitionKey":"p","RowKey":"new"}"#).expect(201);
    lazuli.create_table("Later");
    let page = lazuli.send(&at(&name, "/Orders()")).expect(200);
    assert_eq!((page.row_keys().as_str(), page.items("RowKey").len()), ("1 2 3", 5));
    assert!(page.text().contains(r#""N":2}"#), "{}", page.text());
    assert_eq!(page.header(SNAPSHOT), Some(name.as_str()));
    let gone = lazuli.send(&at(&name, "/Orders(PartitionKey='p',RowKey='3')")).expect(200);
    assert_eq!(gone.header(SNAPSHOT), Some(name.as_str()));
    lazuli.send(&at(&name, "/Orders(PartitionKey='p',RowKey='15')")).refused(
        404,
        "ResourceNotFound",
        "",
    );
    assert_eq!(lazuli.send(&at(&name, "/Orders/$count")).expect(200).text(), "3");
    assert_eq!(lazuli.send(&at(&name, "/Other()")).expect(200).row_keys(), "");
    lazuli.send(&at(&name, "/Later()")).refused(404, "TableNotFound", "");
    assert_eq!(lazuli.get("/Orders()").expect(200).row_keys(), "1 15 2");
    // A dropped table still exists in the snapshot.
    lazuli.send(&Request::new("DELETE", "/Tables('Orders')")).expect(204);
    assert_eq!(lazuli.send(&at(&name, "/Orders()")).expect(200).row_keys(), "1 2 3");
    lazuli.get("/Orders()").refused(404, "TableNotFound", "");
}

/// X-4.5.
#[test]
fn a_snapshot_ends_when_asked_or_unused() {
    let snapshots =
        SnapshotOptions { unused_max: Duration::from_secs(100), ..SnapshotOptions::default() };
    let tables = TableOptions { snapshots, ..TableOptions::default() };
    let lazuli = Lazuli::with_table_options(FrontOptions::default(), tables);
    lazuli.create_table("Orders");
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"1"}"#).expect(201);
    let name = || name(&lazuli.send(&at("new", "/Orders()")).expect(200));
    let (ended, unused, used) = (name(), name(), name());
    let last = lazuli.send(&at(&format!("{ended};end"), "/Orders()")).expect(200);
    assert_eq!(last.row_keys(), "1");
    lazuli.send(&at(&ended, "/Orders()")).refused(410, "SnapshotEnded", "has ended or never was");
    lazuli.clock.advance_seconds(60);
    lazuli.send(&at(&used, "/Orders()")).expect(200);
    lazuli.clock.advance_seconds(40);
    lazuli.send(&at(&used, "/Orders()")).expect(200);
    lazuli.send(&at(&unused, "/Orders()")).refused(410, "SnapshotEnded", "");
    lazuli.send(&at("no-such", "/Orders()")).refused(410, "SnapshotEnded", "");
    for value in ["", "a;b", "new;end;x"] {
        lazuli.send(&at(value, "/Orders()")).refused(400, "InvalidHeaderValue", SNAPSHOT);
    }
    // Another account cannot use it.
    let other = at(&used, "/Orders()").at_other(0);
    lazuli.send(&other).refused(410, "SnapshotEnded", "");
}

/// X-4.5.
#[test]
fn snapshots_are_bounded() {
    let snapshots = SnapshotOptions { max: 2, ..SnapshotOptions::default() };
    let tables = TableOptions { snapshots, ..TableOptions::default() };
    let lazuli = Lazuli::with_table_options(FrontOptions::default(), tables);
    lazuli.create_table("Orders");
    // A failed request keeps no snapshot.
    for _ in 0..3 {
        lazuli.send(&at("new", "/Missing()")).refused(404, "TableNotFound", "");
    }
    let first = name(&lazuli.send(&at("new", "/Orders()")).expect(200));
    lazuli.send(&at("new", "/Orders()")).expect(200);
    lazuli.send(&at("new", "/Orders()")).refused(503, "ServerBusy", "--snapshots-max");
    lazuli.send(&at(&format!("{first};end"), "/Orders()")).expect(200);
    lazuli.send(&at("new", "/Orders()")).expect(200);
}

/// X-4.5: a store may allow fewer, and end one before the server does.
#[test]
fn a_snapshot_lives_no_longer_than_the_store_allows() {
    let now = Arc::new(AtomicU64::new(0));
    let of_views = now.clone();
    let limits =
        Limits { kept_view_ms_max: 120_000, kept_views_max: 2, ..MemoryOptions::default().limits };
    let view_clock: ViewClock = Arc::new(move || of_views.load(Ordering::SeqCst));
    let options =
        MemoryOptions { limits, view_clock: Some(view_clock), ..MemoryOptions::default() };
    let lazuli = Lazuli::on_engine(Arc::new(MemoryEngine::new(options)));
    lazuli.create_table("Orders");
    let new = || name(&lazuli.send(&at("new", "/Orders()")).expect(200));
    let (first, other) = (new(), new());
    lazuli.send(&at("new", "/Orders()")).refused(503, "ServerBusy", "what the store allows");
    // The store's clock is ahead of the server's.
    now.store(120_000, Ordering::SeqCst);
    for target in ["/Orders()", "/Orders(PartitionKey='p',RowKey='1')", "/Orders/$count"] {
        lazuli.send(&at(&first, target)).refused(410, "SnapshotEnded", "");
    }
    // The first has freed its slot.
    let later = new();
    lazuli.send(&at("new", "/Orders()")).refused(503, "ServerBusy", "");
    lazuli.clock.advance_seconds(119);
    lazuli.send(&at(&later, "/Orders()")).expect(200);
    lazuli.clock.advance_seconds(1);
    for ended in [later, other] {
        lazuli.send(&at(&ended, "/Orders()")).refused(410, "SnapshotEnded", "");
    }
}

/// X-4.5, X-0.2, X-0.4.
#[test]
fn a_snapshot_opens_no_table_and_nobody_gets_one_unasked() {
    let lazuli = Lazuli::with_rows(&[("1", "")]);
    lazuli.create_table("Other");
    let name = name(&lazuli.send(&at("new", "/Orders()")).expect(200));
    let with = |target, token: &str| lazuli.send(&at(&name, target).sas(token));
    assert_eq!(with("/Orders()", &token("r", None)).expect(200).row_keys(), "1");
    assert_eq!(with("/Orders()", &token("r", Some(("x", "z")))).expect(200).row_keys(), "");
    with("/Other()", &token("r", None)).refused(403, "AuthorizationFailure", "");
    let unasked = lazuli.send(&Request::new("GET", "/Orders()").with(SNAPSHOT, "new")).expect(200);
    assert_eq!(unasked.header(SNAPSHOT), None);
}
