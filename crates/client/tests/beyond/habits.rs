//! P-20.1a: what a client finds in its own traffic; for each code a workload that shows it and one that nearly does.
//! Findings that depend on what a service returns are in `advice.rs`.

use bytes::Bytes;
use lazuli_client::patterns::advisor::{Code, Thresholds, Watch};
use lazuli_client::{
    Account, AccountBuilder, Body, BoxFuture, ETag, Entity, Table, TableEntity, Timestamp,
    Transport, TransportError, col, partition, row,
};
use lazuli_test::{TestClock, TestServer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A service that accepts everything, and stores nothing.
#[derive(Clone, Default)]
struct Yes {
    /// How many conditional writes are refused next.
    conflicts: Arc<AtomicU32>,
}

const ETAG: &str = "W/\"1\"";

impl Yes {
    fn answer(&self, request: &http::Request<Bytes>) -> http::Response<Body> {
        let is_conditional = request.headers().get("If-Match").is_some_and(|value| value != "*");
        let less = |left: u32| left.checked_sub(1);
        let is_refused = is_conditional
            && self.conflicts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        let entity = r#"{"odata.etag":"W/\"1\"","PartitionKey":"p","RowKey":"r","Timestamp":"2026-11-15T12:00:00Z"}"#;
        let (status, body) = match *request.method() {
            http::Method::GET if request.uri().path().ends_with("()") => {
                (200, format!(r#"{{"value":[{entity}]}}"#))
            }
            http::Method::GET => (200, entity.to_owned()),
            _ if is_refused => (412, String::new()),
            _ => (204, String::new()),
        };
        let answer = http::Response::builder().status(status).header("ETag", ETAG);
        answer.header("Content-Type", "application/json").body(Bytes::from(body).into()).unwrap()
    }
}

impl Transport for Yes {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        Box::pin(async move { Ok(self.answer(&request)) })
    }
}

struct Workload {
    account: Account,
    clock: TestClock,
    yes: Yes,
    rows: Table,
}

impl Workload {
    fn new() -> Self {
        let (clock, yes) = (TestClock::default(), Yes::default());
        let builder = AccountBuilder::from_connection_string("UseDevelopmentStorage=true");
        let builder = builder.unwrap().env(clock.env()).transport(yes.clone());
        let account = builder.build().unwrap();
        let rows = account.tables().table("Rows").unwrap();
        Self { account, clock, yes, rows }
    }

    fn pass(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    async fn insert(&self, partition: &str, row: &str) {
        self.rows.insert(&Entity::new(partition, row)).await.unwrap();
    }

    async fn merge(&self, table: &str, partition: &str, row: &str) {
        let table = self.account.tables().table(table).unwrap();
        table.merge((partition, row)).set("N", 1).await.unwrap();
    }
}

/// A key from a pseudorandom order.
fn scattered(number: u64) -> String {
    format!("{:016x}x", number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Runs both workloads: the first shows `code` and nothing else, the second shows nothing.
async fn check(
    code: Code,
    thresholds: &Thresholds,
    guilty: impl AsyncFn(&Workload),
    innocent: impl AsyncFn(&Workload),
) {
    let codes = |watch: &Watch| -> Vec<Code> {
        watch.findings().iter().map(|finding| finding.code).collect()
    };
    let workload = Workload::new();
    let watch = Watch::new(&workload.account, *thresholds);
    guilty(&workload).await;
    assert_eq!(codes(&watch), [code], "guilty: {:?}", watch.findings());
    let workload = Workload::new();
    let watch = Watch::new(&workload.account, *thresholds);
    innocent(&workload).await;
    assert_eq!(codes(&watch), [], "innocent of {code}: {:?}", watch.findings());
}

#[tokio::test]
async fn appends_and_hot_partitions_are_noticed() {
    let minutes = async |work: &Workload, minutes: u64, share: u64| {
        work.insert("0000x", "first").await;
        for minute in 0..minutes {
            for number in 0..50 {
                let newest = format!("2026-11-15T12:{minute:02}x");
                let partition = if number < share { &newest } else { "0000x" };
                work.insert(partition, &scattered(minute * 50 + number)).await;
                work.pass(1200);
            }
        }
    };
    let usual = Thresholds::default();
    let (guilty, innocent) =
        (async |w: &_| minutes(w, 7, 45).await, async |w: &_| minutes(w, 7, 30).await);
    check(Code::AppendPartitions, &usual, guilty, innocent).await;

    let mut quick = Thresholds::default();
    quick.hot_per_second = 20;
    let appends = async |work: &Workload, appends: u64| {
        for number in 0..24 {
            let row = if number < appends { format!("r{number:06}x") } else { scattered(number) };
            work.insert("hot", &row).await;
            // Other partitions have more, so that this one does not have most of the traffic.
            work.insert("a", &scattered(number)).await;
            work.insert("b", &scattered(number)).await;
        }
        work.pass(1000);
        work.insert("a", "later").await;
    };
    let (guilty, innocent) =
        (async |w: &_| appends(w, 24).await, async |w: &_| appends(w, 12).await);
    check(Code::AppendRows, &quick, guilty, innocent).await;

    let hot = async |work: &Workload, hot: u64, others: u64| {
        for number in 0..hot {
            work.merge("Rows", "hot", &scattered(number)).await;
        }
        for number in 0..others {
            work.merge("Rows", &scattered(number % 7), "r").await;
        }
        work.pass(1000);
        work.merge("Rows", "a", "r").await;
    };
    let (guilty, innocent) =
        (async |w: &_| hot(w, 24, 4).await, async |w: &_| hot(w, 24, 28).await);
    check(Code::HotPartition, &quick, guilty, innocent).await;

    let mut few = Thresholds::default();
    few.single_partition_rows = 50;
    let one = async |work: &Workload, second: &str| {
        for number in 0..50 {
            let partition = if number == 49 { second } else { "all" };
            work.insert(partition, &scattered(number)).await;
            work.pass(20);
        }
    };
    let (guilty, innocent) =
        (async |w: &_| one(w, "all").await, async |w: &_| one(w, "another").await);
    check(Code::OnePartition, &few, guilty, innocent).await;
}

#[tokio::test]
async fn writes_that_meet_or_come_alone_are_noticed() {
    let mut few = Thresholds::default();
    (few.conflicts, few.deletions, few.single_inserts, few.habit) = (5, 10, 10, 10);
    let conflicts = async |work: &Workload, conflicts: u32| {
        work.yes.conflicts.store(conflicts, Ordering::Relaxed);
        for _ in 0..20 {
            let counter = Entity::new("p", "counter");
            let _ = work.rows.replace_if_match(&counter, &ETag::new(ETAG)).await;
            work.pass(30);
        }
    };
    let (guilty, innocent) =
        (async |w: &_| conflicts(w, 5).await, async |w: &_| conflicts(w, 4).await);
    check(Code::Conflicts, &few, guilty, innocent).await;

    let deletions = async |work: &Workload, count: u64| {
        let old = partition("p").and(col("At").lt(Timestamp::from_unix_seconds(1_800_000_000)));
        work.rows.query(old).collect_at_most(10).await.unwrap();
        for number in 0..count {
            work.rows.delete_key(("p", scattered(number))).await.unwrap();
            work.pass(100);
        }
    };
    let (guilty, innocent) =
        (async |w: &_| deletions(w, 10).await, async |w: &_| deletions(w, 9).await);
    check(Code::DeletesByAge, &few, guilty, innocent).await;

    let burst = async |work: &Workload, count: u64| {
        for number in 0..count {
            work.insert("p", &scattered(number)).await;
        }
        work.pass(1000);
        work.insert("q", "r").await;
    };
    let (guilty, innocent) = (async |w: &_| burst(w, 10).await, async |w: &_| burst(w, 9).await);
    check(Code::SingleInserts, &few, guilty, innocent).await;

    let groups = async |work: &Workload, rows_of_partition: u64| {
        for group in 0..4 {
            for number in 0..3 {
                for row in 0..rows_of_partition {
                    work.insert(&scattered(group * 3 + number), &scattered(row)).await;
                }
            }
            work.pass(5000);
        }
    };
    let (guilty, innocent) = (async |w: &_| groups(w, 1).await, async |w: &_| groups(w, 2).await);
    check(Code::LonelyRows, &few, guilty, innocent).await;

    let pairs = async |work: &Workload, count: u64| {
        for number in 0..count {
            for table in ["Orders", "Lines"] {
                work.merge(table, &scattered(number), "r").await;
            }
            work.pass(3000);
        }
    };
    let (guilty, innocent) = (async |w: &_| pairs(w, 10).await, async |w: &_| pairs(w, 9).await);
    check(Code::WrittenTogether, &few, guilty, innocent).await;
}

#[tokio::test]
async fn reads_that_come_again_are_noticed() {
    let mut few = Thresholds::default();
    (few.rereads, few.habit) = (10, 5);
    let scans = async |work: &Workload, count: u64| {
        for _ in 0..count {
            work.rows.scan().collect_at_most(10).await.unwrap();
        }
    };
    let (guilty, innocent) = (async |w: &_| scans(w, 10).await, async |w: &_| scans(w, 9).await);
    check(Code::Rereads, &few, guilty, innocent).await;

    let series = async |work: &Workload, hours: u64| {
        for _ in 0..5 {
            for hour in 0..hours {
                work.rows.get(("2026-11-15", format!("{hour:02}"))).await.unwrap();
                work.pass(10);
            }
        }
    };
    let (guilty, innocent) = (async |w: &_| series(w, 24).await, async |w: &_| series(w, 23).await);
    check(Code::ReadsInARow, &few, guilty, innocent).await;

    let minute = async |work: &Workload, count: u64| {
        for _ in 0..count {
            let range = partition("p").and(row().ge("a"));
            work.rows.query(range).collect_at_most(10).await.unwrap();
        }
        work.pass(60_000);
    };
    let spike = async |work: &Workload, peak: u64| {
        for _ in 0..20 {
            minute(work, 100).await;
        }
        minute(work, peak).await;
        minute(work, 100).await;
    };
    let (guilty, innocent) =
        (async |w: &_| spike(w, 2000).await, async |w: &_| spike(w, 1999).await);
    // All of it comes in one second.
    let mut calm = Thresholds::default();
    calm.hot_per_second = u32::MAX;
    check(Code::Spikes, &calm, guilty, innocent).await;
}

#[derive(TableEntity)]
#[table(name = "People", kind = "Person", partition = "{city}", row = "id_{id:06}")]
#[index(name, row = "name_{name}_{id:06}")]
struct Person {
    city: String,
    id: u32,
    name: String,
}

#[tokio::test]
async fn an_index_that_nobody_reads_is_noticed() {
    // ADV-12. A client recognizes copies by their mark, in what it writes and in what it reads.
    for (reads, expected) in [(0, vec![Code::UnreadIndex]), (1, vec![]), (2, vec![])] {
        let clock = TestClock::default();
        let server = TestServer::builder().clock(clock.clone()).start().await.unwrap();
        let account = server.account();
        account.tables().create("People").await.unwrap();
        let people = account.tables().of::<Person>().unwrap();
        let watch = Watch::new(&account, Thresholds::default());
        for id in 0..=30 {
            let person = Person { city: "Rome".into(), id, name: "Ann".into() };
            people.insert(&person).await.unwrap();
            match (id, reads) {
                (3, 1) => {
                    let ann = Person::by_name("Rome", "Ann").unwrap();
                    assert_eq!(people.query_by(ann).collect_at_most(50).await.unwrap().len(), 4);
                }
                (3, 2) => {
                    let rows = people.retyped::<Entity>();
                    assert!(rows.get(("Rome", "name_Ann_000002")).await.unwrap().is_some());
                }
                _ => {}
            }
            clock.advance(Duration::from_secs(24 * 3600));
        }
        let codes: Vec<_> = watch.findings().iter().map(|finding| finding.code).collect();
        assert_eq!(codes, expected, "{reads}");
    }
}
