use super::*;
use lazuli_model::Value;
use proptest::prelude::*;

type Pairs = Vec<(String, Value<'static>)>;

fn value() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        any::<String>().prop_map(|v| Value::String(v.into())),
        any::<bool>().prop_map(Value::Boolean),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        // NaN is not equal to itself; its bits are kept, as the golden bytes show.
        prop::num::f64::ANY.prop_filter("a number", |v| !v.is_nan()).prop_map(Value::Double),
        (0..=Timestamp::MAX.ticks())
            .prop_map(|ticks| Value::DateTime(Timestamp::from_ticks(ticks).unwrap())),
        any::<[u8; 16]>().prop_map(|v| Value::Guid(Guid(v))),
        any::<Vec<u8>>().prop_map(|v| Value::Binary(v.into())),
    ]
}

fn pairs() -> impl Strategy<Value = Pairs> {
    prop::collection::vec(("[a-cé\u{A015}]{0,3}", value()), 0..9)
}

fn encode_pairs(pairs: &Pairs) -> Vec<u8> {
    encode(pairs.iter().map(|(name, value)| (name.as_str(), value.as_ref())))
}

/// Calls every method of a record; none may panic.
fn exercise(bytes: &[u8]) {
    if let Ok(record) = EntityRecord::parse(bytes) {
        let verified = record.verify().is_ok();
        assert_eq!(record.decode().is_ok(), verified);
        assert_eq!(record.iter().count() == record.len(), verified);
        for name in ["", "a", "é"] {
            let _ = record.find(name);
        }
    }
}

proptest! {
    #[test]
    fn a_record_holds_what_was_given_in_its_order(pairs in pairs()) {
        let bytes = encode_pairs(&pairs);
        let record = EntityRecord::parse(&bytes).unwrap();
        record.verify().unwrap();
        let given: Vec<_> =
            pairs.iter().map(|(name, value)| (name.as_str(), value.as_ref())).collect();
        prop_assert_eq!(record.decode().unwrap(), record.iter().collect::<Vec<_>>());
        prop_assert_eq!((record.len(), record.is_empty()), (pairs.len(), pairs.is_empty()));
        prop_assert_eq!(record.iter().collect::<Vec<_>>(), given);
    }

    #[test]
    fn find_is_the_first_of_its_name(pairs in pairs(), name in "[a-cé]{0,2}") {
        let bytes = encode_pairs(&pairs);
        let record = EntityRecord::parse(&bytes).unwrap();
        let expect = record.iter().find(|(n, _)| *n == name).map(|(_, value)| value);
        prop_assert_eq!(record.find(&name), expect);
    }

    #[test]
    fn any_bytes_are_a_record_or_corrupt(bytes in any::<Vec<u8>>()) {
        exercise(&bytes);
        exercise(&[&[VERSION, FLAGS, 2, 0], &bytes[..]].concat());
    }

    #[test]
    fn changed_bytes_are_a_record_or_corrupt(
        pairs in pairs(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = encode_pairs(&pairs);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        exercise(&bytes);
    }

    #[test]
    fn lost_and_added_bytes_are_corrupt(pairs in pairs(), len in any::<prop::sample::Index>()) {
        let mut bytes = encode_pairs(&pairs);
        let len = len.index(bytes.len());
        prop_assert_eq!(EntityRecord::parse(&bytes[..len]).err(), Some(CORRUPT));
        bytes.push(0);
        prop_assert_eq!(EntityRecord::parse(&bytes).err(), Some(CORRUPT));
    }
}

#[track_caller]
fn check_corrupt(name: &str, value: ValueRef<'_>, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = encode([(name, value)].into_iter());
    change(&mut bytes);
    let verified = EntityRecord::parse(&bytes).and_then(|record| record.verify());
    assert_eq!(verified, Err(CORRUPT));
}

#[test]
fn another_version_is_corrupt() {
    check_corrupt("a", ValueRef::Int32(1), |bytes| bytes[0] = 2);
    check_corrupt("a", ValueRef::Int32(1), |bytes| bytes[1] = 1);
}

#[test]
fn a_value_that_its_type_does_not_have_is_corrupt() {
    let last = |byte| move |bytes: &mut Vec<u8>| *bytes.last_mut().unwrap() = byte;
    check_corrupt("a", ValueRef::Boolean(true), last(2));
    check_corrupt("a", ValueRef::String("x"), last(0xFF));
    check_corrupt("a", ValueRef::DateTime(Timestamp::MAX), last(0xFF));
}

#[test]
fn a_width_that_its_type_does_not_have_is_corrupt() {
    // The type of the only header becomes Int64: four bytes are too few.
    check_corrupt("a", ValueRef::Int32(1), |bytes| bytes[5] = 0x40);
    check_corrupt("a", ValueRef::Int32(1), |bytes| bytes[5] = 0x00);
}

#[test]
fn a_name_cut_within_a_character_is_corrupt() {
    let bytes = encode([("é", ValueRef::Binary(b"")), ("x", ValueRef::Binary(b""))].into_iter());
    let mut cut = bytes.clone();
    // One byte moves from the first name to the second.
    (cut[4], cut[10]) = (1, 2);
    assert_eq!(EntityRecord::parse(&bytes).unwrap().verify(), Ok(()));
    assert_eq!(EntityRecord::parse(&cut).unwrap().verify(), Err(CORRUPT));
}

#[test]
fn the_largest_names_and_counts_fit() {
    let name = "\u{FFFD}".repeat(255);
    let pairs: Pairs = (0..252).map(|i| (format!("{i}{name}"), Value::Int32(i))).collect();
    let bytes = encode_pairs(&pairs);
    let record = EntityRecord::parse(&bytes).unwrap();
    assert_eq!(record.find(&format!("251{name}")), Some(ValueRef::Int32(251)));
}

#[test]
fn the_bytes_are_fixed() {
    let guid = Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap();
    let properties = [
        ("s", ValueRef::String("é")),
        ("b", ValueRef::Boolean(true)),
        ("i", ValueRef::Int32(-2)),
        ("l", ValueRef::Int64(1 << 40)),
        ("d", ValueRef::Double(f64::NAN)),
        ("t", ValueRef::DateTime(Timestamp::UNIX_EPOCH)),
        ("g", ValueRef::Guid(guid)),
        ("x", ValueRef::Binary(&[0, 0xFF])),
    ];
    let expect = concat!(
        "01000800",
        "011002000000",
        "012003000000",
        "013007000000",
        "01400f000000",
        "015017000000",
        "01601f000000",
        "01702f000000",
        "018031000000",
        "7362696c64746778",
        "c3a9",
        "01",
        "feffffff",
        "0000000000010000",
        "000000000000f87f",
        "0080b5f7f57f9f08",
        "c9da6455213d42c99a793e9149a57833",
        "00ff",
    );
    let hex: String = encode(properties.into_iter()).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, expect);
}
