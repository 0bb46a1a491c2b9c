//! What is derived from entities, after the store was copied to another engine (O-12): all of it
//! exists, or is rebuilt without help.

use crate::fixture::{Fixture, mutation};
use lazuli_engine::{Engine, MemoryEngine, MemoryOptions, Reclaimed, Writers};
use lazuli_model::{
    Clock, Expiry, Feed, FeedRetention, Filter, Images, IndexDefinition, IndexDefinitions,
    Operator, Property, Value,
};
use lazuli_service::transfer::{Progress, Step, Transfer, compare};
use lazuli_table::{
    After, EntityQuery, EntityRef, IndexState, MutationKind, PlanKind, TableError, TableService,
};
use std::sync::Arc;

const HOUR_MS: u64 = 3_600_000;

fn hash(key: &[u8], value: &[u8]) -> u128 {
    key.iter().chain(value).fold(1, |sum, byte| sum * 31 % (1 << 100) + u128::from(*byte))
}

/// A store with everything that can be derived: `rows` entities, some older than the settings.
async fn source(rows: i32, expiry: Expiry) -> Fixture {
    let fixture = Fixture::new().await;
    let fixture = Fixture { service: fixture.service.clone().with_index_settles_ms(0), ..fixture };
    let (service, account, table) = (&fixture.service, &fixture.account, &fixture.table);
    put(&fixture, "old", -1).await;
    let on = |name: &str, on: &[&str], unique| IndexDefinition::new(name, on, unique).unwrap();
    let indexes = vec![on("byN", &["N"], true), on("byT", &["T"], false)];
    let indexes = IndexDefinitions::new(indexes).unwrap();
    service.declare_indexes(account, table, &indexes).await.unwrap();
    let feed = Feed { images: Images::Both, retention: FeedRetention::DEFAULT };
    service.set_feed(account, table, feed).await.unwrap();
    service.set_expiry(account, table, &expiry).await.unwrap();
    build(service).await;
    for row in 0..rows {
        put(&fixture, &format!("{row:04}"), row).await;
    }
    fixture
}

async fn put(fixture: &Fixture, row: &str, number: i32) {
    let at = fixture.clock.now().plus_seconds(2 * 3600);
    let pairs =
        [("N", Value::Int32(number)), ("T", Value::from("text")), ("At", Value::DateTime(at))];
    fixture.mutate(MutationKind::Insert, ("p", row), &pairs).await.unwrap();
}

async fn build(service: &TableService) {
    while service.build_some().await.unwrap() == Reclaimed::Partly {}
}

async fn disagreements(fixture: &Fixture, service: &TableService) -> usize {
    let page = service.verify_indexes(&fixture.account, &fixture.table, None).await.unwrap();
    assert_eq!(page.next, None);
    page.found.len()
}

async fn found(
    fixture: &Fixture,
    service: &TableService,
    filter: Option<Filter>,
) -> (usize, PlanKind) {
    let mut count = 0;
    let mut sink = |_: EntityRef<'_>| count += 1;
    let query = EntityQuery { filter, ..EntityQuery::default() };
    let (account, table) = (&fixture.account, &fixture.table);
    let end = service.query(account, table, query, &mut sink).await.unwrap();
    (count, end.plan)
}

#[tokio::test]
async fn what_is_derived_survives_a_copy() {
    for (rows, writers) in [(5, Writers::Many), (600, Writers::Sole)] {
        for expiry in [Expiry::Seconds(2 * 3600), Expiry::Property("At".into())] {
            survives_a_copy(rows, writers, expiry).await;
        }
    }
}

async fn survives_a_copy(rows: i32, writers: Writers, expiry: Expiry) {
    let fixture = source(rows, expiry.clone()).await;
    let (account, table) = (&fixture.account, &fixture.table);
    let page = fixture.service.changes(account, table, After::Now).await.unwrap();
    let token = page.next;
    assert_eq!(disagreements(&fixture, &fixture.service).await, 0);
    fixture.clock.advance_ms(HOUR_MS);
    let to = Arc::new(MemoryEngine::new(MemoryOptions { writers, ..MemoryOptions::default() }));
    let clock = fixture.clock.clone();
    let mut transfer =
        Transfer::new(fixture.memory.clone(), to.clone(), clock.clone(), Progress::default());
    while transfer.step().await.unwrap() == Step::More {}
    let compared = compare(&*fixture.memory, &*to, hash, |_| ()).await.unwrap();
    assert_eq!(compared.differences(), 0);

    let service = TableService::new(to.clone(), clock).with_index_settles_ms(0);
    let all = rows as usize + 1;
    // Both at once and after the builds are done.
    assert_eq!(disagreements(&fixture, &service).await, 0);
    let text = Filter::compare(Property::from_name("T"), Operator::Eq, "text");
    assert_eq!(found(&fixture, &service, Some(text.clone())).await, (all, PlanKind::Index));
    build(&service).await;
    assert_eq!(disagreements(&fixture, &service).await, 0);
    let states = service.indexes(account, table).await.unwrap();
    assert!(states.iter().all(|index| index.state == IndexState::Ready));
    // Unique values have their owners, and the feed continues where a reader was.
    let taken = mutation(MutationKind::Insert, ("q", "r"), &[("N", Value::Int32(-1))]);
    let taken = service.mutate(account, table, &taken).await;
    assert!(matches!(taken, Err(TableError::IndexConflict(_))), "{taken:?}");
    let new = mutation(MutationKind::Insert, ("q", "r"), &[("N", Value::Int32(-2))]);
    service.mutate(account, table, &new).await.unwrap();
    let page = service.changes(account, table, After::Token(token)).await.unwrap();
    let rows: Vec<_> = page.changes.iter().map(|change| change.decode().unwrap().row_key).collect();
    assert_eq!(rows, ["r"]);
    assert_eq!(disagreements(&fixture, &service).await, 0);

    // Entities expire, and the sweeper finds them without help.
    let left = match expiry {
        // The copy is their last write.
        Expiry::Seconds(_) => all + 1,
        Expiry::Property(_) => 1,
    };
    fixture.clock.advance_ms(HOUR_MS + 20_000);
    while service.sweep_some().await.unwrap() == Reclaimed::Partly {}
    assert_eq!(found(&fixture, &service, None).await.0, left);
    fixture.clock.advance_ms(HOUR_MS);
    while service.sweep_some().await.unwrap() == Reclaimed::Partly {}
    let left = match expiry {
        Expiry::Seconds(_) => 0,
        Expiry::Property(_) => 1,
    };
    assert_eq!((found(&fixture, &service, None).await.0, stored(&*to, b'e').await), (left, left));
    assert_eq!(stored(&*to, b'x').await, 0);
    assert_eq!(disagreements(&fixture, &service).await, 0);
}

async fn stored(engine: &dyn Engine, kind: u8) -> usize {
    let mut count = 0;
    let scan = lazuli_engine::Scan {
        range: lazuli_engine::KeyRange::prefix(&[b'L', kind]),
        direction: lazuli_engine::Direction::Forward,
        rows_max: usize::MAX,
        bytes_max: usize::MAX,
        rows_expected: usize::MAX,
    };
    let mut visit = |_: &[u8], _: &[u8], _| {
        count += 1;
        lazuli_engine::Visit::Continue
    };
    engine.view().await.unwrap().scan(scan, &mut visit).await.unwrap();
    count
}
