//! Secondary indexes: what a query finds through them, what they reject, how they are built.

mod building;
mod plans;

use crate::fixture::{Fault, Fixture, mutation, store};
use lazuli_engine::{KeyRange, MemoryOptions, Reclaimed, Writers};
use lazuli_layout::TableId;
use lazuli_meter::{Source, Value as Measured};
use lazuli_model::{
    Clock, Filter, IfMatch, IndexDefinition, IndexDefinitions, Operator, Property, Value,
};
use lazuli_table::{
    DisagreementKind, EntityQuery, IndexAccess, IndexState, Mutation, MutationKind, PlanKind,
    TableError, VerifyPage,
};
use lazuli_testkit::index_histories::an_index_changes_no_answer as an_index_changes_no_answer_on;
use std::sync::atomic::Ordering;

fn index(name: &str, on: &[&str], unique: bool) -> IndexDefinition {
    IndexDefinition::new(name, on, unique).unwrap()
}

fn compare(property: &str, operator: Operator, value: impl Into<Value<'static>>) -> Filter {
    Filter::compare(Property::from_name(property), operator, value)
}

fn eq(property: &str, value: impl Into<Value<'static>>) -> Filter {
    compare(property, Operator::Eq, value)
}

impl Fixture {
    /// A service that does not wait for writes of other processes.
    async fn quick() -> Self {
        let fixture = Self::new().await;
        Self { service: fixture.service.clone().with_index_settles_ms(0), ..fixture }
    }

    async fn declare(&self, indexes: &[IndexDefinition]) {
        let indexes = IndexDefinitions::new(indexes.to_vec()).unwrap();
        self.service.declare_indexes(&self.account, &self.table, &indexes).await.unwrap();
    }

    async fn build(&self) {
        while self.service.build_some().await.unwrap() == Reclaimed::Partly {}
    }

    async fn declare_and_build(&self, indexes: &[IndexDefinition]) {
        self.declare(indexes).await;
        self.build().await;
    }

    async fn states(&self) -> Vec<IndexState> {
        let indexes = self.service.indexes(&self.account, &self.table).await.unwrap();
        indexes.into_iter().map(|index| index.state).collect()
    }

    async fn put(&self, key: (&str, &str), pairs: &[(&str, Value<'_>)]) -> Result<(), TableError> {
        self.mutate(MutationKind::InsertOrReplace, key, pairs).await.map(drop)
    }

    async fn delete(&self, key: (&str, &str)) {
        self.mutate(MutationKind::Delete(IfMatch::Any), key, &[]).await.unwrap();
    }

    /// Reclaims everything, in both passes.
    async fn reclaim(&self) {
        for _ in 0..3 {
            self.clock.advance_ms(2 * 3_600_000);
            let now = || self.clock.now();
            while self.service.reclaim_some(now()).await.unwrap() == Reclaimed::Partly {}
        }
    }

    async fn verify(&self) -> VerifyPage {
        let page = self.service.verify_indexes(&self.account, &self.table, None).await.unwrap();
        assert_eq!(page.next, None);
        page
    }

    /// The stored keys of a kind.
    pub(crate) async fn stored(&self, kind: u8) -> usize {
        let view = lazuli_engine::Engine::view(&*self.memory).await.unwrap();
        let mut count = 0;
        let scan = lazuli_engine::Scan {
            range: KeyRange::prefix(&[b'L', kind]),
            direction: lazuli_engine::Direction::Forward,
            rows_max: usize::MAX,
            bytes_max: usize::MAX,
            rows_expected: usize::MAX,
        };
        let mut visit = |_: &[u8], _: &[u8], _| {
            count += 1;
            lazuli_engine::Visit::Continue
        };
        view.scan(scan, &mut visit).await.unwrap();
        count
    }
}

fn query(filter: Filter) -> EntityQuery {
    EntityQuery { filter: Some(filter), ..EntityQuery::default() }
}

#[tokio::test]
async fn an_index_serves_what_would_be_a_scan() {
    // X-3.4: never where the keys give a point or a range of rows.
    let fixture = Fixture::quick().await;
    for row in 0..40 {
        let (partition, row) = (["a", "b"][row % 2], format!("{row:02}"));
        let colour = ["red", "green", "blue"][row.parse::<usize>().unwrap() % 3];
        fixture.put((partition, &row), &[("Colour", colour.to_owned().into())]).await.unwrap();
    }
    fixture.declare_and_build(&[index("byColour", &["Colour"], false)]).await;
    let red = || eq("Colour", "red".to_owned());
    let (keys, end) = fixture.page(query(red())).await;
    assert_eq!((end.plan, end.rows_read, end.rows_returned), (PlanKind::Index, 14, 14));
    assert!(keys.is_sorted());
    let used = end.index.unwrap();
    assert_eq!((used.access, used.entries), (IndexAccess::Eq, 14));
    assert_eq!(used.names[0].as_str(), "byColour");

    let (_, end) = fixture.page(query(eq("PartitionKey", "b".to_owned()).and(red()))).await;
    assert_eq!((end.plan, end.rows_read, end.rows_returned), (PlanKind::Index, 7, 7));
    let row = eq("PartitionKey", "b".to_owned()).and(eq("RowKey", "03".to_owned()));
    let (_, end) = fixture.page(query(row.and(red()))).await;
    assert_eq!((end.plan, end.rows_returned), (PlanKind::Point, 1));
    let rows = compare("RowKey", Operator::Ge, "2".to_owned());
    let (_, end) =
        fixture.page(query(eq("PartitionKey", "b".to_owned()).and(rows).and(red()))).await;
    assert_eq!(end.plan, PlanKind::RowRange);
}

#[tokio::test]
async fn an_index_changes_with_its_entities() {
    // X-3.3, X-3.2.
    let fixture = Fixture::quick().await;
    fixture
        .declare_and_build(&[index("byA", &["A"], false), index("byAB", &["A", "B"], false)])
        .await;
    fixture.put(("p", "1"), &[("A", Value::Int32(1)), ("B", Value::Int32(2))]).await.unwrap();
    fixture.put(("p", "2"), &[("A", Value::Int32(1))]).await.unwrap();
    assert_eq!(fixture.stored(b'i').await, 3);
    assert_eq!(fixture.pages(query(eq("A", 1))).await.len(), 2);
    fixture
        .mutate(MutationKind::Merge(IfMatch::Any), ("p", "2"), &[("B", Value::Int64(2))])
        .await
        .unwrap();
    assert_eq!(fixture.stored(b'i').await, 4);
    let both = || eq("A", 1.0).and(eq("B", 2));
    let (keys, end) = fixture.page(query(both())).await;
    assert_eq!((keys.len(), end.index.unwrap().names[0].as_str()), (2, "byAB"));
    fixture.put(("p", "1"), &[("A", Value::Int32(5))]).await.unwrap();
    fixture.delete(("p", "2")).await;
    assert_eq!(fixture.stored(b'i').await, 1);
    assert!(fixture.pages(query(both())).await.is_empty());
    assert_eq!(fixture.pages(query(eq("A", 5))).await.len(), 1);
}

#[tokio::test]
async fn a_unique_value_has_one_owner() {
    // X-3.9.
    let fixture = Fixture::quick().await;
    fixture.declare_and_build(&[index("byEmail", &["Email"], true)]).await;
    let email = |text: &str| [("Email", Value::from(text.to_owned()))];
    fixture.put(("p", "1"), &email("x")).await.unwrap();
    let refused = fixture.put(("q", "2"), &email("x")).await.unwrap_err();
    let TableError::IndexConflict(conflict) = refused else { panic!("{refused}") };
    assert_eq!(conflict.index.as_str(), "byEmail");
    // A key conflict is reported first.
    let refused = fixture.mutate(MutationKind::Insert, ("p", "1"), &email("x")).await;
    assert!(matches!(refused, Err(TableError::EntityAlreadyExists)));
    // Writing the same value again is no conflict, and a value that was given up is free.
    fixture.put(("p", "1"), &email("x")).await.unwrap();
    fixture.put(("p", "1"), &email("y")).await.unwrap();
    fixture.put(("q", "2"), &email("x")).await.unwrap();
    fixture.delete(("p", "1")).await;
    fixture.put(("q", "3"), &email("y")).await.unwrap();
    assert_eq!((fixture.stored(b'u').await, fixture.stored(b'i').await), (2, 2));
}

#[tokio::test]
async fn a_batch_is_judged_by_the_state_it_leaves() {
    // X-3.9: a swap is allowed; a conflict names its operation.
    let fixture = Fixture::quick().await;
    fixture.declare_and_build(&[index("byEmail", &["Email"], true)]).await;
    fn put(row: &str, email: &str) -> Mutation<'static> {
        let pairs = [("Email", Value::from(email.to_owned()))];
        mutation(MutationKind::InsertOrReplace, ("p", row), &pairs)
    }
    fixture.transact(vec![put("1", "x"), put("2", "y")]).await.unwrap();
    fixture.transact(vec![put("1", "y"), put("2", "x")]).await.unwrap();
    let failure = fixture.transact(vec![put("3", "z"), put("4", "w"), put("5", "z")]).await;
    let failure = failure.unwrap_err();
    assert_eq!(failure.index, 2);
    assert!(matches!(failure.error, TableError::IndexConflict(_)));
    let failure = fixture.transact(vec![put("3", "z"), put("4", "x")]).await.unwrap_err();
    assert_eq!(failure.index, 1);
    assert_eq!((fixture.stored(b'u').await, fixture.stored(b'e').await), (2, 2));
}

#[tokio::test]
async fn building_over_duplicates_fails_and_refuses_nothing() {
    // X-3.9.
    let fixture = Fixture::quick().await;
    for (row, value) in [("1", 1.0), ("2", 2.0), ("3", 1.0)] {
        fixture.put(("p", row), &[("N", Value::from(value))]).await.unwrap();
    }
    fixture.declare_and_build(&[index("byN", &["N"], true)]).await;
    let states = fixture.states().await;
    let [IndexState::Failed(reason)] = &states[..] else { panic!("{states:?}") };
    assert!(reason.contains("RowKey='1'") && reason.contains("RowKey='3'"), "{reason}");
    fixture.put(("p", "4"), &[("N", Value::from(2.0))]).await.unwrap();
    // Once they are gone, declaring it again builds it.
    fixture.delete(("p", "3")).await;
    fixture.delete(("p", "4")).await;
    fixture.declare_and_build(&[index("byN", &["N"], true)]).await;
    assert_eq!(fixture.states().await, [IndexState::Ready]);
    assert!(fixture.put(("p", "5"), &[("N", Value::Int32(2))]).await.is_err());
}

/// O-3.3, `lazuli_index_builds` and `lazuli_index_entries_total`.
#[tokio::test]
async fn builds_are_counted_by_how_they_end() {
    let fixture = Fixture::quick().await;
    for row in ["1", "2", "3"] {
        fixture.put(("p", row), &[("Colour", "red".to_owned().into())]).await.unwrap();
    }
    let counted = || {
        let families = fixture.service.report();
        let samples = families.into_iter().filter(|family| family.name.contains("_index_"));
        let values = samples.flat_map(|family| family.samples).map(|sample| match sample.value {
            Measured::Counter(number) | Measured::Gauge(number) => number,
            Measured::Histogram(_) => panic!("{sample:?}"),
        });
        values.collect::<Vec<_>>()
    };
    let indexes = [index("plain", &["Colour"], false), index("one", &["Colour"], true)];
    fixture.declare(&indexes).await;
    fixture.service.build_some().await.unwrap();
    assert_eq!(counted()[..3], [2.0, 0.0, 0.0], "building, ready, failed");
    fixture.build().await;
    assert_eq!(counted(), [0.0, 1.0, 1.0, 3.0]);
}

#[tokio::test]
async fn while_a_unique_index_is_built_it_refuses_the_values_it_knows() {
    // X-3.9: those of entities written since the declaration, or reached.
    let fixture = Fixture::quick().await;
    let number = |n: f64| [("N", Value::from(n))];
    fixture.put(("p", "old"), &number(1.0)).await.unwrap();
    fixture.declare(&[index("byN", &["N"], true)]).await;
    fixture.put(("p", "new"), &number(2.0)).await.unwrap();
    assert!(fixture.put(("p", "other"), &number(2.0)).await.is_err());
    // The old entity is not indexed yet; its twin is deleted before the build gets there.
    fixture.put(("p", "twin"), &number(1.0)).await.unwrap();
    fixture.delete(("p", "twin")).await;
    fixture.build().await;
    assert_eq!(fixture.states().await, [IndexState::Ready]);
    assert!(fixture.put(("p", "twin"), &number(1.0)).await.is_err());
    // Building that meets both fails.
    fixture.declare(&[]).await;
    fixture.declare(&[index("byN", &["N"], true)]).await;
    fixture.put(("p", "twin"), &number(1.0)).await.unwrap();
    fixture.build().await;
    let states = fixture.states().await;
    let [IndexState::Failed(reason)] = &states[..] else { panic!("{states:?}") };
    assert!(reason.contains("RowKey='old'") && reason.contains("RowKey='twin'"), "{reason}");
}

#[tokio::test]
async fn writes_go_on_while_an_index_is_built() {
    // X-3.8: an entity that changes between the builder's reading and its commit.
    let fixture = Fixture::quick().await;
    for row in 0..100 {
        fixture.put(("p", &format!("{row:03}")), &[("A", Value::Int32(row))]).await.unwrap();
    }
    fixture.declare(&[index("byA", &["A"], false)]).await;
    assert_eq!(fixture.states().await, [IndexState::Building]);
    // Counts, then reads; other clients write before the commit.
    fixture.service.build_some().await.unwrap();
    let elsewhere = fixture.clone();
    let service = fixture.elsewhere();
    let write = async move {
        let changed =
            mutation(MutationKind::InsertOrReplace, ("p", "050"), &[("A", Value::Int32(-1))]);
        service.mutate(&elsewhere.account, &elsewhere.table, &changed).await.unwrap();
        let gone = mutation(MutationKind::Delete(IfMatch::Any), ("p", "051"), &[]);
        service.mutate(&elsewhere.account, &elsewhere.table, &gone).await.unwrap();
    };
    fixture.engine.plan([Fault::After(Box::pin(write))]);
    fixture.build().await;
    let status = fixture.service.indexes(&fixture.account, &fixture.table).await.unwrap();
    assert_eq!((&status[0].state, status[0].done), (&IndexState::Ready, 99));
    assert_eq!(fixture.stored(b'i').await, 99);
    assert_eq!(fixture.pages(query(eq("A", 50))).await, []);
    assert_eq!(fixture.pages(query(eq("A", -1))).await.len(), 1);
}

#[tokio::test]
async fn steps_of_a_large_table_are_read_while_others_are_committed() {
    // X-3.8: changes of entities that are read but not yet committed, a lost answer, and duplicates in
    // different steps.
    const ROWS: i32 = 9_000;
    let fixture = Fixture::quick().await;
    let key = |row: i32| format!("{row:05}");
    for row in 0..ROWS {
        fixture.put(("p", &key(row)), &[("A", Value::Int32(row))]).await.unwrap();
    }
    let change = |row: i32| {
        let (other, service) = (fixture.clone(), fixture.elsewhere());
        let changed = [("A", Value::Int32(-row))];
        let changed = mutation(MutationKind::InsertOrReplace, ("p", &key(row)), &changed);
        Fault::After(Box::pin(async move {
            service.mutate(&other.account, &other.table, &changed).await.unwrap();
        }))
    };
    fixture.declare(&[index("byA", &["A"], true)]).await;
    fixture.service.build_some().await.unwrap();
    let before = fixture.engine.trips.load(Ordering::Relaxed);
    fixture.service.build_some().await.unwrap();
    let trips = fixture.engine.trips.load(Ordering::Relaxed) - before;
    assert_eq!(trips, 6, "a view, and five commits in one turn");
    fixture.build().await;
    assert_eq!(fixture.states().await, [IndexState::Ready]);
    fixture.declare(&[]).await;
    fixture.declare(&[index("byA", &["A"], true)]).await;
    fixture.service.build_some().await.unwrap();
    fixture.engine.plan([change(5_000), change(3_000), Fault::LoseAnswer, change(8_999)]);
    fixture.build().await;
    let status = fixture.service.indexes(&fixture.account, &fixture.table).await.unwrap();
    assert_eq!((&status[0].state, status[0].done), (&IndexState::Ready, ROWS as u64));
    assert_eq!(fixture.verify().await.found, []);
    for row in [3_000, 5_000, 8_999] {
        assert_eq!(fixture.pages(query(eq("A", row))).await, []);
        assert_eq!(fixture.pages(query(eq("A", -row))).await.len(), 1);
    }
    fixture.declare(&[]).await;
    fixture.put(("p", &key(7_000)), &[("A", Value::Int32(10))]).await.unwrap();
    fixture.declare_and_build(&[index("byA", &["A"], true)]).await;
    let states = fixture.states().await;
    let [IndexState::Failed(reason)] = &states[..] else { panic!("{states:?}") };
    assert!(reason.contains("RowKey='00010'") && reason.contains("RowKey='07000'"), "{reason}");
}

#[tokio::test]
async fn the_builder_waits_for_writes_that_do_not_know_the_index() {
    let fixture = Fixture::new().await;
    fixture.declare(&[index("byA", &["A"], false)]).await;
    for _ in 0..3 {
        assert_eq!(fixture.service.build_some().await.unwrap(), Reclaimed::Fully);
    }
    fixture.clock.advance_ms(60_000);
    // One more step, to see by the store's clock that the wait is over.
    fixture.service.build_some().await.unwrap();
    fixture.build().await;
    assert_eq!(fixture.states().await, [IndexState::Ready]);
}

/// X-3.8: the revisions of a store whose clock was set back grow by ticks until it has caught up.
#[tokio::test]
async fn building_begins_though_the_clock_of_the_store_was_set_back() {
    let fixture = Fixture::new().await;
    fixture.put(("p", "r"), &[("A", Value::Int32(1))]).await.unwrap();
    fixture.clock.set_back_ms(2 * 86_400_000);
    fixture.declare(&[index("byA", &["A"], false)]).await;
    let mut seconds = 0;
    while fixture.states().await == [IndexState::Building] {
        fixture.service.build_some().await.unwrap();
        fixture.clock.advance_ms(1_000);
        seconds += 1;
        assert!(seconds < 60, "it waits for the store's clock");
    }
    assert_eq!(fixture.states().await, [IndexState::Ready]);
    assert!(seconds > 40, "it waited {seconds} s");
}

#[tokio::test]
async fn a_lost_answer_changes_nothing_in_building() {
    // X-3.8: a crash at any step leaves a correct state.
    let fixture = Fixture::quick().await;
    for row in 0..10 {
        fixture.put(("p", &row.to_string()), &[("A", Value::Int32(row))]).await.unwrap();
    }
    fixture.engine.plan([Fault::LoseAnswer]);
    fixture.declare(&[index("byA", &["A"], true)]).await;
    fixture.engine.plan([
        Fault::LoseAnswer,
        Fault::LoseCommit,
        Fault::LoseAnswer,
        Fault::Conflict,
        Fault::LoseAnswer,
    ]);
    fixture.build().await;
    assert_eq!(fixture.states().await, [IndexState::Ready]);
    assert_eq!((fixture.stored(b'i').await, fixture.stored(b'u').await), (10, 10));
    assert_eq!(fixture.stored(b'b').await, 0);
}

#[tokio::test]
async fn a_dropped_index_gives_its_space_back() {
    // X-3.1, X-3.10.
    let fixture =
        Fixture::with_options(MemoryOptions { writers: Writers::Many, ..Default::default() }).await;
    let fixture = Fixture { service: fixture.service.clone().with_index_settles_ms(0), ..fixture };
    fixture.put(("p", "1"), &[("A", Value::Int32(1))]).await.unwrap();
    fixture.declare_and_build(&[index("byA", &["A"], true)]).await;
    fixture.declare(&[]).await;
    assert_eq!(fixture.states().await, []);
    fixture.put(("p", "1"), &[("A", Value::Int32(2))]).await.unwrap();
    fixture.reclaim().await;
    assert_eq!((fixture.stored(b'i').await, fixture.stored(b'u').await), (0, 0));
    // Declared again, it gets its own number and starts from nothing.
    fixture.declare_and_build(&[index("byA", &["A"], true)]).await;
    assert_eq!(fixture.pages(query(eq("A", 1))).await, []);
    fixture.service.delete_table(&fixture.account, &fixture.table).await.unwrap();
    fixture.reclaim().await;
    for kind in *b"eiubjrw" {
        assert_eq!(fixture.stored(kind).await, 0, "{}", kind as char);
    }
}

#[tokio::test]
async fn verification_finds_what_is_wrong_and_rebuilding_mends_it() {
    // X-3.12, X-1.5.
    let fixture = Fixture::quick().await;
    fixture.declare_and_build(&[index("byA", &["A"], true), index("byB", &["B"], false)]).await;
    for row in 0..4 {
        let pairs = [("A", Value::Int32(row)), ("B", Value::Int32(7))];
        fixture.put(("p", &row.to_string()), &pairs).await.unwrap();
    }
    let page = fixture.verify().await;
    assert_eq!((page.entities, page.entries, page.found.len()), (4, 8, 0));
    // Below the service: one entry and one entity are removed, one owner changes.
    let index = |number| lazuli_layout::IndexId { table: TableId(1), number };
    let int = |n| lazuli_model::ValueRef::Int32(n);
    let entry = |number, n, row: &str| {
        let value_bytes_max = lazuli_layout::key::index::INDEXED_BYTES_MAX;
        let entries = lazuli_layout::key::index::Entries { index: index(number), value_bytes_max };
        let mut key = entries.prefix([int(n)]);
        key.extend_from_slice(format!("p\0{row}").as_bytes());
        lazuli_engine::Key::from(key)
    };
    let entity = lazuli_layout::key::index::join_entity(TableId(1), b"p\x003");
    let owner = lazuli_layout::key::index::owner(index(0), [int(1)]).unwrap();
    let writes = vec![
        lazuli_engine::Write::Delete(entry(1, 7, "0")),
        lazuli_engine::Write::Delete(entity.into()),
        lazuli_engine::Write::Put(owner.into(), b"\x01p\x002".to_vec().into()),
    ];
    let now = lazuli_engine::Revision(fixture.clock.now().ticks());
    let commit = lazuli_engine::Commit::new(now, writes);
    lazuli_engine::Engine::commit(&*fixture.memory, commit).await.unwrap();
    let found = fixture.verify().await.found;
    let mut found: Vec<_> =
        found.iter().map(|d| (d.index.as_str(), d.row_key.as_str(), d.kind)).collect();
    found.sort_by_key(|(index, row, kind)| (*index, *row, kind.name()));
    assert_eq!(
        found,
        [
            ("byA", "1", DisagreementKind::NotOwner),
            ("byA", "2", DisagreementKind::Surplus),
            ("byA", "3", DisagreementKind::Surplus),
            ("byA", "3", DisagreementKind::Surplus),
            ("byB", "0", DisagreementKind::Missing),
            ("byB", "3", DisagreementKind::Surplus),
        ]
    );
    for name in ["byA", "BYB"] {
        let name = lazuli_model::IndexName::parse(name).unwrap();
        let (account, table) = (&fixture.account, &fixture.table);
        assert!(fixture.service.rebuild_index(account, table, &name).await.unwrap());
    }
    let unknown = lazuli_model::IndexName::parse("unknown").unwrap();
    let rebuilt = fixture.service.rebuild_index(&fixture.account, &fixture.table, &unknown).await;
    assert!(!rebuilt.unwrap());
    fixture.build().await;
    let page = fixture.verify().await;
    assert_eq!((page.entities, page.entries, page.found.len()), (3, 6, 0));
}

/// X-3.12: a token keeps its meaning when other indexes are dropped between two pages.
#[tokio::test]
async fn verification_goes_on_when_an_index_is_dropped() {
    let fixture = Fixture::quick().await;
    let indexes = [index("byA", &["A"], true), index("byB", &["B"], true)];
    fixture.declare_and_build(&indexes).await;
    for row in 0..300 {
        let pairs = [("A", Value::Int32(row)), ("B", Value::Int32(row))];
        fixture.put(("p", &format!("{row:03}")), &pairs).await.unwrap();
    }
    // Below the service, two more entries of the second index, at the end.
    let id = lazuli_layout::IndexId { table: TableId(1), number: 1 };
    let entry = [&id.entries().start[..], b"\x60zzz\0p\x00000"].concat();
    let owner = [&id.owners().start[..], &[0xFE; 32]].concat();
    let write =
        |key: Vec<u8>, value: &[u8]| lazuli_engine::Write::Put(key.into(), value.to_vec().into());
    let writes = vec![write(entry, &[1]), write(owner, b"\x01p\x00000")];
    let now = lazuli_engine::Revision(fixture.clock.now().ticks());
    lazuli_engine::Engine::commit(&*fixture.memory, lazuli_engine::Commit::new(now, writes))
        .await
        .unwrap();
    // A page takes one step.
    fixture.clock.advance_ms_per_look(5_001);
    let mut found = Vec::new();
    let mut from = None;
    let mut pages = 0;
    loop {
        let (account, table) = (&fixture.account, &fixture.table);
        let page = fixture.service.verify_indexes(account, table, from.take()).await.unwrap();
        found.extend(page.found);
        pages += 1;
        from = page.next;
        if from.is_none() {
            break;
        }
        if pages == 5 {
            // Among the owners of the first index.
            fixture.declare(&indexes[1..]).await;
        }
    }
    assert_eq!((found.len(), pages), (2, 9), "{found:?}");
    assert!(found.iter().all(|found| found.kind == DisagreementKind::Surplus));
}

/// X-3.7 on the memory engine; the crates of the other engines run it too.
#[test]
fn an_index_changes_no_answer() {
    an_index_changes_no_answer_on(&|| store(Writers::Many), 192);
}
