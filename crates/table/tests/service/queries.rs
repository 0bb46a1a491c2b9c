//! Pages: their content, end and continuation.

use crate::fixture::{Fixture, compare, mutation, properties};
use lazuli_engine::{Commit, Engine, Revision, Write};
use lazuli_layout::{TableId, key};
use lazuli_model::key::compare as compare_text;
use lazuli_model::limits::{PAGE_BYTES_MAX, PAGE_ITEMS_MAX};
use lazuli_model::{
    EntityKey, Filter, IfMatch, Operator, Property, Row, TableName, Timestamp, Value, ValueRef,
};
use lazuli_table::MutationKind::{Delete, Insert, InsertOrMerge};
use lazuli_table::{
    Continuation, EntityQuery, EntityRef, KeyBounds, Mutation, PlanKind, QueryEnd, TableError,
};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use std::borrow::Cow;
use std::collections::BTreeSet;

fn from(partition: &str, row: Option<&str>) -> Option<Continuation> {
    Some(Continuation { partition: partition.into(), row: row.map(Into::into) })
}

fn top(top: usize) -> EntityQuery {
    EntityQuery { top, ..EntityQuery::default() }
}

fn filtered(filter: Filter) -> EntityQuery {
    EntityQuery { filter: Some(filter), ..EntityQuery::default() }
}

fn partition(text: &str) -> Filter {
    compare("PartitionKey", Operator::Eq, text)
}

fn row(text: &str) -> Filter {
    compare("RowKey", Operator::Eq, text)
}

fn rows(keys: &[(String, String)]) -> Vec<&str> {
    keys.iter().map(|(_, row)| row.as_str()).collect()
}

async fn with_rows(rows: &[&str]) -> Fixture {
    let fixture = Fixture::new().await;
    for row in rows {
        fixture.insert("p", row).await;
    }
    fixture
}

#[tokio::test]
async fn a_page_ends_before_the_entity_that_the_continuation_names() {
    // The rows of T-4.60.
    let fixture = with_rows(&["1", "12", "123"]).await;
    let (keys, end) = fixture.page(top(2)).await;
    assert_eq!(rows(&keys), ["1", "12"]);
    assert_eq!(end.next, from("p", Some("123")));
    let (keys, end) = fixture.page(EntityQuery { from: end.next, ..top(2) }).await;
    assert_eq!((rows(&keys), end.next), (vec!["123"], None));
}

#[tokio::test]
async fn a_page_that_ends_with_the_table_has_no_continuation() {
    let fixture = with_rows(&["1", "2"]).await;
    let (keys, end) = fixture.page(top(2)).await;
    assert_eq!((keys.len(), end.next), (2, None));
}

#[tokio::test]
async fn top_zero_is_an_empty_page_of_an_existing_table() {
    let fixture = with_rows(&["1"]).await;
    let (keys, end) = fixture.page(top(0)).await;
    assert_eq!((keys.len(), end.next, end.rows_read), (0, None, 0));
    let missing = TableName::parse("missing").unwrap();
    let result = fixture.service.query(&fixture.account, &missing, top(0), &mut |_| {}).await;
    assert!(matches!(result, Err(TableError::TableNotFound)));
}

#[tokio::test]
async fn a_page_holds_a_thousand_entities_at_most() {
    let fixture = Fixture::new().await;
    for batch in 0..11 {
        let rows: Vec<String> = (0..100).map(|row| format!("{batch:02}{row:02}")).collect();
        let batch = rows.iter().map(|row| mutation(Insert, ("p", row), &[])).collect();
        fixture.transact(batch).await.unwrap();
    }
    let (keys, end) = fixture.page(top(5000)).await;
    assert_eq!((keys.len(), end.next), (PAGE_ITEMS_MAX, from("p", Some("1000"))));
    assert_eq!(fixture.pages(top(5000)).await.len(), 1100);
}

#[tokio::test]
async fn a_page_ends_at_its_byte_budget() {
    let fixture = Fixture::new().await;
    let block = Value::Binary(Cow::Owned(vec![7; 64 * 1024]));
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let pairs: Vec<_> = names.iter().map(|name| (*name, block.clone())).collect();
    for row in 0..20 {
        let key = EntityKey::parse("p", &format!("{row:02}")).unwrap();
        let mutation = Mutation::new(key, Insert, properties(&pairs)).unwrap();
        fixture.service.mutate(&fixture.account, &fixture.table, &mutation).await.unwrap();
    }
    // Eight entities of half a mebibyte reach four.
    let (keys, end) = fixture.page(EntityQuery::default()).await;
    assert_eq!(keys.len() * names.len() * 64 * 1024, PAGE_BYTES_MAX);
    assert_eq!(end.next, from("p", Some("08")));
    assert_eq!(fixture.pages(EntityQuery::default()).await.len(), 20);
}

#[tokio::test]
async fn a_page_ends_when_its_time_is_up_and_still_makes_progress() {
    let fixture = Fixture::new().await;
    for batch in 0..30 {
        let rows: Vec<String> = (0..100).map(|row| format!("{batch:02}{row:02}")).collect();
        let batch = rows.iter().map(|row| mutation(Insert, ("p", row), &[])).collect();
        fixture.transact(batch).await.unwrap();
    }
    fixture.clock.advance_ms_per_look(6_000);
    let nothing = filtered(compare("Name", Operator::Eq, "x"));
    let (keys, end) = fixture.page(nothing.clone()).await;
    assert_eq!((keys.len(), end.rows_read), (0, 1024));
    assert_eq!(end.next, from("p", Some("1024")));
    assert_eq!(fixture.pages(nothing).await.len(), 0);
}

#[tokio::test]
async fn multi_point_reads_end_and_go_on_like_any_other() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (0..200).map(|row| format!("{row:03}")).collect();
    for row in names.iter().filter(|row| !row.ends_with('7')) {
        fixture.insert("p", row).await;
    }
    let points: Vec<Filter> = names.iter().rev().map(|name| row(name)).collect();
    let query = filtered(Filter::And(vec![partition("p"), Filter::Or(points)]));
    let (keys, end) = fixture.page(EntityQuery { top: 7, ..query.clone() }).await;
    assert_eq!(rows(&keys), ["000", "001", "002", "003", "004", "005", "006"]);
    assert_eq!((end.plan, end.next), (PlanKind::MultiPoint, from("p", Some("008"))));
    assert_eq!(fixture.pages(EntityQuery { top: 7, ..query.clone() }).await.len(), 180);
    fixture.clock.advance_ms_per_look(6_000);
    assert_eq!(fixture.pages(query).await.len(), 180);
}

#[tokio::test]
async fn a_query_accounts_for_what_it_reads() {
    let fixture = Fixture::new().await;
    for partition in ["a", "b", "c"] {
        for row in ["1", "2", "3"] {
            fixture.insert(partition, row).await;
        }
    }
    let ge = |name, text| compare(name, Operator::Ge, text);
    let name = compare("Name", Operator::Eq, "x");
    let cases = [
        (Filter::And(vec![partition("b"), row("2")]), PlanKind::Point, 1, 1),
        (Filter::And(vec![partition("b"), row("9")]), PlanKind::Point, 0, 0),
        (Filter::And(vec![partition("b"), ge("RowKey", "2")]), PlanKind::RowRange, 2, 2),
        (partition("b"), PlanKind::Partition, 3, 3),
        (ge("PartitionKey", "b"), PlanKind::PartitionRange, 6, 6),
        (row("2"), PlanKind::Table, 9, 3),
        (name, PlanKind::Table, 9, 0),
        (Filter::Constant(false), PlanKind::MultiPoint, 0, 0),
    ];
    for (filter, plan, rows_read, rows_returned) in cases {
        let text = format!("{filter:?}");
        let (_, end) = fixture.page(filtered(filter)).await;
        let expected = QueryEnd {
            next: None,
            plan,
            index: None,
            rows_read,
            rows_returned,
            // Row 1 comes before row 2.
            rows_skipped: u64::from(rows_returned > 0 && rows_read > rows_returned),
            report: None,
        };
        assert_eq!(end, expected, "{text}");
    }
}

#[tokio::test]
async fn a_filter_sees_stored_values() {
    let fixture = Fixture::new().await;
    for (row, age) in [("1", 20), ("2", 40), ("3", 60)] {
        fixture.mutate(Insert, ("p", row), &[("age", Value::Int32(age))]).await.unwrap();
    }
    fixture.insert("p", "4").await;
    let age =
        |operator, value| Filter::Compare { property: Property::from_name("age"), operator, value };
    let selects = async |filter| rows(&fixture.page(filtered(filter)).await.0).concat();
    assert_eq!(selects(age(Operator::Lt, Value::Double(40.5))).await, "12");
    assert_eq!(selects(age(Operator::Ne, Value::Int32(40))).await, "13");
    assert_eq!(selects(Filter::Not(Box::new(age(Operator::Eq, Value::Int32(40))))).await, "134");
    let at = fixture.timestamp("p", "3").await;
    let later = Filter::Compare {
        property: Property::Timestamp,
        operator: Operator::Ge,
        value: Value::DateTime(at),
    };
    assert_eq!(selects(later).await, "34");
}

#[tokio::test]
async fn a_continuation_survives_the_deletion_of_its_entity() {
    let fixture = with_rows(&["1", "2", "3", "4"]).await;
    let (_, end) = fixture.page(top(2)).await;
    let any = Delete(IfMatch::Any);
    fixture.mutate(any, ("p", "3"), &[]).await.unwrap();
    let (keys, _) = fixture.page(EntityQuery { from: end.next, ..top(2) }).await;
    assert_eq!(rows(&keys), ["4"]);
}

#[tokio::test]
async fn an_empty_row_key_is_the_beginning_of_its_partition() {
    let fixture = Fixture::new().await;
    for (partition, row) in [("", ""), ("", "a"), ("p", ""), ("p", "a")] {
        fixture.insert(partition, row).await;
    }
    let (_, end) = fixture.page(top(2)).await;
    assert_eq!(end.next, from("p", None));
    assert_eq!(fixture.pages(top(1)).await.len(), 4);
}

#[tokio::test]
async fn odd_continuations_stay_within_the_table() {
    let fixture = with_rows(&["1"]).await;
    for name in ["Aaaaa", "Zzzzz"] {
        let table = TableName::parse(name).unwrap();
        fixture.service.create_table(&fixture.account, &table).await.unwrap();
        let mutation = mutation(Insert, ("p", "other"), &[]);
        fixture.service.mutate(&fixture.account, &table, &mutation).await.unwrap();
    }
    let long = "\u{FFFF}".repeat(100_000);
    for text in ["", "\0", "\u{1}", "p", "p\0", "/\\#?", "\u{10FFFF}", "\u{FFFF}", &long] {
        for row in [None, Some(text), Some("1"), Some(&long)] {
            let query = EntityQuery { from: from(text, row), ..EntityQuery::default() };
            let (keys, end) = fixture.page(query).await;
            let before = compare_text(text, "p").then_with(|| compare_text(row.unwrap_or(""), "1"));
            assert_eq!(rows(&keys).concat(), if before.is_le() { "1" } else { "" }, "{text:.9}");
            assert_eq!(end.next, None);
        }
    }
}

#[tokio::test]
async fn bounds_are_inclusive_and_open_within_a_partition() {
    let fixture = Fixture::new().await;
    for partition in ["a", "b", "c", "d"] {
        for row in ["1", "2", "3"] {
            fixture.insert(partition, row).await;
        }
    }
    let end =
        |partition: &str, row: Option<&str>| Some((partition.to_owned(), row.map(Into::into)));
    let shown = async |start, end| {
        let query = EntityQuery { bounds: KeyBounds { start, end }, ..top(2) };
        let keys = fixture.pages(query).await;
        keys.iter().map(|(partition, row)| format!("{partition}{row} ")).collect::<String>()
    };
    assert_eq!(shown(end("b", Some("2")), end("c", Some("1"))).await, "b2 b3 c1 ");
    assert_eq!(shown(end("b", None), end("b", None)).await, "b1 b2 b3 ");
    assert_eq!(shown(end("c", Some("3")), None).await, "c3 d1 d2 d3 ");
    assert_eq!(shown(None, end("a", Some("1"))).await, "a1 ");
    assert_eq!(shown(end("c", None), end("b", None)).await, "");
}

#[tokio::test]
async fn a_continuation_does_not_lead_out_of_the_bounds() {
    let fixture = with_rows(&["1", "2", "3"]).await;
    let start = Some(("p".to_owned(), Some("2".to_owned())));
    let bounds = KeyBounds { start: start.clone(), end: start };
    for (token, expect) in [("0", "2"), ("1", "2"), ("2", "2"), ("3", "")] {
        let query = EntityQuery { from: from("p", Some(token)), bounds: bounds.clone(), ..top(9) };
        assert_eq!(rows(&fixture.page(query).await.0).concat(), expect, "{token}");
    }
}

#[tokio::test]
async fn corrupt_entities_are_reported_and_never_served() {
    let fixture = with_rows(&["1"]).await;
    let key = key::entity(TableId(1), &EntityKey::parse("p", "2").unwrap());
    let string_that_is_not_utf8 = [1, 0, 1, 0, 1, 0x10, 1, 0, 0, 0, b'a', 0xFF];
    for value in [&b"\x02junk"[..], &string_that_is_not_utf8] {
        let write = Write::Put(key.clone().into(), value.to_vec().into());
        let commit = Commit::new(Revision(1), vec![write]);
        fixture.memory.commit(commit).await.unwrap();
        let mut shown = 0;
        let (account, table) = (&fixture.account, &fixture.table);
        let mut sink = |_: EntityRef<'_>| shown += 1;
        let result = fixture.service.query(account, table, top(9), &mut sink).await;
        assert!(matches!(result, Err(TableError::Corrupt(_))));
        assert_eq!(shown, 1);
        let key = EntityKey::parse("p", "2").unwrap();
        let result = fixture.service.get(account, table, &key).await.unwrap();
        let result = result.properties();
        assert!(matches!(result, Err(TableError::Corrupt(_))));
        let result = fixture.mutate(InsertOrMerge, ("p", "2"), &[]).await;
        assert!(matches!(result, Err(TableError::Corrupt(_))));
    }
}

#[tokio::test]
async fn a_page_is_one_snapshot() {
    // A second service writes while the first shows a page: the page does not see it.
    let fixture = with_rows(&["1", "2", "3"]).await;
    let elsewhere = fixture.elsewhere();
    let (account, table) = (fixture.account.clone(), fixture.table.clone());
    let mut seen = Vec::new();
    let handle = tokio::runtime::Handle::current();
    let mut sink = |entity: EntityRef<'_>| {
        seen.push(entity.row_key.to_owned());
        let (elsewhere, account, table) = (elsewhere.clone(), account.clone(), table.clone());
        let write = async move {
            let any = Delete(IfMatch::Any);
            let _ = elsewhere.mutate(&account, &table, &mutation(any, ("p", "3"), &[])).await;
            elsewhere.mutate(&account, &table, &mutation(Insert, ("p", "2a"), &[])).await
        };
        let handle = handle.clone();
        let _ = std::thread::scope(|scope| scope.spawn(|| handle.block_on(write)).join());
    };
    let end = fixture.service.query(&account, &table, top(9), &mut sink).await.unwrap();
    assert_eq!(end.next, None);
    assert_eq!(seen, ["1", "2", "3"]);
    assert_eq!(rows(&fixture.pages(top(9)).await), ["1", "2", "2a"]);
}

/// Keys that are close to each other, some where the orders differ.
fn texts() -> Vec<String> {
    let texts = ["", "a", "a ", "aa", "b", "é", "\u{D7FF}", "\u{E000}", "\u{FFFD}", "🦀", "🦀🦀"];
    texts.map(str::to_owned).to_vec()
}

fn text() -> impl Strategy<Value = String> {
    select(texts())
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let names = select(vec!["PartitionKey", "RowKey", "Name"]);
    let leaf = (names, select(Operator::ALL.to_vec()), text())
        .prop_map(|(name, operator, text)| compare(name, operator, &text));
    leaf.prop_recursive(3, 16, 3, |inner| {
        let parts = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
            parts.clone().prop_map(Filter::And),
            parts.prop_map(Filter::Or),
        ]
    })
}

struct Sample<'a>(&'a str, &'a str, &'a str);

impl Row for Sample<'_> {
    fn partition_key(&self) -> &str {
        self.0
    }

    fn row_key(&self) -> &str {
        self.1
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn custom(&self, name: &str) -> Option<ValueRef<'_>> {
        (name == "Name" && !self.2.is_empty()).then_some(ValueRef::String(self.2))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn paging_through_a_planned_query_equals_the_filter_run_over_everything(
        keys in subsequence(pairs(), 0..60),
        name in text(),
        filter in any_filter(),
        top in 1usize..9,
        start in prop::option::of((text(), prop::option::of(text()))),
        end in prop::option::of((text(), prop::option::of(text()))),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new().await;
            for (index, (partition, row)) in keys.iter().enumerate() {
                let name = if index % 3 == 0 { "" } else { &name };
                let named = [("Name", name.into())];
                let pairs = if name.is_empty() { &named[..0] } else { &named[..] };
                fixture.mutate(Insert, (partition, row), pairs).await.unwrap();
            }
            let mut expect: Vec<_> = keys
                .iter()
                .enumerate()
                .filter(|(index, (partition, row))| {
                    let name = if index % 3 == 0 { "" } else { &name };
                    filter.matches(&Sample(partition, row, name))
                        && start.as_ref().is_none_or(|start| order(start, partition, row, "").is_le())
                        && end.as_ref().is_none_or(|end| order(end, partition, row, row).is_ge())
                })
                .map(|(_, key)| key.clone())
                .collect();
            expect.sort_by(|a, b| compare_text(&a.0, &b.0).then_with(|| compare_text(&a.1, &b.1)));
            let bounds = KeyBounds { start, end };
            let query = EntityQuery {
                filter: Some(filter),
                top,
                bounds,
                ..EntityQuery::default()
            };
            assert_eq!(fixture.pages(query.clone()).await, expect);
            // the same backwards.: a count of all entities.
            let counted = EntityQuery { count_only: true, ..query.clone() };
            let end = fixture.count(counted).await;
            assert_eq!((end.rows_returned, end.next), (expect.len() as u64, None));
            expect.reverse();
            assert_eq!(fixture.pages(EntityQuery { reverse: true, ..query }).await, expect);
        });
    }
}

/// How a bound compares with a key; a bound without a row counts as `open`.
fn order(
    (bound, bound_row): &(String, Option<String>),
    partition: &str,
    row: &str,
    open: &str,
) -> std::cmp::Ordering {
    let bound_row = bound_row.as_deref().unwrap_or(open);
    compare_text(bound, partition).then_with(|| compare_text(bound_row, row))
}

fn pairs() -> Vec<(String, String)> {
    let texts = texts();
    let rows = |p: &String| texts.iter().map(|r| (p.clone(), r.clone())).collect::<Vec<_>>();
    texts.iter().flat_map(rows).collect()
}

#[tokio::test]
async fn paging_over_thousands_in_any_step_shows_each_once_in_order() {
    let fixture = Fixture::new().await;
    let mut expect = BTreeSet::new();
    for batch in 0..30 {
        let partition = format!("p{}", batch % 7);
        let rows: Vec<String> = (0..100).map(|row| format!("{:05}", batch * 100 + row)).collect();
        let mutations = rows.iter().map(|row| mutation(Insert, (&partition, row), &[])).collect();
        fixture.transact(mutations).await.unwrap();
        expect.extend(rows.into_iter().map(|row| (partition.clone(), row)));
    }
    let expect: Vec<_> = expect.into_iter().collect();
    for step in [1, 7, 99, 100, 101, 999, 1000] {
        assert_eq!(fixture.pages(top(step)).await, expect, "{step}");
    }
}
