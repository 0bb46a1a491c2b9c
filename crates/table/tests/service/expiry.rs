//! Expiry: which entities are gone, what may replace them, and how their space is reclaimed.

use crate::fixture::{Fixture, mutation, store};
use lazuli_engine::{Reclaimed, Writers};
use lazuli_model::{
    Clock, ETag, EntityKey, Expiry, Feed, FeedRetention, IfMatch, Images, IndexDefinition,
    IndexDefinitions, Value,
};
use lazuli_table::{After, Batch, EntityQuery, EntityRef, IndexState, MutationKind, TableError};
use lazuli_testkit::expiry_histories;

const SECOND_MS: u64 = 1000;
/// Commits at a clock that stands still have revisions some ticks after it: entities expire that much later.
const TICKS_MS: u64 = 1;

impl Fixture {
    async fn expiring(expiry: Expiry) -> Self {
        let fixture = Self::new().await;
        let fixture = Self { service: fixture.service.clone().with_index_settles_ms(0), ..fixture };
        fixture.expire_by(expiry).await;
        fixture
    }

    async fn expire_by(&self, expiry: Expiry) {
        self.service.set_expiry(&self.account, &self.table, &expiry).await.unwrap();
    }

    async fn record_both(&self) {
        let feed = Feed { images: Images::Both, retention: FeedRetention::DEFAULT };
        self.service.set_feed(&self.account, &self.table, feed).await.unwrap();
    }

    async fn rows(&self) -> String {
        let mut rows = Vec::new();
        let mut sink = |entity: EntityRef<'_>| rows.push(entity.row_key.to_owned());
        let query = EntityQuery::default();
        self.service.query(&self.account, &self.table, query, &mut sink).await.unwrap();
        rows.join(" ")
    }

    async fn has(&self, row: &str) -> bool {
        let key = EntityKey::parse("p", row).unwrap();
        match self.service.get(&self.account, &self.table, &key).await {
            Ok(_) => true,
            Err(TableError::EntityNotFound) => false,
            Err(error) => panic!("{error}"),
        }
    }

    async fn operations(&self) -> Vec<String> {
        let page = self.service.changes(&self.account, &self.table, After::Oldest).await.unwrap();
        let show = |stored: &lazuli_table::StoredChange| {
            let change = stored.decode().unwrap();
            format!("{} {}", change.operation.name(), change.row_key)
        };
        page.changes.iter().map(show).collect()
    }

    async fn sweep_all(&self) {
        while self.service.sweep_some().await.unwrap() == Reclaimed::Partly {}
    }

    async fn build_all(&self) {
        while self.service.build_some().await.unwrap() == Reclaimed::Partly {}
    }

    async fn disagreement_count(&self) -> usize {
        let page = self.service.verify_indexes(&self.account, &self.table, None).await.unwrap();
        page.found.len()
    }
}

/// X-7.2: from its moment on an entity is gone for every read and condition.
#[tokio::test]
async fn an_expired_entity_is_gone_at_once() {
    let fixture = Fixture::expiring(Expiry::Seconds(10)).await;
    fixture.insert("p", "1").await;
    fixture.clock.advance_ms(5 * SECOND_MS);
    let written = fixture.insert("p", "2").await;
    fixture.clock.advance_ms(5 * SECOND_MS - 1);
    assert!(fixture.has("1").await);
    fixture.clock.advance_ms(1 + TICKS_MS);
    assert_eq!((fixture.has("1").await, fixture.rows().await.as_str()), (false, "2"));
    let mutate = |kind| fixture.mutate(kind, ("p", "1"), &[]);
    for kind in [
        MutationKind::Replace(IfMatch::Any),
        MutationKind::Merge(IfMatch::Any),
        MutationKind::Delete(IfMatch::Any),
    ] {
        assert!(matches!(mutate(kind).await, Err(TableError::EntityNotFound)), "{kind:?}");
    }
    // Conditions on other entities are unaffected.
    let stale = IfMatch::Version(ETag(lazuli_model::Timestamp::UNIX_EPOCH));
    let refused = fixture.mutate(MutationKind::Merge(stale), ("p", "2"), &[]).await;
    assert!(matches!(refused, Err(TableError::ConditionNotMet)));
    let refused = fixture.mutate(MutationKind::Insert, ("p", "2"), &[]).await;
    assert!(matches!(refused, Err(TableError::EntityAlreadyExists)));
    let current = IfMatch::Version(ETag(written));
    fixture.mutate(MutationKind::Merge(current), ("p", "2"), &[]).await.unwrap();
    // A write starts a new life.
    fixture.insert("p", "1").await;
    assert_eq!(fixture.rows().await, "1 2");
}

/// X-7.2: a merge into an expired entity starts from nothing.
#[tokio::test]
async fn a_merge_does_not_bring_back_properties() {
    let fixture = Fixture::expiring(Expiry::Seconds(10)).await;
    fixture.mutate(MutationKind::Insert, ("p", "1"), &[("A", Value::from(1))]).await.unwrap();
    fixture.clock.advance_ms(11 * SECOND_MS);
    let pairs = [("B", Value::from(2))];
    fixture.mutate(MutationKind::InsertOrMerge, ("p", "1"), &pairs).await.unwrap();
    assert_eq!(fixture.properties("p", "1").await.unwrap(), "B=Int32(2)");
}

/// X-7.1: expiry by a property, and its types.
#[tokio::test]
async fn entities_expire_by_a_property() {
    let fixture = Fixture::expiring(Expiry::Property("At".into())).await;
    let soon = fixture.clock.now().plus_seconds(20);
    for (row, value) in [
        ("date", Value::from(soon)),
        ("int32", Value::from(30_i32)),
        ("int64", Value::from(40_i64)),
        ("text", Value::from("1")),
        ("over", Value::from(0_i32)),
    ] {
        fixture.mutate(MutationKind::Insert, ("p", row), &[("At", value)]).await.unwrap();
    }
    fixture.insert("p", "none").await;
    fixture.clock.advance_ms(TICKS_MS);
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(fixture.rows().await);
        fixture.clock.advance_ms(10 * SECOND_MS);
    }
    let expect = [
        "date int32 int64 none text",
        "date int32 int64 none text",
        "int32 int64 none text",
        "int64 none text",
        "none text",
    ];
    assert_eq!(seen, expect);
    fixture.sweep_all().await;
    assert_eq!((fixture.stored(b'e').await, fixture.stored(b'x').await), (2, 0));
    assert_eq!(fixture.disagreement_count().await, 0);
}

/// X-7.3: the sweeper deletes expired entities, records the deletions, and leaves new lives alone.
#[tokio::test]
async fn the_sweeper_gives_the_space_back() {
    let fixture = Fixture::expiring(Expiry::Seconds(10)).await;
    fixture.record_both().await;
    for row in 0..100 {
        fixture.insert("p", &format!("{row:03}")).await;
    }
    fixture.clock.advance_ms(9 * SECOND_MS);
    fixture.mutate(MutationKind::Merge(IfMatch::Any), ("p", "050"), &[]).await.unwrap();
    fixture.sweep_all().await;
    assert_eq!(fixture.stored(b'e').await, 100);
    fixture.clock.advance_ms(2 * SECOND_MS);
    fixture.sweep_all().await;
    assert_eq!((fixture.stored(b'e').await, fixture.rows().await.as_str()), (1, "050"));
    let operations = fixture.operations().await;
    assert_eq!(operations.iter().filter(|change| change.starts_with("expire")).count(), 99);
    assert_eq!(fixture.disagreement_count().await, 0);
    fixture.clock.advance_ms(60 * SECOND_MS);
    fixture.sweep_all().await;
    assert_eq!((fixture.stored(b'e').await, fixture.stored(b'x').await), (0, 0));
}

/// X-7.3: an insert over an expired entity first records its end, in the same commit.
#[tokio::test]
async fn an_insert_over_an_expired_entity_records_its_end() {
    let fixture = Fixture::expiring(Expiry::Seconds(10)).await;
    fixture.record_both().await;
    fixture.mutate(MutationKind::Insert, ("p", "1"), &[("A", Value::from(1))]).await.unwrap();
    fixture.clock.advance_ms(20 * SECOND_MS);
    fixture.mutate(MutationKind::InsertOrReplace, ("p", "1"), &[]).await.unwrap();
    let page = fixture.service.changes(&fixture.account, &fixture.table, After::Oldest).await;
    let page = page.unwrap();
    assert_eq!(fixture.operations().await, ["insert 1", "expire 1", "insert 1"]);
    let [_, expire, insert] = page.changes.as_slice() else { panic!("{page:?}") };
    let (expire, insert) = (expire.decode().unwrap(), insert.decode().unwrap());
    assert_eq!(expire.revision, insert.revision);
    assert_eq!(expire.old.unwrap().properties.len(), 1);
    assert!(insert.old.is_none());
    fixture.sweep_all().await;
    assert!(fixture.has("1").await);
}

/// X-3.9: the unique values of expired entities are free.
#[tokio::test]
async fn unique_values_of_expired_entities_are_free() {
    let fixture = Fixture::expiring(Expiry::Seconds(10)).await;
    let index = IndexDefinition::new("byA", &["A"], true).unwrap();
    let indexes = IndexDefinitions::new(vec![index]).unwrap();
    fixture.service.declare_indexes(&fixture.account, &fixture.table, &indexes).await.unwrap();
    fixture.build_all().await;
    let a = [("A", Value::from(1))];
    fixture.mutate(MutationKind::Insert, ("p", "1"), &a).await.unwrap();
    let refused = fixture.mutate(MutationKind::Insert, ("p", "2"), &a).await;
    assert!(matches!(refused, Err(TableError::IndexConflict(_))));
    fixture.clock.advance_ms(10 * SECOND_MS + TICKS_MS);
    fixture.mutate(MutationKind::Insert, ("p", "2"), &a).await.unwrap();
    assert_eq!(fixture.rows().await, "2");
    assert_eq!(fixture.disagreement_count().await, 0);
}

/// X-3.9: nor do they prevent a unique index from being built.
#[tokio::test]
async fn expired_duplicates_do_not_fail_an_index() {
    let fixture = Fixture::expiring(Expiry::Seconds(10)).await;
    let a = [("A", Value::from(1))];
    fixture.mutate(MutationKind::Insert, ("p", "1"), &a).await.unwrap();
    fixture.clock.advance_ms(10 * SECOND_MS + TICKS_MS);
    fixture.mutate(MutationKind::Insert, ("p", "2"), &a).await.unwrap();
    let index = IndexDefinition::new("byA", &["A"], true).unwrap();
    let indexes = IndexDefinitions::new(vec![index]).unwrap();
    fixture.service.declare_indexes(&fixture.account, &fixture.table, &indexes).await.unwrap();
    fixture.build_all().await;
    let states = fixture.service.indexes(&fixture.account, &fixture.table).await.unwrap();
    assert_eq!(states[0].state, IndexState::Ready);
}

/// X-7.1: the setting applies to entities written before, and lengthening it restores what is not yet swept.
#[tokio::test]
async fn the_setting_in_force_judges() {
    let fixture = Fixture::new().await;
    let fixture = Fixture { service: fixture.service.clone().with_index_settles_ms(0), ..fixture };
    let (account, table) = (&fixture.account, &fixture.table);
    assert!(matches!(fixture.service.expiry(account, table).await, Err(TableError::NoExpiry)));
    fixture.insert("p", "1").await;
    fixture.clock.advance_ms(100 * SECOND_MS);
    fixture.insert("p", "2").await;
    fixture.expire_by(Expiry::Seconds(50)).await;
    assert_eq!(fixture.rows().await, "2");
    fixture.expire_by(Expiry::Seconds(1000)).await;
    assert_eq!(fixture.rows().await, "1 2");
    fixture.service.drop_expiry(account, table).await.unwrap();
    fixture.clock.advance_ms(2000 * SECOND_MS);
    assert_eq!(fixture.rows().await, "1 2");
    fixture.expire_by(Expiry::Seconds(2050)).await;
    assert_eq!(fixture.rows().await, "2");
    // Entities written before are swept when their moments are indexed.
    fixture.build_all().await;
    assert_eq!(fixture.disagreement_count().await, 0);
    fixture.sweep_all().await;
    assert_eq!(fixture.stored(b'e').await, 1);
    fixture.service.drop_expiry(account, table).await.unwrap();
    fixture.reclaim_all().await;
    for kind in *b"xybj" {
        assert_eq!(fixture.stored(kind).await, 0, "{}", kind as char);
    }
}

/// X-4.5: a snapshot is judged at its own moment.
#[tokio::test]
async fn a_snapshot_shows_what_had_not_expired_then() {
    let fixture = Fixture::expiring(Expiry::Seconds(10)).await;
    fixture.insert("p", "1").await;
    let snapshot = fixture.service.snapshot().await.unwrap();
    fixture.clock.advance_ms(20 * SECOND_MS);
    let key = EntityKey::parse("p", "1").unwrap();
    let (account, table) = (&fixture.account, &fixture.table);
    fixture.service.get_at(&snapshot, account, table, &key).await.unwrap();
    assert!(!fixture.has("1").await);
}

/// X-7.2: a batch is judged as a whole, and names the operation that fails.
#[tokio::test]
async fn a_batch_names_what_is_expired() {
    let fixture = Fixture::expiring(Expiry::Seconds(10)).await;
    fixture.insert("p", "1").await;
    fixture.clock.advance_ms(10 * SECOND_MS + TICKS_MS);
    let merge = MutationKind::Merge(IfMatch::Any);
    let operations = vec![
        (fixture.table.clone(), mutation(MutationKind::Insert, ("p", "2"), &[])),
        (fixture.table.clone(), mutation(merge, ("p", "1"), &[])),
    ];
    let batch = Batch::new(operations).unwrap();
    let failure = fixture.service.transact(&fixture.account, &batch).await.unwrap_err();
    assert!(matches!((failure.index, failure.error), (1, TableError::EntityNotFound)));
    assert_eq!(fixture.rows().await, "");
}

/// X-7: random histories agree with a model.
#[test]
fn expired_entities_do_not_exist() {
    for writers in [Writers::Sole, Writers::Many] {
        expiry_histories::expired_entities_do_not_exist(&|| store(writers), 64);
    }
}

/// X-7.3: a table that cannot be swept does not block others.
#[tokio::test]
async fn a_table_that_cannot_be_swept_holds_up_no_other() {
    let fixture = Fixture::expiring(Expiry::Seconds(10)).await;
    let key = lazuli_layout::key::index::join_entity(lazuli_layout::TableId(1), b"p\0corrupt");
    fixture.insert("p", "corrupt").await;
    let other =
        Fixture { table: lazuli_model::TableName::parse("Other").unwrap(), ..fixture.clone() };
    other.service.create_table(&other.account, &other.table).await.unwrap();
    other.expire_by(Expiry::Seconds(10)).await;
    other.insert("p", "r").await;
    let write = lazuli_engine::Write::Put(key.into(), vec![0xFF; 3].into());
    let now = lazuli_engine::Revision(fixture.clock.now().ticks());
    let commit = lazuli_engine::Commit::new(now, vec![write]);
    lazuli_engine::Engine::commit(&*fixture.memory, commit).await.unwrap();
    fixture.clock.advance_ms(60 * SECOND_MS);
    assert_eq!(fixture.service.sweep_some().await.unwrap(), Reclaimed::Partly);
    assert_eq!(fixture.stored(b'e').await, 1);
    // With nothing else to do, the error is returned.
    let told = fixture.service.sweep_some().await;
    assert!(matches!(told, Err(TableError::Corrupt(_))), "{told:?}");
}
