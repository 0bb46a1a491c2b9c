//! Which filters an index of several properties serves, and how.

use super::{compare, eq, index, query};
use crate::fixture::Fixture;
use lazuli_engine::{Limits, MemoryOptions};
use lazuli_model::filter::{Case, Extended, Term};
use lazuli_model::limits::KEY_UTF16_UNITS_MAX;
use lazuli_model::{Filter, Operator, Property, Value};
use lazuli_table::{EntityQuery, IndexAccess, KeyBounds, PlanKind};

fn one_of(property: &str, values: impl IntoIterator<Item = i32>) -> Filter {
    let term = Term::new(Property::from_name(property), Case::AsIs);
    let values = values.into_iter().map(Value::Int32).collect();
    Filter::Extended(Extended::In { term, values })
}

/// 240 entities of two partitions: every combination of three properties.
async fn table() -> Fixture {
    let fixture = Fixture::quick().await;
    for number in 0..240 {
        let (a, b, c) = (number % 4, number / 4 % 5, number / 20 % 3);
        let partition = ["p", "q"][usize::from(number >= 120)];
        let pairs = [("A", Value::Int32(a)), ("B", Value::Int32(b)), ("C", Value::Int32(c))];
        fixture.put((partition, &format!("{number:03}")), &pairs).await.unwrap();
    }
    // Without one of the properties.
    fixture.put(("p", "without"), &[("A", Value::Int32(1))]).await.unwrap();
    fixture
}

/// X-3.4: `eq` and `in` on the first properties merge streams; followed by a range, they merge ranges.
#[tokio::test]
async fn the_first_properties_of_an_index_serve_eq_and_in() {
    let fixture = table().await;
    let range = || compare("B", Operator::Ge, 3).and(compare("B", Operator::Lt, 4));
    let or = |property: &str| eq(property, 1).or(eq(property, 3));
    let partition = || eq("PartitionKey", "p".to_owned());
    let partitions = || partition().or(eq("PartitionKey", "q".to_owned()));
    let cases = [
        (eq("A", 1).and(eq("B", 3)), IndexAccess::Eq, 12),
        (one_of("A", [1, 3]).and(eq("B", 3)), IndexAccess::Union, 24),
        (or("A").and(eq("B", 3)), IndexAccess::Union, 24),
        (eq("B", 3).and(or("A")), IndexAccess::Union, 24),
        (eq("A", 1).and(one_of("B", [3, 4, 9])), IndexAccess::Union, 24),
        (one_of("A", [1, 3]).and(one_of("B", [0, 3])), IndexAccess::Union, 48),
        (or("A").or(one_of("A", [1, 0])).and(or("B")), IndexAccess::Union, 72),
        (eq("A", 1).and(range()), IndexAccess::Range, 12),
        (one_of("A", [1, 3]).and(range()), IndexAccess::Range, 24),
        (or("A").and(compare("B", Operator::Ne, 3)), IndexAccess::Range, 96),
        (eq("A", 1).and(compare("B", Operator::Lt, 1).or(eq("B", 4))), IndexAccess::Range, 24),
        (one_of("A", [1, 3]).and(eq("B", 3)).and(eq("C", 2)), IndexAccess::Union, 8),
        (partition().and(or("A")).and(eq("B", 3)), IndexAccess::Union, 12),
        (partitions().and(eq("A", 1)).and(eq("B", 3)), IndexAccess::Eq, 12),
    ];
    let mut before = Vec::new();
    for (filter, _, expected) in &cases {
        let keys = fixture.pages(query(filter.clone())).await;
        assert_eq!(keys.len(), *expected, "{filter:?}");
        before.push(keys);
    }
    fixture.declare_and_build(&[index("byAB", &["A", "B"], false)]).await;
    for ((filter, access, expected), before) in cases.into_iter().zip(before) {
        let (keys, end) = fixture.page(query(filter.clone())).await;
        assert_eq!(keys, before, "{filter:?}");
        let used = end.index.unwrap_or_else(|| panic!("{filter:?}"));
        assert_eq!((used.access, used.names[0].as_str()), (access, "byAB"), "{filter:?}");
        let pages = fixture.pages(EntityQuery { top: 5, ..query(filter.clone()) }).await;
        assert_eq!(pages, before, "{filter:?}");
        // Conditions on properties outside the index are left to the filter.
        if access != IndexAccess::Range && expected > 8 {
            assert_eq!(end.rows_read, expected as u64, "{filter:?}");
        }
    }
    // Entities that lack B are not in the index.
    let (keys, end) = fixture.page(query(eq("A", 1))).await;
    assert_eq!((keys.len(), end.plan), (61, PlanKind::Table));
    let (_, end) = fixture.page(query(eq("A", 1).and(!eq("B", 3)))).await;
    assert_eq!(end.plan, PlanKind::Table);
}

/// X-3.4: the branches of an `or` use what is around it.
#[tokio::test]
async fn branches_are_served_together_with_what_is_around_them() {
    let fixture = table().await;
    let partition = || eq("PartitionKey", "p".to_owned());
    let range = || compare("C", Operator::Gt, 1);
    let inner = || eq("A", 2).and(eq("C", 0).or(eq("B", 4).and(one_of("C", [1, 2]))));
    let cases = [
        (partition().and(eq("A", 1).or(eq("B", 3))), IndexAccess::Union, 49),
        (eq("B", 3).or(eq("A", 1)).and(partition()), IndexAccess::Union, 49),
        (partition().and(eq("A", 1).or(inner())), IndexAccess::Union, 45),
        (eq("C", 1).and(eq("A", 1).or(eq("A", 3).and(eq("B", 2)))), IndexAccess::Union, 24),
        // Of each branch a range: 12 entities and 32, some of them in both.
        (eq("A", 1).and(eq("B", 1).or(range())), IndexAccess::Range, 44),
    ];
    let mut before = Vec::new();
    for (filter, ..) in &cases {
        let (keys, end) = fixture.page(query(filter.clone())).await;
        assert!(end.plan >= PlanKind::Partition, "{filter:?}");
        before.push(keys);
    }
    let indexes = [
        index("inPA", &["PartitionKey", "A"], false),
        index("inPB", &["PartitionKey", "B"], false),
        index("inPC", &["PartitionKey", "C"], false),
        index("byCA", &["C", "A"], false),
        index("byAB", &["A", "B"], false),
        index("byAC", &["A", "C"], false),
    ];
    fixture.declare_and_build(&indexes).await;
    for ((filter, access, read), before) in cases.into_iter().zip(before) {
        let (keys, end) = fixture.page(query(filter.clone())).await;
        assert_eq!((keys, end.rows_read), (before, read), "{filter:?}");
        assert_eq!(end.index.map(|used| used.access), Some(access), "{filter:?}");
    }
    // A branch that no index serves needs the scan.
    let filter = partition().and(eq("A", 1).or(eq("D", 3)));
    let (_, end) = fixture.page(query(filter)).await;
    assert_eq!((end.plan, end.index), (PlanKind::Partition, None));
}

/// X-3.4: `PartitionKey` may come first.
#[tokio::test]
async fn an_index_within_partitions_serves_several_partitions() {
    let fixture = table().await;
    let partitions = || eq("PartitionKey", "p".to_owned()).or(eq("PartitionKey", "q".to_owned()));
    let filter = || partitions().and(one_of("A", [1, 3]));
    let before = fixture.pages(query(filter())).await;
    fixture.declare_and_build(&[index("inPartition", &["PartitionKey", "A"], false)]).await;
    let (keys, end) = fixture.page(query(filter())).await;
    assert_eq!((keys, end.rows_read), (before, 121));
    assert_eq!(end.index.unwrap().access, IndexAccess::Union);
    let (_, end) = fixture.page(query(one_of("A", [1, 3]))).await;
    assert_eq!(end.plan, PlanKind::Table);
}

/// The number of streams is bounded: beyond that, entries are collected.
#[tokio::test]
async fn many_values_are_served_within_bounds() {
    let fixture = table().await;
    let filter = || one_of("A", 0..1000).and(one_of("B", 3..1000));
    let long = || (0..1500).map(|n| eq("A", n)).reduce(Filter::or).unwrap();
    let before = [fixture.pages(query(filter())).await, fixture.pages(query(long())).await];
    let indexes = [index("byAB", &["A", "B"], false), index("byA", &["A"], false)];
    fixture.declare_and_build(&indexes).await;
    let after = [fixture.page(query(filter())).await, fixture.page(query(long())).await];
    for (before, (after, end)) in before.into_iter().zip(after) {
        assert_eq!((after, end.plan), (before, PlanKind::Index));
    }
    let filter = one_of("A", 0..1000).and(eq("C", 1));
    let (keys, end) = fixture.page(query(filter)).await;
    assert_eq!((keys.len(), end.index.unwrap().access), (80, IndexAccess::Union));
}

/// X-3.5: explain says that the query scanned because the range was too long.
#[tokio::test]
async fn a_range_that_is_too_long_is_told() {
    let fixture = Fixture::quick().await;
    for number in 0..10_001 {
        let pairs = [("A", Value::Int32(number))];
        fixture.put(("p", &format!("{number:05}")), &pairs).await.unwrap();
    }
    fixture.declare_and_build(&[index("byA", &["A"], false)]).await;
    let filter = |from: i32| EntityQuery {
        explain: true,
        top: 10,
        ..query(compare("A", Operator::Ge, from))
    };
    let (_, end) = fixture.page(filter(0)).await;
    let report = end.report.unwrap();
    assert_eq!((report.kind, report.index), (PlanKind::Table, None));
    let fell_back = report.fell_back.unwrap();
    assert_eq!((fell_back.access, fell_back.entries), (IndexAccess::Range, 10_001));
    assert_eq!(fell_back.names[0].as_str(), "byA");
    let (_, end) = fixture.page(filter(1)).await;
    let report = end.report.unwrap();
    assert_eq!((report.kind, report.fell_back), (PlanKind::Index, None));
    // After a continuation, the range is shorter.
    let (_, end) = fixture.page(filter(0)).await;
    let (_, end) = fixture.page(EntityQuery { from: end.next, ..filter(0) }).await;
    assert_eq!(end.plan, PlanKind::Index);
}

/// X-3.6: the longest entry fits into a key of the shared stores.
#[tokio::test]
async fn four_long_texts_fit_into_the_shortest_key() {
    let limits = Limits { key_bytes_max: 4096, ..Limits::DEFAULT };
    let options = MemoryOptions { limits, ..MemoryOptions::default() };
    let fixture = Fixture::with_options(options).await;
    let fixture = Fixture { service: fixture.service.clone().with_index_settles_ms(0), ..fixture };
    let key = "\u{fffd}".repeat(KEY_UTF16_UNITS_MAX);
    let text = |last: char| Value::from(format!("{}{last}", "\u{fffd}".repeat(400)));
    let names = ["A", "B", "C", "D"];
    let pairs = |last| names.map(|name| (name, text(last)));
    fixture.put((&key, &key), &pairs('x')).await.unwrap();
    fixture.declare_and_build(&[index("byAll", &names, true)]).await;
    let states = fixture.states().await;
    assert_eq!(states, [lazuli_table::IndexState::Ready]);
    fixture.put((&key, "other"), &pairs('y')).await.unwrap();
    let all = |last| names.map(|name| eq(name, text(last))).into_iter().reduce(Filter::and);
    for (last, row) in [('x', key.as_str()), ('y', "other")] {
        let (keys, end) = fixture.page(query(all(last).unwrap())).await;
        assert_eq!(keys, [(key.clone(), row.to_owned())]);
        assert_eq!(end.plan, PlanKind::Index);
    }
    let first = names[..3].iter().map(|name| eq(name, text('x'))).reduce(Filter::and).unwrap();
    let filter = first.and(compare("D", Operator::Ge, text('x')));
    assert_eq!(fixture.page(query(filter)).await.0.len(), 1);
    assert!(fixture.put(("p", "r"), &pairs('x')).await.is_err());
    fixture.delete((&key, &key)).await;
    assert_eq!(fixture.verify().await.found, []);
    assert_eq!(fixture.stored(b'i').await, 1);
}

/// X-3.4, X-0.4: no entry is read that lies behind the partitions of the query, or the range of a token.
#[tokio::test]
async fn entries_behind_the_end_of_the_query_are_not_read() {
    let fixture = table().await;
    fixture.declare_and_build(&[index("byB", &["B"], false), index("byC", &["C"], false)]).await;
    let partition = || eq("PartitionKey", "p".to_owned());
    let end = Some(("p".to_owned(), None));
    let bounds = KeyBounds { start: None, end };
    // Of 240 entities, the first 120 are in the partition.
    for (filter, entries) in [
        (eq("B", 3), 24),
        (eq("B", 3).or(eq("B", 4)), 48),
        (eq("B", 3).or(eq("C", 2)), 24 + 40),
        (eq("B", 3).and(eq("C", 2)), 24 + 40),
    ] {
        for query in [
            query(partition().and(filter.clone())),
            EntityQuery { bounds: bounds.clone(), ..query(filter.clone()) },
        ] {
            let (_, end) = fixture.page(query).await;
            assert_eq!(end.index.unwrap().entries, entries, "{filter:?}");
        }
    }
}
