use super::*;
use lazuli_model::key::compare;
use proptest::prelude::*;
use proptest::sample::select;

const TABLE: TableId = TableId(7);

/// Similar texts, around every place where the orders could differ: the escapes, the length
/// boundaries of UTF-8, surrogates against U+E000 to U+FFFF.
fn text() -> impl Strategy<Value = String> {
    let characters = vec![
        '\0',
        '\u{1}',
        '\u{2}',
        'a',
        'b',
        '\u{7E}',
        '\u{A0}',
        '\u{7FF}',
        '\u{800}',
        '\u{D7FF}',
        '\u{E000}',
        '\u{FFFF}',
        '\u{10000}',
        '\u{10FFFF}',
    ];
    prop::collection::vec(select(characters), 0..4).prop_map(|chars| chars.into_iter().collect())
}

fn bound() -> impl Strategy<Value = Bound<String>> {
    prop_oneof![
        text().prop_map(Bound::Included),
        text().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

fn borrowed(bound: &Bound<String>) -> Bound<&str> {
    bound.as_ref().map(String::as_str)
}

fn is_within(text: &str, low: Bound<&str>, high: Bound<&str>) -> bool {
    let above = match low {
        Bound::Included(low) => compare(low, text).is_le(),
        Bound::Excluded(low) => compare(low, text).is_lt(),
        Bound::Unbounded => true,
    };
    let below = match high {
        Bound::Included(high) => compare(text, high).is_le(),
        Bound::Excluded(high) => compare(text, high).is_lt(),
        Bound::Unbounded => true,
    };
    above && below
}

/// The key of an entity with arbitrary keys, even those that no client may store.
fn key_of(partition: &str, row: &str) -> Vec<u8> {
    row_range(TABLE, partition, Bound::Included(row), Bound::Unbounded).start
}

proptest! {
    #[test]
    fn key_order_is_byte_order(a in (text(), text()), b in (text(), text())) {
        let expect = compare(&a.0, &b.0).then_with(|| compare(&a.1, &b.1));
        prop_assert_eq!(key_of(&a.0, &a.1).cmp(&key_of(&b.0, &b.1)), expect);
    }

    #[test]
    fn a_key_decodes_to_what_it_encodes(partition in text(), row in text()) {
        let key = key_of(&partition, &row);
        let decoded = decode_entity(&key).unwrap();
        prop_assert_eq!(decoded.table, TABLE);
        prop_assert_eq!((&*decoded.partition, &*decoded.row), (&*partition, &*row));
    }

    #[test]
    fn keys_of_the_model_encode_alike(partition in "[a-z\u{A0}-\u{FFFF}]{0,9}", row in "[%-.]{0,9}") {
        let key = EntityKey::parse(&partition, &row).unwrap();
        prop_assert_eq!(entity(TABLE, &key), key_of(&partition, &row));
    }

    #[test]
    fn only_what_is_encoded_so_decodes(
        texts in prop::collection::vec(prop_oneof![any::<u8>(), select(vec![0, 1, 2, 0xEE, 0xF5])], 0..8),
    ) {
        let key = [b"Le\0\0\0\0\0\0\0\x07", &texts[..]].concat();
        if let Ok(decoded) = decode_entity(&key) {
            prop_assert_eq!(key_of(&decoded.partition, &decoded.row), key);
        }
    }

    #[test]
    fn decoding_survives_any_bytes(bytes in any::<Vec<u8>>()) {
        let _ = decode_entity(&bytes);
        let _ = decode_reclaim(&bytes);
    }

    #[test]
    fn a_range_of_rows_holds_exactly_its_rows(
        partition in text(), row in text(), of in text(), low in bound(), high in bound(),
    ) {
        let (low, high) = (borrowed(&low), borrowed(&high));
        let expect = partition == of && is_within(&row, low, high);
        let key = key_of(&partition, &row);
        prop_assert_eq!(row_range(TABLE, &of, low, high).contains(&key), expect);
    }

    #[test]
    fn a_range_of_partitions_holds_exactly_its_partitions(
        partition in text(), row in text(), low in bound(), high in bound(),
    ) {
        let (low, high) = (borrowed(&low), borrowed(&high));
        let expect = is_within(&partition, low, high);
        let key = key_of(&partition, &row);
        prop_assert_eq!(partition_range(TABLE, low, high).contains(&key), expect);
    }

    #[test]
    fn a_range_of_names_holds_exactly_its_names(
        name in "[a-c][a-c0]{2,4}", low in bound(), high in bound(),
    ) {
        let account = AccountName::parse("acct").unwrap();
        let (low, high) = (borrowed(&low), borrowed(&high));
        let key = catalog(&account, &name);
        prop_assert_eq!(catalog_range(&account, low, high).contains(&key), is_within(&name, low, high));
    }

    #[test]
    fn tables_do_not_overlap(id in any::<u64>(), partition in text(), row in text()) {
        let key = row_range(TableId(id), &partition, Bound::Included(&row), Bound::Unbounded).start;
        prop_assert!(table_range(TableId(id)).contains(&key));
        prop_assert!(!table_range(TableId(id.wrapping_add(1))).contains(&key));
        prop_assert!(!table_range(TableId(id.wrapping_sub(1))).contains(&key));
    }
}

#[test]
fn ordinary_keys_are_borrowed() {
    let key = key_of("customer-é-🦀", "order 12");
    let decoded = decode_entity(&key).unwrap();
    assert!(matches!(decoded.partition, Cow::Borrowed(_)));
    assert!(matches!(decoded.row, Cow::Borrowed(_)));
}

#[test]
fn accounts_do_not_overlap_when_one_begins_the_other() {
    let [short, long] = ["acct", "acct-1"].map(|name| AccountName::parse(name).unwrap());
    let all = catalog_range(&short, Bound::Unbounded, Bound::Unbounded);
    assert!(all.contains(&catalog(&short, "zzz")));
    assert!(!all.contains(&catalog(&long, "aaa")));
}

#[test]
fn the_end_of_a_range_does_not_grow_with_the_text() {
    let longest = "\u{FFFD}".repeat(KEY_UTF16_UNITS_MAX);
    let longer = format!("{longest}{}", "x".repeat(100_000));
    let key = entity(TABLE, &EntityKey::parse(&longest, &longest).unwrap());
    let above = partition_range(TABLE, Bound::Included(&longer), Bound::Unbounded);
    let below = partition_range(TABLE, Bound::Unbounded, Bound::Excluded(&longer));
    assert!(above.start.len() < 2000 && below.end.len() < 2000);
    assert!(!above.contains(&key) && below.contains(&key));
}
