use super::*;
use crate::{col, partition, row};
use lazuli_model::Row;
use lazuli_model::Timestamp;
use lazuli_model::ValueRef;
use proptest::prelude::*;

fn class_of(filter: crate::Filter) -> QueryClass {
    class(Some(&filter.0), parts(&filter.0).len())
}

fn either(rows: impl IntoIterator<Item = &'static str>) -> crate::Filter {
    rows.into_iter().map(|key| row().eq(key)).reduce(crate::Filter::or).unwrap()
}

#[test]
fn classes_follow_from_the_keys_a_filter_names() {
    // C-7.5, PS-20.2.
    let sales = || partition("Sales");
    for (filter, expected) in [
        (sales() & row().eq("121"), QueryClass::Point),
        (sales() & either(["121", "322"]), QueryClass::MultiPoint),
        (sales() & row().ge("S") & row().lt("T"), QueryClass::Range),
        (sales() & col("LastName").eq("Smith"), QueryClass::PartitionScan),
        (col("PartitionKey").ge("S") & col("PartitionKey").lt("T"), QueryClass::PartitionRange),
        (col("LastName").eq("Jones"), QueryClass::TableScan),
        (either(["121", "322"]), QueryClass::TableScan),
        (!sales(), QueryClass::TableScan),
        (sales() | partition("Marketing"), QueryClass::PartitionScan),
        ((sales() | partition("Marketing")) & row().starts_with("a"), QueryClass::Range),
        (sales() & (row().eq("1") | col("Age").gt(3)), QueryClass::PartitionScan),
        (sales() & (row().lt("b") | row().gt("d")), QueryClass::Range),
        (sales() | col("Age").gt(3), QueryClass::TableScan),
    ] {
        assert_eq!(class_of(filter.clone()), expected, "{filter}");
    }
    assert_eq!(class(None, 1), QueryClass::TableScan);
    let written = |filter: crate::Filter| class(Some(&filter.0), 1);
    assert_eq!(written(sales() & either(["1", "2"])), QueryClass::PartitionScan);
    assert_eq!(written(sales() | partition("Marketing")), QueryClass::TableScan);
}

#[test]
fn parts_name_their_partition_and_come_in_key_order() {
    let text = |filter: crate::Filter| -> Vec<String> {
        let text = |part: Part| match part {
            Part::Point(key) => format!("({}, {})", key.partition, key.row),
            Part::Query(filter) => crate::Filter::from(filter.unwrap()).to_string(),
        };
        parts(&filter.0).into_iter().map(text).collect()
    };
    let points = partition("Sales") & either(["b", "a", "b", "\u{10000}", "\u{E000}"]);
    assert_eq!(
        text(points),
        ["(Sales, a)", "(Sales, b)", "(Sales, \u{10000})", "(Sales, \u{E000})"]
    );
    let old = col("Age").gt(60);
    let two = (partition("b") | (partition("a") & row().eq("1"))) & old;
    assert_eq!(
        text(two),
        [
            "PartitionKey eq 'a' and RowKey eq '1' and Age gt 60",
            "PartitionKey eq 'b' and Age gt 60"
        ]
    );
    let same = (partition("a") & row().eq("1")) | (partition("a") & col("Age").gt(60));
    assert_eq!(text(same), ["PartitionKey eq 'a' and (Age gt 60 or RowKey eq '1')"]);
    let plain = col("Age").gt(60) & partition("a");
    assert_eq!(text(plain), ["Age gt 60 and PartitionKey eq 'a'"], "sent as it was written");
    assert_eq!(text(partition("a") & partition("b")), [""; 0], "no key is both");
    assert_eq!(text(partition("a/b") & either(["1", "2"])).len(), 2, "no entity has this key");
}

#[test]
fn hints_say_what_could_be_better() {
    // C-7.13, C-7.14.
    let hints_of = |filter: crate::Filter, cut: bool| {
        let all = parts(&filter.0);
        let all = if cut { all } else { vec![Part::Query(Some(filter.0.clone()))] };
        hints(Some(&filter.0), class(Some(&filter.0), all.len()), &all)
    };
    let rows = || partition("Sales") & either(["1", "2"]);
    assert_eq!(hints_of(rows(), true), [Hint::OnePartition]);
    assert_eq!(hints_of(rows(), false), [Hint::ScansPartition, Hint::OrOfKeys]);
    assert_eq!(hints_of(partition("a") & row().ge("b"), true), []);
    let many = (0..16).fold(partition("a") & row().ge("b"), |f, n| f & col("N").gt(n));
    assert_eq!(hints_of(many, true), [Hint::ManyComparisons(18)]);
    let ne = partition("a")
        & row().ge("b")
        & col("Name").ne("x")
        & crate::timestamp().ge(Timestamp::MIN);
    assert_eq!(
        hints_of(ne, true),
        [Hint::NeNeedsProperty("Name".into()), Hint::TimestampHasNoIndex]
    );
    assert_eq!(hints_of(col("A").eq(1), true), [Hint::ScansTable]);
}

struct Sample(&'static str, &'static str, i32);

impl Row for Sample {
    fn partition_key(&self) -> &str {
        self.0
    }
    fn row_key(&self) -> &str {
        self.1
    }
    fn timestamp(&self) -> Timestamp {
        Timestamp::MIN
    }
    fn custom(&self, name: &str) -> Option<ValueRef<'_>> {
        (name == "A").then_some(ValueRef::Int32(self.2))
    }
}

/// Around the boundary where the order of UTF-16 is not that of UTF-8 (T-3.19).
const KEYS: [&str; 5] = ["", "a", "b", "\u{10000}", "\u{E000}"];

fn filters() -> impl Strategy<Value = crate::Filter> {
    let key = prop::sample::select(KEYS.to_vec());
    let leaf = prop_oneof![
        3 => key.clone().prop_map(partition),
        3 => key.clone().prop_map(|key| row().eq(key)),
        1 => key.prop_map(|key| row().ge(key)),
        1 => (0..3).prop_map(|number| col("A").eq(number)),
        1 => any::<bool>().prop_map(|value| crate::Filter::from(Filter::Constant(value))),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| a & b),
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| a | b),
            1 => inner.prop_map(|filter| !filter),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn parts_are_disjoint_in_order_and_together_the_filter(filter in filters()) {
        let parts = parts(&filter.0);
        let matches = |part: &Part, row: &Sample| match part {
            Part::Point(key) => key.partition.as_str() == row.0 && key.row.as_str() == row.1,
            Part::Query(filter) => filter.as_ref().is_none_or(|filter| filter.matches(row)),
        };
        let rows = KEYS.iter().flat_map(|p| KEYS.iter().map(move |r| (*p, *r)));
        let mut last = 0;
        for (partition, row) in rows {
            for number in 0..3 {
                let sample = Sample(partition, row, number);
                let found: Vec<_> =
                    (0..parts.len()).filter(|at| matches(&parts[*at], &sample)).collect();
                prop_assert_eq!(found.len(), usize::from(filter.0.matches(&sample)));
                if let [part] = *found {
                    prop_assert!(part >= last, "part {} after {}", part, last);
                    last = part;
                }
            }
        }
    }
}
