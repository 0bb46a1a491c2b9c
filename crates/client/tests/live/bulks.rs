//! Many writes: what is written, the effect of a failure, the cost.

use lazuli_client::{
    AccountBuilder, Body, BoxFuture, Entity, Error, ErrorKind, OnError, Table, Transport,
    TransportError, WriteOp, col, iter, partition, row,
};
use lazuli_test::{Fault, FaultyServer, Match, TestServer, When};
use std::collections::HashSet;
use std::future::{IntoFuture, poll_fn};
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

async fn server() -> (FaultyServer, Table) {
    let server = TestServer::with_faults().await.unwrap();
    let table = server.account().tables().create("Loads").await.unwrap();
    server.faults().take();
    (server, table)
}

/// Row `index` of a load that changes its partition with every row.
fn entity(index: usize, partitions: usize) -> Entity {
    Entity::new(format!("p{:03}", index % partitions), format!("{index:06}"))
        .with("Index", index as i32)
}

fn entities(rows: usize, partitions: usize) -> impl Iterator<Item = Entity> {
    (0..rows).map(move |index| entity(index, partitions))
}

/// Operations of the transactions that were sent.
fn sizes(server: &FaultyServer) -> Vec<usize> {
    let exchanges = server.faults().take();
    exchanges.iter().filter(|e| e.is_batch()).map(|e| e.operations()).collect()
}

async fn rows(table: &Table) -> Vec<String> {
    let rows = table.scan().collect_at_most(100_000).await.unwrap();
    rows.iter().map(|row| format!("{}/{}", row.partition_key(), row.row_key())).collect()
}

#[tokio::test]
async fn writes_are_grouped_by_partition_into_full_transactions() {
    // C-12.1.
    let (server, table) = server().await;
    let report = table.bulk().upsert(iter(entities(2050, 5))).await.unwrap();
    assert_eq!((report.read, report.written, report.requests), (2050, 2050, 25));
    assert!(report.failed.is_empty() && !report.stopped && report.throttled == 0);
    let mut sizes = sizes(&server);
    sizes.sort_unstable();
    assert_eq!(sizes, [[10; 5].as_slice(), &[100; 20]].concat());
    assert_eq!(rows(&table).await.len(), 2050);
}

#[tokio::test]
async fn writes_to_one_entity_keep_their_order() {
    // C-12.2, and C-12.3: the buffer has room for a few writes only.
    let (server, table) = server().await;
    let writes = (0..900).map(|n| {
        let entity = Entity::new(format!("p{}", n % 3), format!("{}", n % 9)).with("N", n);
        Ok(WriteOp::upsert(&entity))
    });
    let report = table.bulk().buffer_max(6_000).run(iter(writes)).await.unwrap();
    assert_eq!(report.written, 900);
    assert!(sizes(&server).iter().all(|size| *size <= 3), "an entity is named once");
    let mut last: Vec<i32> = Vec::new();
    for row in table.scan().collect_at_most(10).await.unwrap() {
        last.push(row.get("N").unwrap());
    }
    last.sort_unstable();
    assert_eq!(last, (891..900).collect::<Vec<_>>());
}

/// A transport that never answers.
struct Silence;

impl Transport for Silence {
    fn send(
        &self,
        _: http::Request<bytes::Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn input_is_not_read_further_than_it_can_be_sent() {
    // C-12.3: two transactions are under way and two wait.
    let text = "TableEndpoint=http://127.0.0.1:1/a;AccountName=a;AccountKey=a2V5;";
    let builder = AccountBuilder::from_connection_string(text).unwrap();
    let account = builder.transport(Silence).build().unwrap();
    let table = account.tables().table("Loads").unwrap();
    let read = Arc::new(AtomicUsize::new(0));
    let counted = read.clone();
    let input = (0..100_000).map(move |index: usize| {
        counted.fetch_add(1, Ordering::Relaxed);
        Entity::new(format!("p{}", index / 100), format!("{index:06}"))
    });
    let mut load = pin!(table.bulk().concurrency(2).insert(iter(input)).into_future());
    // A load yields now and then; it has ended when a poll reads nothing.
    let mut before = usize::MAX;
    while before != read.load(Ordering::Relaxed) {
        before = read.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        let polled = poll_fn(|context| Poll::Ready(load.as_mut().poll(context)));
        assert!(polled.await.is_pending());
    }
    assert_eq!(before, 400);
}

#[tokio::test]
async fn a_partition_has_one_transaction_under_way() {
    // C-12.2, P-19.3.
    let server = TestServer::builder().start_with_faults().await.unwrap();
    let table = server.account().tables().create("Loads").await.unwrap();
    server.faults().add(Match::any().path_contains("$batch"), When::Always, Fault::DropReply);
    // Every answer is lost: a transaction under way has an unknown outcome.
    let report = table.bulk().concurrency(8).upsert(iter(entities(500, 1))).await.unwrap();
    assert!(report.stopped && report.written == 0);
    assert_eq!(report.requests, 1, "none was sent beside it");
    assert_eq!(report.failed.len(), 100);
    assert!(report.failed.iter().all(|failure| failure.error.may_have_been_applied()));
    assert_eq!(*report.into_result().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
}

/// A load of 300 rows in 3 partitions, of which rows 7 and 250 are there already.
async fn load_with_conflicts(
    on_error: OnError,
) -> (lazuli_client::BulkReport, Vec<String>, Vec<usize>) {
    let (server, table) = server().await;
    for index in [7, 250] {
        table.insert(&entity(index, 3).with("Old", true)).await.unwrap();
    }
    server.faults().take();
    let bulk = table.bulk().on_error(on_error).concurrency(1);
    let report = bulk.insert(iter(entities(300, 3))).await.unwrap();
    let sizes = sizes(&server);
    (report, rows(&table).await, sizes)
}

#[tokio::test]
async fn a_failure_is_collected_or_split_off_or_stops_the_load() {
    // C-12.4.
    let failed = |report: &lazuli_client::BulkReport| -> Vec<(u64, String)> {
        let row = |key: &lazuli_client::EntityKey| key.row.as_str().to_owned();
        report.failed.iter().map(|f| (f.index, f.key.as_ref().map(row).unwrap())).collect()
    };
    let both = [(7, "000007".to_owned()), (250, "000250".to_owned())];
    let (report, rows, sizes) = load_with_conflicts(OnError::Collect).await;
    assert_eq!((report.written, rows.len(), report.stopped), (298, 300, false));
    assert_eq!((failed(&report), sizes), (both.to_vec(), vec![100, 100, 99, 98, 100]));
    assert!(report.failed[0].error.is_conflict());

    let (report, rows, sizes) = load_with_conflicts(OnError::Split).await;
    assert_eq!((report.written, rows.len(), report.requests), (298, 300, 103));
    assert_eq!((failed(&report), sizes.len()), (both.to_vec(), 103));

    let (report, rows, sizes) = load_with_conflicts(OnError::Stop).await;
    assert_eq!((report.written, rows.len(), report.stopped), (100, 102, true));
    assert_eq!((failed(&report), sizes), (both[..1].to_vec(), vec![100, 100]));
}

#[tokio::test]
async fn what_cannot_be_sent_is_a_failure_of_its_row() {
    let (server, table) = server().await;
    let bad = [
        Entity::new("p", "x/y"),
        Entity::new("p", "nul").with("S", "\0"),
        (0..253).fold(Entity::new("p", "wide"), |e, n| e.with(format!("P{n}"), n)),
    ];
    let all = entities(10, 1).chain(bad).chain(entities(20, 1).skip(10));
    let bulk = table.bulk().on_error(OnError::Collect);
    let report = bulk.upsert(iter(all)).await.unwrap();
    let failed: Vec<_> = report.failed.iter().map(|failure| failure.index).collect();
    assert_eq!((report.written, report.read, failed), (20, 23, vec![10, 11, 12]));
    assert_eq!(sizes(&server), [20]);
    let none = table.bulk().failures_max(2).on_error(OnError::Collect);
    let report = none.upsert(iter((0..5).map(|_| Entity::new("p", "x/y")))).await.unwrap();
    assert_eq!((report.failed.len(), report.stopped), (2, true));
    let broken = iter([Ok(WriteOp::upsert(&entity(0, 1))), Err(source_error())]);
    let report = table.bulk().on_error(OnError::Collect).run(broken).await.unwrap();
    assert_eq!((report.failed[0].index, report.stopped), (1, true));
}

fn source_error() -> Error {
    "lzp1.".parse::<lazuli_client::PageToken>().unwrap_err()
}

#[tokio::test]
async fn a_missing_table_fails_every_row_of_its_transaction() {
    let (server, _) = server().await;
    let missing = server.account().tables().table("Missing").unwrap();
    let report = missing.bulk().concurrency(1).upsert(iter(entities(150, 1))).await.unwrap();
    assert_eq!((report.failed.len(), report.requests, report.stopped), (100, 1, true));
    assert_eq!(*report.failed[0].error.kind(), ErrorKind::TableNotFound);
}

#[tokio::test]
async fn a_busy_service_gets_fewer_requests_and_all_rows() {
    // CS-17, C-12.5.
    let server = TestServer::builder()
        .partition_rate_max(NonZeroU32::new(150).unwrap())
        .start_with_faults()
        .await
        .unwrap();
    let table = server.account().tables().create("Loads").await.unwrap();
    let report = table.bulk().upsert(iter(entities(10_000, 10))).await.unwrap();
    assert_eq!((report.written, report.failed.len()), (10_000, 0));
    assert!(report.throttled > 0, "{report:?}");
    assert_eq!(rows(&table).await.len(), 10_000);
}

#[tokio::test]
async fn all_requests_wait_as_long_as_the_service_asks() {
    // C-12.5.
    let (server, table) = server().await;
    let clock = server.clock().unwrap().clone();
    clock.take_pauses();
    let busy = Fault::Busy { retry_after: Some(3) };
    server.faults().add(Match::any().path_contains("$batch"), When::First(20), busy);
    let report = table.bulk().concurrency(4).upsert(iter(entities(800, 8))).await.unwrap();
    assert_eq!((report.written, report.throttled), (800, 20));
    let pauses = clock.take_pauses();
    assert!(pauses.iter().all(|pause| pause.as_secs() <= 3), "{pauses:?}");
}

#[tokio::test]
async fn a_checkpoint_names_what_is_durable_and_a_load_resumes_there() {
    // C-12.6. With one transaction at a time, in the order of the input, all before the 600th write are durable when
    // the one with the taken row fails.
    let last = checkpoint_and_resume(1).await;
    assert!((600..=602).contains(&last), "{last}");
    // With many at a time, those of other partitions may be far behind the one that fails.
    assert!(checkpoint_and_resume(16).await <= 777);
}

/// Loads 2,000 rows, of which number 777 is taken, resumes at the last checkpoint, and returns it.
async fn checkpoint_and_resume(concurrency: usize) -> usize {
    let (_server, table) = server().await;
    table.insert(&entity(777, 7)).await.unwrap();
    let durable = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&durable);
    let bulk = table.bulk().concurrency(concurrency);
    let bulk = bulk.checkpoint(200, move |n| heard.lock().unwrap().push(n));
    let report = bulk.insert(iter(entities(2000, 7))).await.unwrap();
    assert!(report.stopped);
    let durable = durable.lock().unwrap().clone();
    assert!(durable.is_sorted(), "{durable:?}");
    let last = durable.last().map_or(0, |last| *last as usize);
    let there: HashSet<_> = rows(&table).await.into_iter().collect();
    for index in 0..last {
        let key = format!("p{:03}/{index:06}", index % 7);
        assert!(there.contains(&key), "{key} was said to be durable");
    }
    let rest = entities(2000, 7).skip(last);
    let report = table.bulk().upsert(iter(rest)).await.unwrap();
    assert_eq!(report.written as usize, 2000 - last);
    assert_eq!(rows(&table).await.len(), 2000);
    last
}

#[tokio::test]
async fn progress_ends_with_the_whole() {
    // C-12.7.
    let (_server, table) = server().await;
    let last = Arc::new(Mutex::new(None));
    let heard = Arc::clone(&last);
    let bulk = table.bulk().progress(move |progress| *heard.lock().unwrap() = Some(*progress));
    let report = bulk.upsert(iter(entities(500, 5))).await.unwrap();
    let last = last.lock().unwrap().unwrap();
    assert_eq!((last.written, last.requests, last.bytes), (500, 5, report.bytes));
}

#[tokio::test]
async fn what_a_filter_finds_is_deleted_and_a_table_is_copied() {
    let (server, table) = server().await;
    assert_eq!(table.bulk().upsert(iter(entities(1500, 3))).await.unwrap().written, 1500);
    let copy = server.account().tables().create("Copy").await.unwrap();
    let report = table.bulk().copy_to(&copy).await.unwrap();
    assert_eq!((report.written, rows(&copy).await), (1500, rows(&table).await));

    server.faults().take();
    let report = table.bulk().delete_where(col("Index").lt(1200)).await.unwrap();
    assert_eq!((report.written, report.requests), (1200, 12));
    assert_eq!(rows(&table).await.len(), 300);
    let one = partition("p001").and(row().ge("001400"));
    assert_eq!(copy.bulk().delete_where(one).await.unwrap().written, 33);
}

#[tokio::test]
async fn an_entity_that_changes_after_it_was_found_is_not_deleted() {
    let (server, table) = server().await;
    let clock = server.clock().unwrap().clone();
    assert_eq!(table.bulk().upsert(iter(entities(150, 1))).await.unwrap().written, 150);
    // The first transaction has to wait; meanwhile others write.
    let busy = Fault::Busy { retry_after: Some(1) };
    server.faults().take();
    server.faults().add(Match::any().path_contains("$batch"), When::First(1), busy);
    clock.hold();
    let others = async {
        while !server.faults().exchanges().iter().any(|exchange| exchange.is_batch()) {
            tokio::task::yield_now().await;
        }
        let direct = server.direct().tables().table("Loads").unwrap();
        direct.merge(("p000", "000005")).set("New", 1).await.unwrap();
        direct.delete_key(("p000", "000003")).await.unwrap();
        clock.release();
    };
    let delete = table.bulk().delete_where(col("Index").lt(120)).into_future();
    let (report, ()) = tokio::join!(delete, others);
    let report = report.unwrap();
    assert_eq!((report.written, report.skipped, report.failed.len()), (118, 2, 0));
    assert_eq!(rows(&table).await.len(), 31);
}

#[tokio::test]
async fn a_buffer_of_nothing_still_lets_one_write_through() {
    // C-12.3.
    let (_server, table) = server().await;
    let report = table.bulk().buffer_max(0).upsert(iter(entities(10, 3))).await.unwrap();
    assert_eq!((report.written, report.failed.len()), (10, 0));
}
