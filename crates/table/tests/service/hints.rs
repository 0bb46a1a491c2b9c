//! What the service remembers about tables that others may drop: hints, which every use verifies (K-4.1).

use crate::fixture::{Fault, Fixture, mutation};
use lazuli_engine::retry::give_way;
use lazuli_engine::{
    BoxFuture, ClockSource, Engine, EngineError, Found, MemoryEngine, MemoryOptions, Revision,
    Scan, ScanEnd, View, ViewClock, Visitor,
};
use lazuli_model::{Clock, EntityKey, IfMatch, Timestamp, Value};
use lazuli_table::MutationKind::{Insert, InsertOrReplace, Replace};
use lazuli_table::{EntityQuery, EntityRef, TableError, TableService};
use lazuli_testkit::layer::{Layer, Layered};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Drops the table elsewhere and recreates it, with one entity as a marker.
async fn replace_table(fixture: &Fixture) {
    let (elsewhere, account, table) = (fixture.elsewhere(), &fixture.account, &fixture.table);
    elsewhere.delete_table(account, table).await.unwrap();
    elsewhere.create_table(account, table).await.unwrap();
    let second = mutation(Insert, ("p", "r"), &[("life", Value::Int32(2))]);
    elsewhere.mutate(account, table, &second).await.unwrap();
}

/// K-4.2.
#[tokio::test]
async fn a_point_read_of_a_known_table_is_one_round_trip() {
    let fixture = Fixture::new().await;
    fixture.insert("p", "r").await;
    let before = fixture.engine.trips.load(Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(fixture.properties("p", "r").await, Some(String::new()));
        assert_eq!(fixture.properties("p", "missing").await, None);
    }
    assert_eq!(fixture.engine.trips.load(Ordering::SeqCst) - before, 6);
}

/// K-4.4.
#[tokio::test]
async fn a_write_to_a_known_table_is_one_round_trip() {
    let fixture = Fixture::new().await;
    fixture.insert("p", "first").await;
    let before = fixture.engine.trips.load(Ordering::SeqCst);
    fixture.insert("p", "second").await;
    assert_eq!(fixture.engine.trips.load(Ordering::SeqCst) - before, 1);
}

#[tokio::test]
async fn a_point_read_is_not_misled_by_a_table_of_the_same_name() {
    let fixture = Fixture::new().await;
    fixture.mutate(Insert, ("p", "r"), &[("life", Value::Int32(1))]).await.unwrap();
    assert!(fixture.properties("p", "r").await.unwrap().contains('1'));
    replace_table(&fixture).await;
    assert!(fixture.properties("p", "r").await.unwrap().contains('2'));
}

#[tokio::test]
async fn a_write_is_not_misled_by_a_table_of_the_same_name() {
    let fixture = Fixture::new().await;
    fixture.insert("p", "r").await;
    replace_table(&fixture).await;
    let life = [("life", Value::Int32(3))];
    fixture.mutate(Replace(IfMatch::Any), ("p", "r"), &life).await.unwrap();
    let key = EntityKey::parse("p", "r").unwrap();
    let seen = fixture.elsewhere().get(&fixture.account, &fixture.table, &key).await.unwrap();
    assert_eq!(seen.properties().unwrap().len(), 1);
}

#[tokio::test]
async fn a_dropped_table_is_not_found_though_it_is_remembered() {
    let fixture = Fixture::new().await;
    fixture.insert("p", "r").await;
    fixture.elsewhere().delete_table(&fixture.account, &fixture.table).await.unwrap();
    let (account, table) = (&fixture.account, &fixture.table);
    let key = EntityKey::parse("p", "r").unwrap();
    let got = fixture.service.get(account, table, &key).await;
    assert!(matches!(got, Err(TableError::TableNotFound)));
    let page = fixture.service.query(account, table, EntityQuery::default(), &mut |_| ()).await;
    assert!(matches!(page, Err(TableError::TableNotFound)));
    let wrote = fixture.mutate(InsertOrReplace, ("p", "r"), &[]).await;
    assert!(matches!(wrote, Err(TableError::TableNotFound)));
    let policies = fixture.service.access_policies(account, table).await;
    assert!(matches!(policies, Err(TableError::TableNotFound)));
    // Nor does the hint prevent a new table.
    fixture.service.create_table(account, table).await.unwrap();
}

#[tokio::test]
async fn of_two_deletions_at_once_one_finds_no_table() {
    let fixture = Fixture::new().await;
    fixture.insert("p", "r").await;
    let (elsewhere, account) = (fixture.elsewhere(), fixture.account.clone());
    let table = fixture.table.clone();
    fixture.engine.plan([Fault::After(Box::pin(async move {
        elsewhere.delete_table(&account, &table).await.unwrap();
    }))]);
    let deleted = fixture.service.delete_table(&fixture.account, &fixture.table).await;
    assert!(matches!(deleted, Err(TableError::TableNotFound)));
}

/// Where the store stamps by its own clock, an old revision proves nothing about a commit stamped by
/// the caller's clock: only the engine can find out, and it could not.
#[tokio::test]
async fn a_lost_answer_of_a_store_with_its_own_clock_is_unknown() {
    let fixture = Fixture::with_clock(ClockSource::Store).await;
    fixture.insert("p", "r").await;
    fixture.clock.advance_ms(1);
    for fault in [Fault::LoseCommit, Fault::LoseAnswer] {
        fixture.engine.plan([fault]);
        let result = fixture.mutate(InsertOrReplace, ("p", "r"), &[]).await;
        assert!(matches!(result, Err(TableError::Undetermined)));
    }
}

/// An engine whose scans and point reads are counted, and whose point reads may be slower than scans.
struct Watched {
    inner: Arc<MemoryEngine>,
    is_slow: bool,
    gets: AtomicU64,
    scans: AtomicU64,
}

impl Layer for Watched {
    fn below(&self) -> &dyn Engine {
        &*self.inner
    }

    fn get<'a>(
        &'a self,
        view: &'a dyn View,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if self.is_slow {
                give_way().await;
            }
            view.get(key).await
        })
    }

    fn scan<'a>(
        &'a self,
        view: &'a dyn View,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        self.scans.fetch_add(1, Ordering::SeqCst);
        view.scan(scan, visitor)
    }
}

/// K-4.3: the catalog record is read in parallel with the first entities. Whichever arrives first, no
/// entity is shown before the table is verified, and none is shown twice.
#[tokio::test]
async fn a_query_reads_the_catalog_beside_the_first_entities() {
    for (is_slow, trips) in [(false, (1, 1)), (true, (2, 2))] {
        let fixture = Fixture::new().await;
        let watched = Watched {
            inner: fixture.memory.clone(),
            is_slow,
            gets: AtomicU64::new(0),
            scans: AtomicU64::new(0),
        };
        let watched = Arc::new(Layered::new(watched));
        let service = TableService::new(watched.clone(), fixture.clock.clone());
        let (account, table) = (&fixture.account, &fixture.table);
        for row in ["a", "b", "c"] {
            service.mutate(account, table, &mutation(Insert, ("p", row), &[])).await.unwrap();
        }
        let rows = |service: TableService| async move {
            let mut rows = String::new();
            let mut sink = |entity: EntityRef<'_>| rows.push_str(entity.row_key);
            service.query(account, table, EntityQuery::default(), &mut sink).await.unwrap();
            rows
        };
        assert_eq!(rows(service.clone()).await, "abc");
        let seen = || (watched.gets.load(Ordering::SeqCst), watched.scans.load(Ordering::SeqCst));
        assert_eq!(seen(), trips);
        // Another table of the same name: what was read of the first is discarded.
        replace_table(&fixture).await;
        assert_eq!(rows(service).await, "r");
    }
}

#[tokio::test]
async fn a_query_whose_view_expires_may_be_tried_again() {
    // Time passes whenever the engine reads it.
    let looks = AtomicU64::new(0);
    let clock: ViewClock = Arc::new(move || looks.fetch_add(60_000, Ordering::SeqCst));
    let options = MemoryOptions { view_clock: Some(clock), ..MemoryOptions::default() };
    let fixture = Fixture::with_options(options).await;
    let (account, table) = (&fixture.account, &fixture.table);
    let page = fixture.service.query(account, table, EntityQuery::default(), &mut |_| ()).await;
    assert!(matches!(page, Err(TableError::Busy)));
}

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        Timestamp::parse("2026-01-01T00:00:00Z").unwrap()
    }
}

/// A sole writer trusts its cache: a point read does not read the catalog.
#[tokio::test]
async fn a_sole_writer_takes_what_it_remembers_for_a_fact() {
    use lazuli_engine::{Commit, Write};
    let memory = Arc::new(MemoryEngine::default());
    let service = TableService::new(memory.clone(), Arc::new(Standing));
    let fixture = Fixture::new().await;
    let (account, table) = (&fixture.account, &fixture.table);
    service.create_table(account, table).await.unwrap();
    service.mutate(account, table, &mutation(Insert, ("p", "r"), &[])).await.unwrap();
    let catalog = lazuli_layout::key::catalog(account, table.lower());
    let forget = Write::Delete(catalog.into());
    memory.commit(Commit::new(Revision(0), vec![forget])).await.unwrap();
    let key = EntityKey::parse("p", "r").unwrap();
    assert!(service.get(account, table, &key).await.is_ok());
    // Only reads trust it: a write is still guarded.
    let wrote = service.mutate(account, table, &mutation(Insert, ("p", "s"), &[])).await;
    assert!(matches!(wrote, Err(TableError::TableNotFound)));
}
