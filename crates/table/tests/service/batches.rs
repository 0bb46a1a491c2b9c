//! Entity group transactions: the rules of a batch, and all or nothing.

use crate::fixture::{Fixture, mutation, store, version};
use lazuli_engine::Writers;
use lazuli_model::{IfMatch, TableName, Timestamp, Value};
use lazuli_table::MutationKind::{self, Delete, Insert, InsertOrMerge, InsertOrReplace};
use lazuli_table::MutationKind::{Merge, Replace};
use lazuli_table::{Batch, BatchFailure, Mutation, TableError};
use lazuli_testkit::message_histories;

fn operation(table: &str, partition: &str, row: &str) -> (TableName, Mutation<'static>) {
    let table = TableName::parse(table).unwrap();
    (table, mutation(InsertOrReplace, (partition, row), &[]))
}

/// The index and the kind of the failure.
fn failure<T>(result: Result<T, BatchFailure>) -> Option<(usize, String)> {
    let failure = result.err()?;
    Some((failure.index, format!("{:?}", failure.error)))
}

/// Checks which operation, given as (table, partition, row), breaks which rule.
#[track_caller]
fn check(operations: &[(&str, &str, &str)], expect: Option<(usize, &str)>) {
    let operations = operations.iter().map(|(t, p, r)| operation(t, p, r)).collect();
    let expect = expect.map(|(index, error)| (index, error.to_owned()));
    assert_eq!(failure(Batch::new(operations)), expect);
}

#[test]
fn a_batch_is_of_one_table_and_one_partition_and_names_no_row_twice() {
    check(&[("abc", "p", "1"), ("ABC", "p", "2")], None);
    check(&[], Some((0, "EmptyBatch")));
    check(&[("abc", "p", "1"), ("abd", "p", "1")], Some((1, "DifferentTable")));
    check(&[("abc", "p", "1"), ("abc", "q", "1")], Some((1, "DifferentPartition")));
    check(&[("abc", "p", "1"), ("abc", "p", "2"), ("abc", "p", "1")], Some((2, "DuplicateRow")));
}

#[tokio::test]
async fn a_batch_across_partitions_keeps_the_other_rules_and_is_one_commit() {
    let across = |operations: &[(&str, &str, &str)]| {
        Batch::across_partitions(operations.iter().map(|(t, p, r)| operation(t, p, r)).collect())
    };
    assert_eq!(failure(across(&[("abc", "p", "1"), ("abc", "q", "1")])), None);
    let twice = across(&[("abc", "p", "1"), ("abc", "q", "1"), ("abc", "q", "1")]);
    assert_eq!(failure(twice), Some((2, "DuplicateRow".to_owned())));
    let tables = across(&[("abc", "p", "1"), ("abd", "q", "1")]);
    assert_eq!(failure(tables), Some((1, "DifferentTable".to_owned())));

    let fixture = Fixture::new().await;
    fixture.insert("q", "1").await;
    let table = || TableName::parse("Orders").unwrap();
    let operations = vec![
        (table(), mutation(Insert, ("p", "1"), &[])),
        (table(), mutation(Insert, ("q", "1"), &[])),
    ];
    let batch = Batch::across_partitions(operations).unwrap();
    let outcome = fixture.service.transact(&fixture.account, &batch).await;
    assert_eq!(failure(outcome), Some((1, "EntityAlreadyExists".to_owned())));
    assert_eq!(fixture.properties("p", "1").await, None);
}

#[test]
fn the_first_operation_that_breaks_a_rule_is_to_blame() {
    let first = ("abc", "p", "1");
    check(&[first, ("abc", "q", "2"), first], Some((1, "DifferentPartition")));
    check(&[first, first, ("abc", "q", "2")], Some((1, "DuplicateRow")));
}

#[test]
fn the_hundredth_operation_is_to_blame_for_a_surplus() {
    let rows: Vec<String> = (0..150).map(|i| i.to_string()).collect();
    let all: Vec<_> = rows.iter().map(|row| ("abc", "p", row.as_str())).collect();
    check(&all[..100], None);
    check(&all[..101], Some((99, "TooManyOperations")));
    check(&all, Some((99, "TooManyOperations")));
    let mut early = all.clone();
    early[50] = ("abc", "q", "50");
    check(&early, Some((50, "DifferentPartition")));
    let mut late = all;
    late[120] = ("abc", "q", "120");
    check(&late, Some((99, "TooManyOperations")));
}

#[tokio::test]
async fn a_batch_applies_every_kind_with_one_timestamp() {
    let fixture = Fixture::new().await;
    for row in ["replace", "merge", "delete", "upsert"] {
        let x = [("x", Value::Int32(1))];
        fixture.mutate(Insert, ("p", row), &x).await.unwrap();
    }
    let at = fixture.timestamp("p", "merge").await;
    let y = [("y", Value::Int32(2))];
    let kinds = [
        ("insert", Insert),
        ("replace", Replace(IfMatch::Any)),
        ("merge", Merge(version(at))),
        ("delete", Delete(IfMatch::Any)),
        ("upsert", InsertOrMerge),
        ("new", InsertOrReplace),
    ];
    let mutations = kinds.map(|(row, kind)| mutation(kind, ("p", row), &y));
    let timestamp = fixture.transact(mutations.into()).await.unwrap();
    let expect = [
        ("insert", Some("y=Int32(2)")),
        ("replace", Some("y=Int32(2)")),
        ("merge", Some("x=Int32(1) y=Int32(2)")),
        ("delete", None),
        ("upsert", Some("x=Int32(1) y=Int32(2)")),
        ("new", Some("y=Int32(2)")),
    ];
    for (row, properties) in expect {
        assert_eq!(fixture.properties("p", row).await.as_deref(), properties, "{row}");
        if properties.is_some() {
            assert_eq!(fixture.timestamp("p", row).await, timestamp, "{row}");
        }
    }
}

/// Puts `kind` on row `row` between operations that would succeed, and checks that the batch fails
/// there and leaves nothing behind. TR-67, TR-68.
async fn check_failing(kind: MutationKind, row: &str, error: &str) {
    let fixture = Fixture::new().await;
    fixture.insert("p", "there").await;
    fixture.insert("p", "changed").await;
    let before = fixture.timestamp("p", "changed").await;
    let x = [("x", Value::Int32(1))];
    let batch = vec![
        mutation(InsertOrReplace, ("p", "changed"), &x),
        mutation(Insert, ("p", "first"), &x),
        mutation(kind, ("p", row), &x),
        mutation(Insert, ("p", "last"), &x),
    ];
    assert_eq!(failure(fixture.transact(batch).await), Some((2, error.to_owned())));
    assert_eq!(fixture.timestamp("p", "changed").await, before);
    for row in ["first", "last"] {
        assert_eq!(fixture.properties("p", row).await, None, "{row}");
    }
}

#[tokio::test]
async fn a_failing_operation_undoes_the_batch_and_is_named() {
    let other = version(Timestamp::UNIX_EPOCH);
    check_failing(Insert, "there", "EntityAlreadyExists").await;
    check_failing(Replace(IfMatch::Any), "gone", "EntityNotFound").await;
    check_failing(Merge(other), "gone", "EntityNotFound").await;
    check_failing(Merge(other), "there", "ConditionNotMet").await;
    check_failing(Delete(other), "there", "ConditionNotMet").await;
    check_failing(Delete(IfMatch::Any), "gone", "EntityNotFound").await;
}

#[tokio::test]
async fn an_operation_without_a_check_can_be_named_too() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (0..252).map(|i| format!("p{i}")).collect();
    let full: Vec<_> = names.iter().map(|name| (name.as_str(), Value::Int32(1))).collect();
    fixture.mutate(Insert, ("p", "full"), &full).await.unwrap();
    let batch = vec![
        mutation(InsertOrReplace, ("p", "a"), &[]),
        mutation(InsertOrMerge, ("p", "full"), &[("more", Value::Int32(1))]),
    ];
    let expect = Some((1, "Entity(TooManyProperties)".to_owned()));
    assert_eq!(failure(fixture.transact(batch).await), expect);
    assert_eq!(fixture.properties("p", "a").await, None);
}

#[tokio::test]
async fn a_missing_table_is_blamed_on_the_first_operation() {
    let fixture = Fixture::new().await;
    let operations = vec![operation("missing", "p", "1"), operation("missing", "p", "2")];
    let batch = Batch::new(operations).unwrap();
    assert_eq!((batch.table().as_str(), batch.mutations().len()), ("missing", 2));
    let result = fixture.service.transact(&fixture.account, &batch).await;
    assert!(matches!(result, Err(BatchFailure { index: 0, error: TableError::TableNotFound })));
}

#[tokio::test]
async fn a_hundred_large_operations_fit() {
    let fixture = Fixture::new().await;
    let text = "x".repeat(20_000);
    let rows: Vec<String> = (0..100).map(|i| i.to_string()).collect();
    let batch = rows
        .iter()
        .map(|row| {
            mutation(
                Insert,
                ("p", row),
                &[("a", text.as_str().into()), ("b", text.as_str().into())],
            )
        })
        .collect();
    fixture.transact(batch).await.unwrap();
    assert_eq!(fixture.pages(Default::default()).await.len(), 100);
}

///
#[test]
fn messages_come_with_their_entities() {
    for writers in [Writers::Sole, Writers::Many] {
        message_histories::messages_come_with_their_entities(&|| store(writers), 20);
    }
}
