//! P-20, on the client's own traffic.

use crate::counted;
use bytes::Bytes;
use lazuli_client::patterns::advisor::{Code, Thresholds, Watch};
use lazuli_client::{
    Body, BoxFuture, Entity, HttpTransport, Table, Transport, TransportError, assert_no_advice,
    col, partition, row,
};
use lazuli_test::TestServer;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn codes(watch: &Watch) -> Vec<Code> {
    watch.findings().iter().map(|finding| finding.code).collect()
}

#[tokio::test]
async fn the_guide_s_examples_are_advised_on() {
    // PS-20.2.
    let (server, table) = counted().await;
    let account = server.account();
    let table = account.tables().table(table.name()).unwrap();
    table.insert(&Entity::new("Sales", "000121x").with("LastName", "Jones")).await.unwrap();
    let watch = Watch::new(&account, Thresholds::default());
    let range = partition("Sales").and(row().ge("S")).and(row().lt("T"));
    table.query(range).collect_at_most(10).await.unwrap();
    table.get(("Sales", "000121x")).await.unwrap();
    assert_no_advice!(watch);

    table.scan().filter(col("LastName").eq("Jones")).collect_at_most(10).await.unwrap();
    assert_eq!(codes(&watch), [Code::TableScan]);
    assert_eq!(watch.findings()[0].subject, "LastName");

    let watch = Watch::new(&account, Thresholds::default());
    for _ in 0..100 {
        let smith = partition("Sales").and(col("LastName").eq("Smith"));
        table.query(smith).collect_at_most(10).await.unwrap();
    }
    assert_eq!(codes(&watch), [Code::PartitionScan]);

    let watch = Watch::new(&account, Thresholds::default());
    let or = partition("Sales").and(row().eq("121").or(row().eq("322")));
    // Cut into point reads, it is fine; sent unchanged, the service scans.
    table.query(or.clone()).collect_at_most(10).await.unwrap();
    assert_no_advice!(watch);
    table.query(or).as_written().collect_at_most(10).await.unwrap();
    assert_eq!(codes(&watch), [Code::OrOfKeys]);
    table.scan().filter(row().eq("121")).collect_at_most(10).await.unwrap();
    assert_eq!(codes(&watch), [Code::OrOfKeys, Code::RowWithoutPartition]);
}

#[tokio::test]
async fn writes_are_seen_one_by_one_and_in_batches() {
    let (server, _table) = counted().await;
    let account = server.account();
    let table = account.tables().table("Beyond").unwrap();
    let watch = Watch::new(&account, Thresholds::default());
    let batch = table.batch("p").insert(&Entity::new("p", "id_9"));
    batch.insert(&Entity::new("p", "id_10")).commit().await.unwrap();
    assert_eq!(codes(&watch), [Code::UnpaddedNumbers]);
    drop(watch);
    // Nobody watches: nothing is recorded, and nothing breaks.
    table.insert(&Entity::new("p", "id_11")).await.unwrap();
}

/// A watch with low thresholds for habits, and the table it watches.
fn soon(server: &lazuli_test::FaultyServer) -> (Watch, Table<Entity>) {
    let account = server.account();
    let table = account.tables().table("Beyond").unwrap();
    (Watch::new(&account, soon_thresholds()), table)
}

fn soon_thresholds() -> Thresholds {
    let mut thresholds = Thresholds::default();
    (thresholds.habit, thresholds.unused_rows) = (5, 5);
    thresholds
}

fn wide(row: &str) -> Entity {
    let wide = Entity::new("p", row).with("Name", "short");
    (0..40).fold(wide, |wide, n| wide.with(format!("P{n}"), "x".repeat(100)))
}

#[tokio::test]
async fn whole_wide_entities_are_noticed_and_projections_are_not() {
    // P-17.2.
    // ADV-8.
    let (server, _table) = counted().await;
    let (watch, table) = soon(&server);
    table.insert(&wide("r")).await.unwrap();
    for _ in 0..5 {
        table.query(partition("p")).select_names(["Name"]).collect_at_most(10).await.unwrap();
    }
    assert_no_advice!(watch);
    for _ in 0..5 {
        table.query(partition("p")).collect_at_most(10).await.unwrap();
    }
    assert_eq!(codes(&watch), [Code::UnusedProperties]);
}

#[tokio::test]
async fn a_read_that_always_leads_to_another_is_noticed() {
    // ADV-16.
    let (server, _table) = counted().await;
    let account = server.account();
    let table = account.tables().table("Beyond").unwrap();
    let names = account.tables().create("Names").await.unwrap();
    let rows = ["ab", "cd", "ef", "gh", "ij", "kl"];
    for n in rows {
        table.insert(&Entity::new("p", n).with("Of", format!("name{n}"))).await.unwrap();
        names.insert(&Entity::new("p", format!("name{n}"))).await.unwrap();
    }
    let watch = Watch::new(&account, soon_thresholds());
    for n in rows {
        // In this order no read gives the key of the next.
        names.get(("p", format!("name{n}"))).await.unwrap();
        table.get(("p", n)).await.unwrap();
    }
    assert_no_advice!(watch);
    let watch = Watch::new(&account, soon_thresholds());
    for n in rows {
        let found = table.get(("p", n)).required().await.unwrap();
        let of: String = found.get("Of").unwrap();
        names.get(("p", of)).await.unwrap();
    }
    assert_eq!(codes(&watch), [Code::ReadThenRead]);
}

#[tokio::test]
async fn large_entities_replaced_for_one_property_are_noticed() {
    // ADV-18.
    let (server, _table) = counted().await;
    let (watch, table) = soon(&server);
    table.upsert(&wide("r")).await.unwrap();
    for n in 0..6 {
        let other = (0..5).fold(wide("r"), |wide, p| wide.with(format!("P{p}"), format!("{n}")));
        table.upsert(&other).await.unwrap();
    }
    assert_no_advice!(watch);
    let (watch, table) = soon(&server);
    for n in 0..7 {
        table.upsert(&wide("r").with("Name", format!("{n}"))).await.unwrap();
    }
    assert_eq!(codes(&watch), [Code::ReplaceForOne]);
}

#[tokio::test]
async fn values_near_their_limits_are_noticed() {
    // ADV-21.
    let (server, _table) = counted().await;
    let (watch, table) = soon(&server);
    table.insert(&Entity::new("p", "half").with("V", vec![0_u8; 32 * 1024])).await.unwrap();
    assert_no_advice!(watch);
    table.insert(&Entity::new("p", "near").with("V", vec![0_u8; 60 * 1024])).await.unwrap();
    assert_eq!(codes(&watch), [Code::NearLimits]);
}

/// Answers queries with this many empty pages, each of which has a next one, before the last.
struct EmptyPages {
    inner: HttpTransport,
    pages: u32,
    sent: AtomicU32,
}

impl Transport for EmptyPages {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        Box::pin(async move {
            let is_query = request.uri().path().ends_with("()");
            let mut answer = self.inner.send(request).await?;
            if is_query && self.sent.fetch_add(1, Ordering::Relaxed) % (self.pages + 1) < self.pages
            {
                let next = http::HeaderValue::from_static("1!4!cA--");
                answer.headers_mut().insert("x-ms-continuation-NextPartitionKey", next);
            }
            Ok(answer)
        })
    }
}

#[tokio::test]
async fn queries_of_empty_pages_are_noticed() {
    // ADV-24.
    let server = TestServer::start().await.unwrap();
    server.account().tables().create("Beyond").await.unwrap();
    for (pages, expected) in [(9, vec![]), (10, vec![Code::EmptyPages])] {
        let inner = HttpTransport::new(Duration::from_secs(10)).unwrap();
        let transport = EmptyPages { inner, pages, sent: AtomicU32::new(0) };
        let account = server.account_builder().unwrap().transport(transport).build().unwrap();
        let watch = Watch::new(&account, soon_thresholds());
        let table = account.tables().table("Beyond").unwrap();
        let none = table.query(partition("p").and(row().ge("a"))).collect_at_most(10).await;
        assert!(none.unwrap().is_empty());
        assert_eq!(codes(&watch), expected);
    }
}
