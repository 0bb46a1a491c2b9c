//! Builds that meet duplicates, or errors of the store.

use super::{index, query};
use crate::fixture::{Fault, Fixture, mutation};
use lazuli_engine::Reclaimed;
use lazuli_layout::TableId;
use lazuli_layout::key::index::join_entity;
use lazuli_model::{Clock, Expiry, IfMatch, IndexDefinitions, TableName, Value};
use lazuli_table::{IndexState, IndexStatus, MutationKind, TableError};

/// More entities than one step reads.
const ROWS: usize = 2_500;

fn row(number: usize) -> String {
    format!("{number:05}")
}

impl Fixture {
    /// Entities without properties, whose row keys lie between those of others.
    async fn fill(&self, rows: std::ops::Range<usize>) {
        for number in rows {
            self.put(("p", &row(number)), &[]).await.unwrap();
        }
    }

    async fn statuses(&self, table: &TableName) -> Vec<IndexStatus> {
        self.service.indexes(&self.account, table).await.unwrap()
    }

    /// Another table, with one entity and an index on `A` to be built.
    async fn other_table(&self, name: &str) -> TableName {
        let table = TableName::parse(name).unwrap();
        self.service.create_table(&self.account, &table).await.unwrap();
        let put = mutation(MutationKind::Insert, ("p", "r"), &[("A", Value::Int32(1))]);
        self.service.mutate(&self.account, &table, &put).await.unwrap();
        let indexes = IndexDefinitions::new(vec![index("byA", &["A"], false)]).unwrap();
        self.service.declare_indexes(&self.account, &table, &indexes).await.unwrap();
        table
    }

    async fn expire_by_property(&self, property: &str) {
        let expiry = Expiry::Property(property.into());
        self.service.set_expiry(&self.account, &self.table, &expiry).await.unwrap();
        self.build().await;
    }

    fn moment(&self, seconds: u64) -> Value<'static> {
        Value::DateTime(self.clock.now().plus_seconds(seconds))
    }
}

/// X-3.9: the two are in different steps, and few entities have the property.
#[tokio::test]
async fn duplicates_of_different_steps_are_named() {
    let fixture = Fixture::quick().await;
    let one = [("N", Value::Int32(1))];
    fixture.put(("p", "first"), &one).await.unwrap();
    fixture.put(("a", "before"), &one).await.unwrap();
    fixture.delete(("p", "first")).await;
    fixture.fill(0..ROWS).await;
    fixture.put(("p", "last"), &one).await.unwrap();
    fixture.declare_and_build(&[index("byN", &["N"], true)]).await;
    let states = fixture.states().await;
    let [IndexState::Failed(reason)] = &states[..] else { panic!("{states:?}") };
    assert!(reason.contains("RowKey='before'") && reason.contains("RowKey='last'"), "{reason}");
}

/// X-3.9: the first few are named.
#[tokio::test]
async fn more_than_one_pair_of_duplicates_is_named() {
    let fixture = Fixture::quick().await;
    for number in 0..20 {
        let pairs = [("N", Value::Int32(number / 2))];
        fixture.put(("p", &row(number as usize)), &pairs).await.unwrap();
    }
    fixture.put(("p", "00017"), &[("N", Value::Int32(0))]).await.unwrap();
    fixture.declare_and_build(&[index("byN", &["N"], true)]).await;
    let states = fixture.states().await;
    let [IndexState::Failed(reason)] = &states[..] else { panic!("{states:?}") };
    assert!((0..6).all(|number| reason.contains(&row(number))), "{reason}");
    assert_eq!(reason.split("; ").count(), 3, "{reason}");
}

/// X-3.9: the builder read both from an older snapshot, and one has been deleted since.
#[tokio::test]
async fn duplicates_that_are_gone_fail_no_build() {
    let fixture = Fixture::quick().await;
    fixture.fill(0..ROWS).await;
    for number in [ROWS - 10, ROWS - 5] {
        fixture.put(("p", &row(number)), &[("N", Value::Int32(1))]).await.unwrap();
    }
    fixture.declare(&[index("byN", &["N"], true)]).await;
    // Counts.
    fixture.service.build_some().await.unwrap();
    let (other, service) = (fixture.clone(), fixture.elsewhere());
    let first = Fault::After(Box::pin(async move {
        let gone = row(ROWS - 5);
        let gone = mutation(MutationKind::Delete(IfMatch::Any), ("p", &gone), &[]);
        service.mutate(&other.account, &other.table, &gone).await.unwrap();
    }));
    fixture.engine.plan([first]);
    fixture.build().await;
    assert_eq!(fixture.states().await, [IndexState::Ready]);
    assert_eq!(fixture.stored(b'u').await, 1);
}

/// X-3.9: the values of expired entities are free, in one step or in several.
#[tokio::test]
async fn expired_owners_fail_no_build() {
    let fixture = Fixture::quick().await;
    fixture.expire_by_property("At").await;
    let number = |n: i32| ("N", Value::Int32(n));
    fixture.put(("a", "expired"), &[number(1), ("At", fixture.moment(5))]).await.unwrap();
    fixture.put(("a", "near"), &[number(2), ("At", fixture.moment(5))]).await.unwrap();
    fixture.put(("a", "nearer"), &[number(2)]).await.unwrap();
    fixture.fill(0..ROWS).await;
    fixture.put(("p", "last"), &[number(1)]).await.unwrap();
    fixture.put(("p", "last expired"), &[number(3), ("At", fixture.moment(5))]).await.unwrap();
    fixture.put(("p", "last of all"), &[number(3)]).await.unwrap();
    fixture.clock.advance_ms(6_000);
    fixture.declare_and_build(&[index("byN", &["N"], true)]).await;
    assert_eq!(fixture.states().await, [IndexState::Ready]);
    let page = fixture.verify().await;
    assert_eq!((page.found.len(), fixture.stored(b'u').await), (0, 3));
    let taken = fixture.put(("q", "r"), &[number(3)]).await;
    assert!(matches!(taken, Err(TableError::IndexConflict(_))), "{taken:?}");
}

/// X-3.8: an error of the store delays one build, which says so, and no other.
#[tokio::test]
async fn a_build_that_fails_waits_and_others_go_on() {
    let fixture = Fixture::quick().await;
    fixture.put(("p", "r"), &[("A", Value::Int32(1))]).await.unwrap();
    fixture.declare(&[index("byA", &["A"], false)]).await;
    let other = fixture.other_table("Other").await;
    fixture.engine.plan([Fault::Busy]);
    fixture.build().await;
    let statuses = fixture.statuses(&fixture.table).await;
    assert_eq!(statuses[0].state, IndexState::Building);
    assert_eq!(statuses[0].trouble.as_deref(), Some("the service is busy"));
    assert_eq!(fixture.statuses(&other).await[0].state, IndexState::Ready);
    let troubles = fixture.service.new_build_troubles();
    assert_eq!((troubles.len(), troubles[0].table.as_str()), (1, "Orders"));
    assert_eq!(fixture.service.new_build_troubles(), []);
    fixture.build().await;
    assert_eq!(fixture.statuses(&fixture.table).await[0].state, IndexState::Building);
    fixture.clock.advance_ms(1_000);
    // It waits longer after a second failure, and reports the same error only once.
    fixture.engine.plan([Fault::Busy]);
    fixture.build().await;
    fixture.clock.advance_ms(1_000);
    fixture.build().await;
    assert_eq!(fixture.statuses(&fixture.table).await[0].state, IndexState::Building);
    assert_eq!(fixture.service.new_build_troubles(), []);
    fixture.clock.advance_ms(1_000);
    fixture.build().await;
    let statuses = fixture.statuses(&fixture.table).await;
    assert_eq!((&statuses[0].state, &statuses[0].trouble), (&IndexState::Ready, &None));
    assert_eq!(fixture.pages(query(super::eq("A", 1))).await.len(), 1);
}

/// X-3.8: however many builds wait, those after them get their turn.
#[tokio::test]
async fn many_builds_that_wait_hold_up_no_other() {
    let fixture = Fixture::quick().await;
    let indexes: Vec<_> =
        (0..16).map(|number| index(&format!("by{number}x"), &["A"], false)).collect();
    fixture.declare(&indexes).await;
    let other = fixture.other_table("Other").await;
    // The record that says why is also lost.
    fixture.engine.plan((0..16).flat_map(|_| [Fault::Busy, Fault::Conflict]));
    fixture.build().await;
    assert!(fixture.states().await.iter().all(|state| *state == IndexState::Building));
    assert_eq!(fixture.statuses(&other).await[0].state, IndexState::Ready);
    fixture.clock.advance_ms(1_000);
    fixture.build().await;
    assert!(fixture.states().await.iter().all(|state| *state == IndexState::Ready));
}

/// X-3.8: a lasting error ends the build.
#[tokio::test]
async fn a_corrupt_entity_fails_its_indexes_alone() {
    let fixture = Fixture::quick().await;
    fixture.put(("p", "r"), &[("A", Value::Int32(1))]).await.unwrap();
    let corrupt = join_entity(TableId(1), b"p\0corrupt");
    let write = lazuli_engine::Write::Put(corrupt.into(), vec![0xFF; 3].into());
    let now = lazuli_engine::Revision(fixture.clock.now().ticks());
    let commit = lazuli_engine::Commit::new(now, vec![write]);
    lazuli_engine::Engine::commit(&*fixture.memory, commit).await.unwrap();
    fixture.declare(&[index("byA", &["A"], false)]).await;
    let other = fixture.other_table("Other").await;
    fixture.build().await;
    let states = fixture.states().await;
    let [IndexState::Failed(reason)] = &states[..] else { panic!("{states:?}") };
    assert!(reason.contains("corrupt"), "{reason}");
    assert_eq!(fixture.statuses(&other).await[0].state, IndexState::Ready);
    assert_eq!(fixture.stored(b'b').await, 0);
}

/// A record that makes no sense does not block other builds.
#[tokio::test]
async fn a_corrupt_record_of_a_build_holds_up_no_other() {
    let fixture = Fixture::quick().await;
    let build = lazuli_layout::IndexId { table: TableId(1), number: 0 }.build();
    fixture.declare(&[index("byA", &["A"], false)]).await;
    let write = lazuli_engine::Write::Put(build.into(), vec![0xFF; 3].into());
    let now = lazuli_engine::Revision(fixture.clock.now().ticks());
    let commit = lazuli_engine::Commit::new(now, vec![write]);
    lazuli_engine::Engine::commit(&*fixture.memory, commit).await.unwrap();
    let other = fixture.other_table("Other").await;
    assert_eq!(fixture.service.build_some().await.unwrap(), Reclaimed::Partly);
    fixture.build().await;
    assert_eq!(fixture.statuses(&other).await[0].state, IndexState::Ready);
    assert_eq!(fixture.service.new_build_troubles().len(), 1);
}
