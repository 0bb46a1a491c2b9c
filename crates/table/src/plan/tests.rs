use super::*;
use lazuli_model::filter::{Term, TextFunction, TextTest};
use proptest::prelude::*;
use proptest::sample::select;

const TABLE: TableId = TableId(7);

fn compare(property: &str, operator: &str, text: &str) -> Filter {
    Filter::Compare {
        property: Property::from_name(property),
        operator: Operator::from_name(operator).unwrap(),
        value: Value::String(text.to_owned().into()),
    }
}

fn partition(operator: &str, text: &str) -> Filter {
    compare("PartitionKey", operator, text)
}

fn row(operator: &str, text: &str) -> Filter {
    compare("RowKey", operator, text)
}

fn and(parts: &[Filter]) -> Filter {
    Filter::And(parts.to_vec())
}

fn or(parts: &[Filter]) -> Filter {
    Filter::Or(parts.to_vec())
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

fn everything() -> KeyRange {
    let range = key::table_range(TABLE);
    KeyRange::new(range.start, range.end)
}

fn plan(filter: &Filter) -> Plan<'_> {
    Plan::new(TABLE, Some(filter), &everything())
}

impl Plan<'_> {
    /// Number of points or ranges read.
    fn len(&self) -> usize {
        match &self.reads {
            Reads::Points(keys) => keys.len(),
            Reads::Ranges(ranges) => ranges.len(),
        }
    }

    fn reads(&self, partition: &str, row: &str) -> bool {
        let key = key_of(partition, row);
        match &self.reads {
            Reads::Points(keys) => keys.contains(&key.into()),
            Reads::Ranges(ranges) => ranges.iter().any(|range| range.contains(&key)),
        }
    }
}

fn key_of(partition: &str, row: &str) -> Vec<u8> {
    key::row_range(TABLE, partition, Bound::Included(row), Bound::Unbounded).start
}

/// Checks the kind of a plan and how many points or ranges it reads.
#[track_caller]
fn check(filter: Filter, kind: PlanKind, len: usize) {
    let plan = plan(&filter);
    assert_eq!((plan.kind, plan.len()), (kind, len), "{filter:?}");
}

#[test]
fn both_keys_are_a_point() {
    check(and(&[partition("eq", "p"), row("eq", "r")]), PlanKind::Point, 1);
    let with_more = [row("eq", "r"), compare("Name", "gt", "x"), partition("eq", "p")];
    check(and(&with_more), PlanKind::Point, 1);
    check(and(&[partition("eq", ""), row("eq", "")]), PlanKind::Point, 1);
    let pinned = [partition("ge", "p"), partition("le", "p"), row("eq", "r")];
    check(and(&pinned), PlanKind::Point, 1);
}

#[test]
fn several_keys_are_points_in_key_order() {
    let key = |p: &str, r: &str| and(&[partition("eq", p), row("eq", r)]);
    let filter = or(&[key("q", "1"), key("p", "2"), key("p", "1"), key("p", "2")]);
    let keys = [("p", "1"), ("p", "2"), ("q", "1")].map(|(p, r)| key_of(p, r).into());
    let plan = plan(&filter);
    assert_eq!((plan.kind, plan.reads), (PlanKind::MultiPoint, Reads::Points(keys.into())));
    let rows = or(&[row("eq", "a"), row("eq", "b")]);
    check(and(&[partition("eq", "p"), rows.clone()]), PlanKind::MultiPoint, 2);
    let partitions = or(&[partition("eq", "p"), partition("eq", "q")]);
    check(and(&[partitions, rows]), PlanKind::MultiPoint, 4);
}

#[test]
fn rows_of_a_partition_are_a_range() {
    let between = [partition("eq", "p"), row("ge", "a"), row("lt", "b")];
    check(and(&between), PlanKind::RowRange, 1);
    check(not(or(&[partition("ne", "p"), row("lt", "a")])), PlanKind::RowRange, 1);
    let two = or(&[and(&[row("ge", "a"), row("lt", "b")]), row("gt", "x")]);
    check(and(&[partition("eq", "p"), two]), PlanKind::RowRange, 2);
}

#[test]
fn what_the_range_ensures_is_no_condition() {
    let name = compare("Name", "eq", "x");
    let conditions = |parts: &[Filter]| -> Vec<Filter> {
        plan(&and(parts)).conditions.into_iter().cloned().collect()
    };
    let none: Vec<Filter> = Vec::new();
    let rows = [partition("eq", "p"), row("ge", "a"), row("lt", "b")];
    assert_eq!(none, conditions(&rows));
    assert_eq!(vec![name.clone()], conditions(&[name.clone(), and(&rows)]));
    let apart = [partition("gt", "p"), row("ge", "a"), row("ne", "b")];
    assert_eq!(apart[1..], *conditions(&apart));
}

#[test]
fn a_partition_alone_is_read_whole() {
    check(partition("eq", "p"), PlanKind::Partition, 1);
    check(and(&[partition("eq", "p"), compare("Name", "eq", "x")]), PlanKind::Partition, 1);
    check(and(&[partition("eq", "p"), row("ne", "x")]), PlanKind::Partition, 1);
    check(or(&[partition("eq", "p"), partition("eq", "q")]), PlanKind::Partition, 2);
}

#[test]
fn bounded_partitions_are_a_range() {
    check(partition("ge", "p"), PlanKind::PartitionRange, 1);
    check(not(partition("ge", "p")), PlanKind::PartitionRange, 1);
    check(
        and(&[partition("gt", "a"), partition("le", "b"), row("eq", "r")]),
        PlanKind::PartitionRange,
        1,
    );
    let overlapping = or(&[partition("gt", "b"), partition("lt", "c")]);
    check(overlapping, PlanKind::PartitionRange, 1);
    // How clients themselves resume: the rest of one partition, and the partitions after it.
    let resumed = or(&[partition("gt", "p"), and(&[partition("eq", "p"), row("gt", "r")])]);
    check(resumed, PlanKind::PartitionRange, 2);
}

/// X-4.1: `startswith` on keys is a range, `in` is one key for each literal.
#[test]
fn functions_of_keys_confine_them() {
    let starts = |name: &str, text: &str| {
        let term = Term::new(Property::from_name(name), Case::AsIs);
        Filter::Extended(Extended::Text(TextTest::new(TextFunction::StartsWith, term, text)))
    };
    let is_in = |name: &str, texts: &[&str]| {
        let term = Term::new(Property::from_name(name), Case::AsIs);
        let values = texts.iter().map(|text| Value::String((*text).to_owned().into())).collect();
        Filter::Extended(Extended::In { term, values })
    };
    check(starts("PartitionKey", "p"), PlanKind::PartitionRange, 1);
    check(and(&[partition("eq", "p"), starts("RowKey", "r")]), PlanKind::RowRange, 1);
    check(and(&[partition("eq", "p"), is_in("RowKey", &["a", "b"])]), PlanKind::MultiPoint, 2);
    check(is_in("PartitionKey", &["a", "b", "a"]), PlanKind::Partition, 2);
    check(
        and(&[is_in("PartitionKey", &["a", "b"]), is_in("RowKey", &["c", "d"])]),
        PlanKind::MultiPoint,
        4,
    );
    check(not(starts("PartitionKey", "p")), PlanKind::Table, 1);
    check(not(is_in("PartitionKey", &["p"])), PlanKind::Table, 1);
    check(starts("Name", "p"), PlanKind::Table, 1);
    let rows = and(&[partition("eq", "p"), starts("RowKey", "r")]);
    let range = plan(&rows);
    assert!(range.conditions.is_empty(), "the range is exact");
    assert!(range.reads("p", "r") && range.reads("p", "r\u{FFFF}") && !range.reads("p", "s"));
}

/// Points are decided by their keys when the query is planned.
#[test]
fn points_leave_no_condition_on_keys() {
    let name = compare("Name", "eq", "x");
    let filter = and(&[
        partition("eq", "p"),
        or(&[row("eq", "a"), row("eq", "b"), row("eq", "c")]),
        row("ne", "b"),
        name.clone(),
    ]);
    let plan = plan(&filter);
    assert_eq!((plan.kind, plan.len()), (PlanKind::MultiPoint, 2));
    assert_eq!(plan.conditions, [&name]);
    check(and(&[partition("eq", "p"), row("eq", "r"), row("ne", "r")]), PlanKind::MultiPoint, 0);
}

#[test]
fn the_rest_reads_the_table() {
    for filter in [
        Filter::Constant(true),
        row("eq", "r"),
        compare("Name", "eq", "x"),
        partition("ne", "p"),
        or(&[partition("eq", "p"), compare("Name", "eq", "x")]),
        Filter::IsTrue(Property::PartitionKey),
    ] {
        check(filter, PlanKind::Table, 1);
    }
    assert_eq!(Plan::new(TABLE, None, &everything()).kind, PlanKind::Table);
}

#[test]
fn a_contradiction_reads_nothing() {
    for filter in [
        Filter::Constant(false),
        not(Filter::Constant(true)),
        and(&[partition("eq", "p"), partition("eq", "q")]),
        and(&[partition("gt", "p"), partition("lt", "p")]),
        and(&[partition("ge", "p"), partition("lt", "p"), row("eq", "r")]),
        and(&[Filter::Constant(false), partition("eq", "p")]),
    ] {
        check(filter, PlanKind::MultiPoint, 0);
    }
}

#[test]
fn points_and_ranges_together_are_ranges() {
    let point = and(&[partition("eq", "p"), row("eq", "r")]);
    check(or(&[point, partition("eq", "q")]), PlanKind::Partition, 2);
}

#[test]
fn a_surrogate_lies_below_the_end_of_the_basic_plane() {
    let filter = partition("lt", "\u{E000}");
    let plan = plan(&filter);
    assert!(plan.reads("🦀", "") && !plan.reads("\u{E000}", ""));
}

#[test]
fn limits_leave_what_is_inside() {
    let first = key::row_range(TABLE, "p", Bound::Included("b"), Bound::Unbounded);
    let limits = KeyRange::new(first.start, first.end);
    let rows = or(&[row("eq", "a"), row("eq", "b")]);
    let filter = and(&[partition("eq", "p"), rows]);
    let clipped = Plan::new(TABLE, Some(&filter), &limits);
    assert_eq!(clipped.kind, PlanKind::MultiPoint);
    assert_eq!(clipped.reads, Reads::Points(vec![key_of("p", "b").into()]));
    let filter = partition("ge", "a");
    let clipped = Plan::new(TABLE, Some(&filter), &limits);
    assert_eq!(clipped.reads, Reads::Ranges(vec![limits]));
}

#[test]
fn the_number_of_blocks_is_bounded() {
    let all = |make: fn(&str, &str) -> Filter| {
        let parts: Vec<_> = (0..65).map(|i| make("eq", &i.to_string())).collect();
        Filter::Or(parts)
    };
    // 65 × 65 points are too many: only the partitions restrict the reads.
    check(and(&[all(partition), all(row)]), PlanKind::Partition, 65);
    let many: Vec<_> = (0..=BLOCKS_MAX).map(|i| partition("eq", &i.to_string())).collect();
    check(or(&many), PlanKind::Table, 1);
    check(or(&many[1..]), PlanKind::Partition, BLOCKS_MAX);
}

/// An entity with one property that may be missing.
#[derive(Debug)]
struct Sample {
    partition: String,
    row: String,
    name: Option<String>,
}

impl Row for Sample {
    fn partition_key(&self) -> &str {
        &self.partition
    }

    fn row_key(&self) -> &str {
        &self.row
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn custom(&self, name: &str) -> Option<ValueRef<'_>> {
        let value = self.name.as_deref().filter(|_| name == "Name");
        value.map(ValueRef::String)
    }
}

/// Few texts, so that filters match entities; some where UTF-8 and UTF-16 order differ.
fn text() -> impl Strategy<Value = String> {
    let texts = ["", "a", "aa", "b", "\u{1}", "é", "\u{D7FF}", "\u{E000}", "\u{FFFF}", "🦀", "🦀a"];
    select(texts.map(str::to_owned).to_vec())
}

fn sample() -> impl Strategy<Value = Sample> {
    let fields = (text(), text(), prop::option::of(text()));
    fields.prop_map(|(partition, row, name)| Sample { partition, row, name })
}

fn leaf() -> impl Strategy<Value = Filter> {
    let names = ["PartitionKey", "PartitionKey", "RowKey", "RowKey", "Name", "Timestamp"];
    let value = prop_oneof![
        9 => text().prop_map(|text| Value::String(text.into())),
        1 => any::<i32>().prop_map(Value::Int32),
    ];
    let comparison = (select(names.to_vec()), select(Operator::ALL.to_vec()), value);
    prop_oneof![
        9 => comparison.prop_map(|(name, operator, value)| Filter::Compare {
            property: Property::from_name(name),
            operator,
            value,
        }),
        3 => extended(),
        1 => any::<bool>().prop_map(Filter::Constant),
        1 => select(names.to_vec()).prop_map(|name| Filter::IsTrue(Property::from_name(name))),
    ]
}

fn extended() -> impl Strategy<Value = Filter> {
    let names = ["PartitionKey", "PartitionKey", "RowKey", "RowKey", "Name", "Timestamp"];
    let cases = vec![Case::AsIs, Case::AsIs, Case::AsIs, Case::Lower, Case::Upper];
    let term = (select(names.to_vec()), select(cases))
        .prop_map(|(name, case)| Term::new(Property::from_name(name), case));
    let function = select(TextFunction::ALL.to_vec());
    let values = prop::collection::vec(text().prop_map(|t| Value::String(t.into())), 1..4);
    let operator = select(Operator::ALL.to_vec());
    let condition = prop_oneof![
        (function, term.clone(), text())
            .prop_map(|(f, term, text)| Extended::Text(TextTest::new(f, term, text))),
        (term.clone(), values).prop_map(|(term, values)| Extended::In { term, values }),
        (term, operator, text()).prop_map(|(term, operator, text)| {
            Extended::Compare { term, operator, text: text.into() }
        }),
    ];
    condition.prop_map(Filter::Extended)
}

fn filter() -> impl Strategy<Value = Filter> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let parts = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            inner.prop_map(not),
            parts.clone().prop_map(Filter::And),
            parts.prop_map(Filter::Or),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn a_plan_misses_nothing_that_its_filter_selects(
        filter in filter(), samples in prop::collection::vec(sample(), 1..24),
    ) {
        let plan = plan(&filter);
        for sample in &samples {
            if filter.matches(sample) {
                prop_assert!(plan.reads(&sample.partition, &sample.row), "{:?}", sample);
            }
        }
    }

    #[test]
    fn what_is_read_and_keeps_the_conditions_is_what_the_filter_selects(
        filter in filter(), samples in prop::collection::vec(sample(), 1..24),
    ) {
        let plan = plan(&filter);
        for sample in &samples {
            let selected = plan.reads(&sample.partition, &sample.row)
                && plan.conditions.iter().all(|condition| condition.matches(sample));
            prop_assert_eq!(selected, filter.matches(sample), "{:?} {:?}", filter, sample);
        }
    }

    #[test]
    fn a_plan_reads_in_key_order_and_nothing_twice(filter in filter()) {
        match plan(&filter).reads {
            Reads::Points(keys) => prop_assert!(keys.is_sorted_by(|a, b| a < b)),
            Reads::Ranges(ranges) => {
                prop_assert!(ranges.iter().all(|range| !range.is_empty()));
                prop_assert!(ranges.is_sorted_by(|a, b| a.end < b.start));
            }
        }
    }
}

#[test]
fn a_range_reads_only_what_its_filter_selects() {
    let ends =
        ["eq", "gt", "ge", "lt", "le"].map(|operator| ["a", "b"].map(|text| (operator, text)));
    let ends = ends.concat();
    for (first, second) in ends.iter().flat_map(|a| ends.iter().map(move |b| (a, b))) {
        let rows = [partition("eq", "p"), row(first.0, first.1), row(second.0, second.1)];
        let partitions = [partition(first.0, first.1), partition(second.0, second.1)];
        for text in ["", "a", "aa", "b", "c"] {
            let sample = |partition: &str, row: &str| Sample {
                partition: partition.into(),
                row: row.into(),
                name: None,
            };
            for (filter, sample) in [
                (and(&rows), sample("p", text)),
                (not(or(&rows.clone().map(not))), sample("p", text)),
                (and(&partitions), sample(text, "r")),
            ] {
                let reads = plan(&filter).reads(&sample.partition, &sample.row);
                assert_eq!(reads, filter.matches(&sample), "{filter:?} {sample:?}");
            }
        }
    }
}
