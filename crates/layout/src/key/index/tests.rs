use super::*;
use crate::key;
use lazuli_model::{EntityKey, Guid, Timestamp, Value};
use proptest::prelude::*;
use std::cmp::Ordering;

const INDEX: IndexId = IndexId { table: TableId(7), number: 2 };

const ENTRIES: Entries = Entries { index: INDEX, value_bytes_max: INDEXED_BYTES_MAX };
const SHORT_ENTRIES: Entries = Entries { value_bytes_max: SHORT_INDEXED_BYTES_MAX, ..ENTRIES };

fn encoded(value: ValueRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    ENTRIES.push_value(&mut out, value);
    out
}

fn entries() -> impl Strategy<Value = Entries> {
    prop::sample::select(vec![ENTRIES, SHORT_ENTRIES])
}

fn value() -> impl Strategy<Value = Value<'static>> {
    let ticks = 0..=Timestamp::MAX.ticks();
    prop_oneof![
        any::<String>().prop_map(Value::from),
        "[ab\u{0}\u{1}\u{e000}\u{10000}]{0,3}".prop_map(Value::from),
        "[a\u{0}]{240,260}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3_i32..3).prop_map(|n| Value::from(f64::from(n) / 2.0)),
        prop::sample::select(vec![-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])
            .prop_map(Value::from),
        ticks.prop_map(|ticks| Value::from(Timestamp::from_ticks(ticks).unwrap())),
        any::<[u8; 16]>().prop_map(|bytes| Value::from(Guid(bytes))),
        prop::collection::vec(0_u8..3, 0..4).prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..600).prop_map(Value::from),
    ]
}

proptest! {
    /// entries sort as filters compare.
    #[test]
    fn encoding_preserves_order((a, b) in (value(), value())) {
        let (a, b) = (a.as_ref(), b.as_ref());
        let order = encoded(a).cmp(&encoded(b));
        match a.compare(b) {
            Some(Ordering::Equal) => prop_assert_eq!(order, Ordering::Equal),
            Some(Ordering::Less) => prop_assert_ne!(order, Ordering::Greater),
            Some(Ordering::Greater) => prop_assert_ne!(order, Ordering::Less),
            None => {}
        }
    }

    /// Every value that satisfies a comparison lies in its range.
    #[test]
    fn a_range_misses_nothing((found, literal) in (value(), value()), entries in entries()) {
        let (found, literal) = (found.as_ref(), literal.as_ref());
        let entry = entries.prefix([found]);
        for operator in Operator::ALL {
            let range = entries.compared(entries.prefix([]), operator, literal);
            if operator.holds(found, literal) {
                prop_assert!(range.contains(&entry), "{found:?} {operator:?} {literal:?}");
            }
        }
    }

    #[test]
    fn a_beginning_misses_nothing(
        text in prop_oneof!["[ab\u{0}é]{0,5}", "[ab]{240,260}"],
        more in any::<String>(),
        entries in entries(),
    ) {
        let entry = entries.prefix([ValueRef::String(&format!("{text}{more}"))]);
        prop_assert!(entries.beginning_with(entries.prefix([]), &text).contains(&entry));
    }

    #[test]
    fn an_entry_names_its_entity(
        values in prop::collection::vec(value(), 1..=4),
        (partition, row) in ("[a-c\u{e000}]{0,4}", "[a-c]{0,4}"),
        entries in entries(),
    ) {
        let entity = key::entity(TableId(7), &EntityKey::parse(&partition, &row).unwrap());
        let (table, named) = split_entity(&entity).unwrap();
        prop_assert_eq!(table, TableId(7));
        prop_assert_eq!(&join_entity(table, named), &entity);
        let mut entry = entries.prefix(values.iter().map(Value::as_ref));
        prop_assert!(entry.len() <= 14 + values.len() * (entries.value_bytes_max + 2));
        entry.extend_from_slice(named);
        prop_assert_eq!(entity_of_entry(&entry, values.len()).unwrap(), named);
        prop_assert!(INDEX.entries().contains(&entry));
    }

    /// values are equal if `eq` finds their full values equal.
    #[test]
    fn owners_differ_exactly_if_values_do((a, b) in (value(), value())) {
        let (a, b) = (a.as_ref(), b.as_ref());
        match (owner(INDEX, [a]), owner(INDEX, [b])) {
            (Some(x), Some(y)) => prop_assert_eq!(x == y, a.equals(b)),
            // Only a NaN has no owner.
            _ => prop_assert!(!a.equals(a) || !b.equals(b)),
        }
    }
}

/// the shared stores accept no longer keys.
#[test]
fn the_longest_entry_fits_into_the_keys_of_every_engine() {
    let longest = "\u{ffff}".repeat(lazuli_model::limits::KEY_UTF16_UNITS_MAX);
    let entity = key::entity(TableId(7), &EntityKey::parse(&longest, &longest).unwrap());
    let (_, named) = split_entity(&entity).unwrap();
    let long = "x".repeat(300);
    let bytes = |entries: Entries, values| {
        let value = ValueRef::String(&long);
        entries.prefix(std::iter::repeat_n(value, values)).len() + named.len()
    };
    assert_eq!(bytes(ENTRIES, 3), 3861);
    assert_eq!(bytes(SHORT_ENTRIES, 4), 4087);
    assert!(bytes(ENTRIES, 4) > key::KEY_BYTES_MAX);
    // A bound of a range is one byte longer.
    assert!(bytes(SHORT_ENTRIES, 4) < key::KEY_BYTES_MAX);
    let moment = key::expiry::moment(INDEX, u64::MAX, named);
    assert!(moment.len() < key::KEY_BYTES_MAX);
}

#[test]
fn numbers_beyond_the_precision_of_a_double_have_different_owners() {
    let two_to_53 = 1_i64 << 53;
    let (a, b) = (ValueRef::Int64(two_to_53), ValueRef::Int64(two_to_53 + 1));
    assert_eq!(encoded(a), encoded(b));
    assert_ne!(owner(INDEX, [a]), owner(INDEX, [b]));
    assert_eq!(owner(INDEX, [a]), owner(INDEX, [ValueRef::Double(two_to_53 as f64)]));
    let zeros = [ValueRef::Int32(0), ValueRef::Double(-0.0)].map(|zero| owner(INDEX, [zero]));
    assert_eq!(zeros[0], zeros[1]);
    assert_eq!(owner(INDEX, [ValueRef::Double(f64::NAN)]), None);
}

#[test]
fn values_are_not_confused_with_their_neighbours() {
    let texts = |a, b| owner(INDEX, [ValueRef::String(a), ValueRef::String(b)]);
    assert_ne!(texts("ab", "c"), texts("a", "bc"));
}

#[test]
fn foreign_bytes_are_corrupt() {
    for key in [&b"Li"[..], b"Li\0\0\0\0\0\0\0\x07\0\0\0\x02\x60abc", b"Le\0\0\0\0\0\0\0\x07"] {
        assert!(entity_of_entry(key, 1).is_err(), "{key:?}");
    }
    assert!(decode_build(b"Lb\0\0\0\0\0\0\0\x07\0\0").is_err());
    assert_eq!(decode_build(&INDEX.build()).unwrap(), INDEX);
    assert_eq!(decode_dropped(&INDEX.dropped()).unwrap(), INDEX);
}
