use super::*;
use proptest::prelude::*;

fn written(write: impl FnOnce(&mut String)) -> String {
    let mut out = String::new();
    write(&mut out);
    out
}

#[test]
fn numbers_are_written_as_the_table_says() {
    // C-4.2.
    assert_eq!(written(|out| 223_u32.write_width(out, 6).unwrap()), "000223");
    assert_eq!(u32::parse_width("000223", 6), Some(223));
    let mut out = String::new();
    assert_eq!(
        1_000_000_u32.write_width(&mut out, 6),
        Err(KeyError::TooWide { value: 1_000_000, width: 6 })
    );
    assert_eq!(out, "", "never cut");
    assert_eq!(written(|out| 999_999_u32.write_width(out, 6).unwrap()), "999999");
    assert_eq!(written(|out| 0_u8.write_width(out, 1).unwrap()), "0");

    assert_eq!(written(|out| 7_u8.write_pad(out)), "007");
    assert_eq!(written(|out| u64::MAX.write_pad(out)), "18446744073709551615");
    assert_eq!(written(|out| (-1_i32).write_pad(out)), "2147483647");
    assert_eq!(written(|out| (-1_i64).write_pad(out)), "09223372036854775807");
    assert_eq!(written(|out| i32::MIN.write_pad(out)), "0000000000");
    assert_eq!(written(|out| 0_u16.write_rev(out).unwrap()), "65535");
    assert_eq!(written(|out| 10_u32.write_text(out, None)), "10");
    assert_eq!(
        (u32::parse_text("10"), u32::parse_text("010"), u32::parse_text("")),
        (Some(10), None, None)
    );
}

#[test]
fn times_are_written_as_the_table_says() {
    let time = Timestamp::parse("2014-08-22T00:50:32Z").unwrap();
    assert_eq!(written(|out| time.write_rev(out).unwrap()), "2519936321679999999");
    assert_eq!(Timestamp::parse_rev("2519936321679999999"), Some(time));
    for (calendar, text) in [
        (Calendar::Month, "201408"),
        (Calendar::Date, "20140822"),
        (Calendar::Hour, "2014082200"),
        (Calendar::Minute, "201408220050"),
    ] {
        assert_eq!(written(|out| calendar.write(out, &time).unwrap()), text);
        assert_eq!(text.len(), calendar.width());
    }
    let system: SystemTime =
        parse_time_ticks(&written(|out| write_time_ticks(out, &time).unwrap())).unwrap();
    assert_eq!(system.to_timestamp(), Ok(time));
    let early = SystemTime::UNIX_EPOCH - std::time::Duration::from_secs(370 * 365 * 86_400);
    assert_eq!(early.write_rev(&mut String::new()), Err(KeyError::TimeOutOfRange));
}

#[test]
fn ids_and_texts_are_written_as_the_table_says() {
    let guid = Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap();
    assert_eq!(written(|out| guid.write_text(out, None)), "c9da6455-213d-42c9-9a79-3e9149a57833");
    assert_eq!(written(|out| guid.write_hex(out)), "c9da6455213d42c99a793e9149a57833");
    assert_eq!(Guid::parse_text("C9DA6455-213D-42C9-9A79-3E9149A57833"), None, "one text each");
    assert_eq!(Vec::parse_hex("0aff"), Some(vec![10, 255]));
    for text in ["0", "0A", "0g", "é"] {
        assert_eq!(Vec::parse_hex(text), None, "{text}");
    }
    let name = "R_D/É".to_owned();
    assert_eq!(written(|out| name.write_text(out, Some('_'))), "R~5FD~2FÉ");
    assert_eq!(written(|out| name.write_lower(out, None)), "r_d~2Fé");
    assert_eq!(written(|out| "Sales".to_owned().write_bucket(out, 16)), "07");
    assert_eq!(written(|out| KeyText::write_bucket(&"000123".to_owned(), out, 16)), "09");
}

proptest! {
    #[test]
    fn parts_read_back_and_sort(a in any::<i64>(), b in any::<i64>(), c in any::<u64>(), d in any::<u64>()) {
        let [x, y] = [a, b].map(|value| written(|out| value.write_pad(out)));
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!(i64::parse_pad(&x), Some(a));
        let [x, y] = [c, d].map(|value| written(|out| value.write_rev(out).unwrap()));
        prop_assert_eq!(x.cmp(&y), d.cmp(&c));
        prop_assert_eq!(u64::parse_rev(&x), Some(c));
        let text = written(|out| c.write_text(out, None));
        prop_assert_eq!(u64::parse_text(&text), Some(c));
    }

    #[test]
    fn texts_read_back(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        let key = written(|out| text.write_text(out, Some('_')));
        prop_assert!(!key.contains('_'));
        prop_assert_eq!(String::parse_text(&key), Some(text));
        prop_assert_eq!(Vec::parse_hex(&written(|out| bytes.write_hex(out))), Some(bytes));
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in any::<String>()) {
        let _ = (String::parse_text(&text), u8::parse_text(&text), Guid::parse_text(&text));
        let _ = (u8::parse_pad(&text), i32::parse_pad(&text), u16::parse_rev(&text));
        let _ = (Vec::parse_hex(&text), Guid::parse_hex(&text), Timestamp::parse_rev(&text));
    }
}
