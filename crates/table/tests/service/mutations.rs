//! What each mutation does, and under which condition.

use crate::fixture::{Fault, Fixture, compare, mutation, properties, version};
use lazuli_engine::{Limits, MemoryOptions};
use lazuli_model::{
    Clock, EntityError, EntityKey, Feed, FeedRetention, IfMatch, Images, Operator, Properties,
    Timestamp, Value,
};
use lazuli_table::MutationKind::{self, Delete, Insert, InsertOrMerge, InsertOrReplace};
use lazuli_table::MutationKind::{Merge, Replace};
use lazuli_table::{DeleteWhere, EntityQuery, KeyBounds, Mutation, TableError};
use std::borrow::Cow;

const KEY: (&str, &str) = ("p", "r");

/// How a change ended, in one word.
fn word(result: &Result<Timestamp, TableError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(TableError::EntityNotFound) => "not found",
        Err(TableError::EntityAlreadyExists) => "already exists",
        Err(TableError::ConditionNotMet) => "condition not met",
        Err(TableError::TableNotFound) => "table not found",
        Err(TableError::Undetermined) => "undetermined",
        Err(TableError::Busy) => "busy",
        Err(other) => panic!("{other}"),
    }
}

/// Applies `kind` with property `b` to an entity that holds `z`, `a`, and then to one that is absent.
#[track_caller]
fn check(
    kind: impl Fn(Timestamp) -> MutationKind,
    present: (&str, Option<&str>),
    absent: (&str, Option<&str>),
) {
    let caller = std::panic::Location::caller();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new().await;
        let b = [("c", Value::Int32(3)), ("b", Value::Int32(2))];
        let kind_if_absent = kind(Timestamp::UNIX_EPOCH);
        let result = fixture.mutate(kind_if_absent, KEY, &b).await;
        let found = fixture.properties(KEY.0, KEY.1).await;
        assert_eq!((word(&result), found.as_deref()), absent, "absent, {caller}");

        let fixture = Fixture::new().await;
        let stored = [("z", Value::Int32(0)), ("a", Value::Int32(1))];
        let at = fixture.mutate(Insert, KEY, &stored).await.unwrap();
        let result = fixture.mutate(kind(at), KEY, &b).await;
        let found = fixture.properties(KEY.0, KEY.1).await;
        assert_eq!((word(&result), found.as_deref()), present, "present, {caller}");
    });
}

const STORED: Option<&str> = Some("z=Int32(0) a=Int32(1)");
const REPLACED: Option<&str> = Some("b=Int32(2) c=Int32(3)");
const MERGED: Option<&str> = Some("a=Int32(1) b=Int32(2) c=Int32(3) z=Int32(0)");

#[test]
fn insert_wants_absence_and_keeps_the_order_given() {
    let inserted = Some("c=Int32(3) b=Int32(2)");
    check(|_| Insert, ("already exists", STORED), ("ok", inserted));
}

#[test]
fn insert_or_replace_wants_nothing() {
    check(|_| InsertOrReplace, ("ok", REPLACED), ("ok", REPLACED));
}

#[test]
fn insert_or_merge_wants_nothing() {
    check(|_| InsertOrMerge, ("ok", MERGED), ("ok", REPLACED));
}

#[test]
fn any_wants_presence() {
    check(|_| Replace(IfMatch::Any), ("ok", REPLACED), ("not found", None));
    check(|_| Merge(IfMatch::Any), ("ok", MERGED), ("not found", None));
    check(|_| Delete(IfMatch::Any), ("ok", None), ("not found", None));
}

#[test]
fn a_version_wants_itself() {
    check(|at| Replace(version(at)), ("ok", REPLACED), ("not found", None));
    check(|at| Merge(version(at)), ("ok", MERGED), ("not found", None));
    check(|at| Delete(version(at)), ("ok", None), ("not found", None));
}

#[test]
fn another_version_is_not_met() {
    let other = |at: Timestamp| version(Timestamp::from_ticks(at.ticks() - 1).unwrap());
    let refused = ("condition not met", STORED);
    check(|at| Replace(other(at)), refused, ("not found", None));
    check(|at| Merge(other(at)), refused, ("not found", None));
    check(|at| Delete(other(at)), refused, ("not found", None));
}

#[tokio::test]
async fn every_change_has_a_timestamp_of_its_own() {
    // The clock stands still; TR-61.
    let fixture = Fixture::new().await;
    let mut last = fixture.insert("p", "r").await;
    for kind in [InsertOrReplace, InsertOrMerge, Replace(IfMatch::Any), Merge(IfMatch::Any)] {
        let next = fixture.mutate(kind, KEY, &[]).await.unwrap();
        assert!(next > last);
        assert_eq!(fixture.timestamp("p", "r").await, next);
        last = next;
    }
    fixture.clock.advance_ms(1000);
    let next = fixture.mutate(InsertOrReplace, KEY, &[]).await.unwrap();
    assert!(next.millis_since(last) >= 999);
}

#[tokio::test]
async fn merge_may_change_a_type() {
    let fixture = Fixture::new().await;
    fixture.mutate(Insert, KEY, &[("age", Value::Int32(39))]).await.unwrap();
    fixture.mutate(Merge(IfMatch::Any), KEY, &[("age", "abc".into())]).await.unwrap();
    assert_eq!(fixture.properties("p", "r").await.unwrap(), "age=String(\"abc\")");
}

#[tokio::test]
async fn a_table_that_is_missing_is_not_found() {
    let fixture = Fixture::new().await;
    fixture.service.delete_table(&fixture.account, &fixture.table).await.unwrap();
    for kind in [
        Insert,
        InsertOrReplace,
        InsertOrMerge,
        Replace(IfMatch::Any),
        Merge(IfMatch::Any),
        Delete(IfMatch::Any),
    ] {
        let result = fixture.mutate(kind, KEY, &[]).await;
        assert_eq!(word(&result), "table not found", "{kind:?}");
    }
}

fn blocks(names: &[&'static str]) -> Properties<'static> {
    let block = Value::Binary(Cow::Owned(vec![7; 64 * 1024]));
    let pairs: Vec<_> = names.iter().map(|name| (*name, block.clone())).collect();
    properties(&pairs).into_owned()
}

#[tokio::test]
async fn a_merge_beyond_one_mebibyte_is_refused_and_changes_nothing() {
    let fixture = Fixture::new().await;
    let key = EntityKey::parse("p", "r").unwrap();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "q"];
    let too_large = Mutation::new(key.clone(), Insert, blocks(&names));
    assert_eq!(too_large.unwrap_err(), EntityError::EntityTooLarge);

    let (first, last) = names.split_at(8);
    for (kind, names) in [(Insert, first), (InsertOrMerge, &last[..7])] {
        let mutation = Mutation::new(key.clone(), kind, blocks(names)).unwrap();
        fixture.service.mutate(&fixture.account, &fixture.table, &mutation).await.unwrap();
    }
    let before = fixture.timestamp("p", "r").await;
    for kind in [InsertOrMerge, Merge(IfMatch::Any), Merge(version(before))] {
        let mutation = Mutation::new(key.clone(), kind, blocks(&last[7..])).unwrap();
        let result = fixture.service.mutate(&fixture.account, &fixture.table, &mutation).await;
        assert!(matches!(result, Err(TableError::Entity(EntityError::EntityTooLarge))));
    }
    assert_eq!(fixture.timestamp("p", "r").await, before);
}

#[tokio::test]
async fn a_merge_beyond_252_properties_is_refused() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (0..253).map(|i| format!("p{i}")).collect();
    let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), Value::Int32(1))).collect();
    fixture.mutate(Insert, KEY, &pairs[..200]).await.unwrap();
    let result = fixture.mutate(InsertOrMerge, KEY, &pairs[100..]).await;
    assert!(matches!(result, Err(TableError::Entity(EntityError::TooManyProperties))));
    fixture.mutate(InsertOrMerge, KEY, &pairs[100..252]).await.unwrap();
}

#[tokio::test]
async fn conflicts_are_retried_within_a_bound() {
    let fixture = Fixture::new().await;
    fixture.engine.plan((0..31).map(|_| Fault::Conflict));
    fixture.insert("p", "r").await;
    fixture.engine.plan((0..32).map(|_| Fault::Conflict));
    assert_eq!(word(&fixture.mutate(Insert, ("p", "s"), &[]).await), "busy");
    fixture.engine.plan([Fault::Busy]);
    assert_eq!(word(&fixture.mutate(Insert, ("p", "s"), &[]).await), "busy");
    assert_eq!(fixture.properties("p", "s").await, None);
}

#[tokio::test]
async fn a_lost_answer_is_neither_success_nor_failure() {
    let fixture = Fixture::new().await;
    for fault in [Fault::LoseAnswer, Fault::LoseCommit] {
        fixture.engine.plan([fault]);
        assert_eq!(word(&fixture.mutate(Insert, KEY, &[]).await), "undetermined");
        let _ = fixture.mutate(Delete(IfMatch::Any), KEY, &[]).await;
    }
}

#[tokio::test]
async fn an_outcome_that_cannot_be_read_back_stays_unknown() {
    // The failed read of the store was once returned as if the write had failed.
    let fixture = Fixture::new().await;
    fixture.insert("p", "r").await;
    fixture.engine.plan([Fault::LoseStore]);
    assert_eq!(word(&fixture.mutate(InsertOrReplace, KEY, &[]).await), "undetermined");
    let fixture = Fixture::new().await;
    fixture.engine.plan([Fault::LoseStore]);
    let result = fixture.service.delete_table(&fixture.account, &fixture.table).await;
    assert!(matches!(result, Err(TableError::Undetermined)));
}

#[tokio::test]
async fn a_commit_that_was_provably_lost_is_tried_again() {
    // The entity is older than the attempt, so the attempt has not happened.
    let fixture = Fixture::new().await;
    for kind in [InsertOrReplace, InsertOrMerge, Replace(IfMatch::Any), Delete(IfMatch::Any)] {
        let _ = fixture.mutate(Insert, KEY, &[]).await;
        fixture.clock.advance_ms(1);
        fixture.engine.plan([Fault::LoseCommit]);
        assert_eq!(word(&fixture.mutate(kind, KEY, &[]).await), "ok", "{kind:?}");
    }
    fixture.insert("p", "r").await;
    fixture.clock.advance_ms(1);
    fixture.engine.plan([Fault::LoseAnswer]);
    let kind = Replace(version(fixture.timestamp("p", "r").await));
    assert_eq!(word(&fixture.mutate(kind, KEY, &[]).await), "undetermined");
}

#[tokio::test]
async fn a_mutation_shows_what_it_will_store() {
    let pairs = [("b", Value::Int32(1)), ("a", Value::Int32(2))];
    let names = |kind| {
        let mutation = mutation(kind, KEY, &pairs);
        assert_eq!((mutation.key().row.as_str(), mutation.kind()), ("r", kind));
        mutation.properties().iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(Insert), ["b", "a"]);
    assert_eq!(names(InsertOrReplace), ["a", "b"]);
}

/// X-4.4: no commit begins that would end after the time is over, as far as the one before tells.
#[tokio::test]
async fn a_deletion_by_filter_ends_within_its_time() {
    const MS_MAX: u64 = 1500;
    let fixture = Fixture::new().await;
    for row in 0..600 {
        fixture.mutate(Insert, ("p", &format!("{row:03}")), &[]).await.unwrap();
    }
    let (mut from, mut deleted, mut calls) = (None, 0, 0);
    loop {
        let request = DeleteWhere {
            filter: compare("PartitionKey", Operator::Eq, "p"),
            from,
            bounds: KeyBounds::default(),
            rows_read_max: u64::MAX,
            ms_max: MS_MAX,
            explain: false,
        };
        fixture.clock.advance_ms_per_look(150);
        let began = fixture.clock.now();
        let done = fixture.service.delete_where(&fixture.account, &fixture.table, request).await;
        fixture.clock.advance_ms_per_look(0);
        assert!(fixture.clock.now().millis_since(began) <= MS_MAX);
        let done = done.unwrap();
        assert!(done.deleted > 0);
        (deleted, calls) = (deleted + done.deleted, calls + 1);
        match done.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    assert!(deleted == 600 && calls > 1, "{deleted} in {calls}");
}

/// X-1.4: a deletion by filter is cut into commits that fit, however large what a feed records of each entity.
#[tokio::test]
async fn a_deletion_of_large_entities_fits_with_what_the_feed_records() {
    let limits = Limits { commit_bytes_max: 32 * 1024 * 1024, ..Limits::DEFAULT };
    let fixture = Fixture::with_options(MemoryOptions { limits, ..MemoryOptions::default() }).await;
    // Almost 1 MiB as UTF-16, and half as much again as it is stored.
    let text = "中".repeat(32_000);
    let names: Vec<String> = (0..15).map(|number| format!("L{number}")).collect();
    let pairs: Vec<_> =
        names.iter().map(|name| (name.as_str(), Value::String(text.as_str().into()))).collect();
    for row in 10..40 {
        fixture.mutate(Insert, ("p", &row.to_string()), &pairs).await.unwrap();
    }
    let feed = Feed { images: Images::Both, retention: FeedRetention::from_hours(1).unwrap() };
    fixture.service.set_feed(&fixture.account, &fixture.table, feed).await.unwrap();
    let request = DeleteWhere {
        filter: compare("PartitionKey", Operator::Eq, "p"),
        from: None,
        bounds: KeyBounds::default(),
        rows_read_max: u64::MAX,
        ms_max: 30_000,
        explain: false,
    };
    let done = fixture.service.delete_where(&fixture.account, &fixture.table, request).await;
    assert_eq!(done.unwrap().deleted, 30);
    assert_eq!(fixture.pages(EntityQuery::default()).await, []);
}
