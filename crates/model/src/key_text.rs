//! Building blocks of key text: the end of a prefix, escaped fields, inverted ticks, buckets.
//!
//! Stored keys depend on every function here. Their results must never change.

use crate::digits::{digits8, zeros_at_front};
use crate::key::is_forbidden;
use crate::time::Timestamp;
use std::fmt::Write;

/// The first text after all keys that begin with `prefix`, in the order of keys; `None` if there is no
/// such text, because every longer key begins with `prefix` (C-4.7).
///
/// Keys `k` with `prefix <= k < end` are exactly those that begin with `prefix`.
pub fn prefix_end(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        if let Some(next) = next_allowed(last) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// The character after `c` in the order of UTF-16 that a key may hold; `None` after U+FFFF, the last.
fn next_allowed(c: char) -> Option<char> {
    let next = match c {
        // Supplementary characters are written with the code units D800 to DFFF.
        '\u{D7FF}' => '\u{10000}',
        '\u{10FFFF}' => '\u{E000}',
        '\u{FFFF}' => return None,
        other => char::from_u32(u32::from(other) + 1)?,
    };
    if is_forbidden(next) { next_allowed(next) } else { Some(next) }
}

const ESCAPE: char = '~';

/// Appends `text` so that a key may hold it: `~` and two upper-case hexadecimal digits stand for each
/// byte of a forbidden character, of `~` and of `separator`, the character that ends the field (C-4.5).
pub fn escape(out: &mut String, text: &str, separator: Option<char>) {
    for c in text.chars() {
        if !is_forbidden(c) && c != ESCAPE && Some(c) != separator {
            out.push(c);
            continue;
        }
        let mut bytes = [0; 4];
        for byte in c.encode_utf8(&mut bytes).bytes() {
            out.push(ESCAPE);
            out.extend([hex_digit(byte >> 4), hex_digit(byte & 0xF)]);
        }
    }
}

/// The text that [`escape`] wrote; `None` for a text it never writes.
pub fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == ESCAPE as u8 {
            bytes.push(hex_value(rest.next()?)? << 4 | hex_value(rest.next()?)?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Splits before the first `separator` that is not part of an escape: where a field ends that [`escape`]
/// wrote. The separator must not be `~`.
pub fn split_escaped(text: &str, separator: char) -> Option<(&str, &str)> {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        if c == ESCAPE {
            characters.nth(1)?;
        } else if c == separator {
            return text.split_at_checked(at);
        }
    }
    None
}

fn hex_digit(nibble: u8) -> char {
    char::from(if nibble < 10 { b'0' + nibble } else { b'A' + nibble - 10 })
}

/// Upper case only, so that a text has one escaped form.
fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Number of digits of a time in a key.
pub const TICKS_DIGITS: usize = 19;

/// Appends the ticks of `time`, so that keys sort with the oldest first.
pub fn write_ticks(out: &mut String, time: Timestamp) {
    write_padded(out, time.ticks().into(), TICKS_DIGITS);
}

/// Appends the ticks from `time` to the end of time, so that keys sort with the newest first (C-4.8).
pub fn write_inverted_ticks(out: &mut String, time: Timestamp) {
    write_padded(out, (Timestamp::MAX.ticks() - time.ticks()).into(), TICKS_DIGITS);
}

/// Reads what [`write_ticks`] wrote.
pub fn parse_ticks(text: &str) -> Option<Timestamp> {
    Timestamp::from_ticks(parse_padded(text, TICKS_DIGITS)?.try_into().ok()?)
}

/// Reads what [`write_inverted_ticks`] wrote.
pub fn parse_inverted_ticks(text: &str) -> Option<Timestamp> {
    let inverted = parse_ticks(text)?.ticks();
    Timestamp::from_ticks(Timestamp::MAX.ticks() - inverted)
}

/// Appends `value` with leading zeros, so that keys sort by the number. A value of more than `width`
/// digits is written in full: the caller decides what that means.
pub fn write_padded(out: &mut String, value: u128, width: usize) {
    // Most numbers have few digits, and need no formatter.
    if let (Ok(value @ ..100_000_000), width @ ..=8) = (u32::try_from(value), width.max(1)) {
        let digits = digits8(value);
        let wanted = digits.get(zeros_at_front(digits).min(8 - width)..).unwrap_or_default();
        return out.push_str(std::str::from_utf8(wanted).unwrap_or_default());
    }
    // Writing to a String does not fail.
    let _ = write!(out, "{value:0width$}");
}

/// Reads a number of exactly `width` digits.
pub fn parse_padded(text: &str, width: usize) -> Option<u128> {
    let is_number = text.len() == width && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// FNV-1a with 64 bits (C-4.3).
pub const fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut rest = bytes;
    while let [byte, after @ ..] = rest {
        hash = (hash ^ *byte as u64).wrapping_mul(0x100_0000_01b3);
        rest = after;
    }
    hash
}

/// Appends the bucket of `text` among `buckets`, padded to the width of the last one. A count of
/// zero is treated as one.
pub fn write_bucket(out: &mut String, text: &str, buckets: u64) {
    let buckets = buckets.max(1);
    let width = (buckets - 1).checked_ilog10().unwrap_or(0) + 1;
    write_padded(out, (fnv1a(text.as_bytes()) % buckets).into(), width as usize);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{self, RowKey};
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn written(write: impl FnOnce(&mut String)) -> String {
        let mut text = String::new();
        write(&mut text);
        text
    }

    #[test]
    fn a_prefix_ends_before_the_next_character_that_keys_hold() {
        // C-4.7.
        for (prefix, end) in [
            ("empid_", Some("empid`")),
            ("a.", Some("a0")),
            ("email_a", Some("email_b")),
            ("\"", Some("$")),
            (">", Some("@")),
            ("[", Some("]")),
            ("~", Some("\u{A0}")),
            ("\u{D7FF}", Some("\u{10000}")),
            ("\u{10FFFF}", Some("\u{E000}")),
            ("a\u{FFFF}", Some("b")),
            ("a\u{FFFF}\u{FFFF}", Some("b")),
            ("\u{FFFF}", None),
            ("", None),
        ] {
            assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
        }
    }

    /// Texts around the boundaries of UTF-16 order and of the allowed characters.
    fn key_text() -> impl Strategy<Value = String> {
        "[ !\"$.0>@\\[\\]a`~\u{A0}\u{D7FE}\u{D7FF}\u{10000}\u{10FFFF}\u{E000}\u{FFFE}\u{FFFF}]{0,4}"
    }

    #[test]
    fn a_number_is_padded_and_never_cut() {
        for value in [0, 1, 9, 10, 12_345_678, 99_999_999, 100_000_000, u128::from(u64::MAX)] {
            for width in 0..=20 {
                let text = written(|out| write_padded(out, value, width));
                assert_eq!(text, format!("{value:0width$}"), "{value} {width}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_range_of_a_prefix_is_what_begins_with_it(prefix in key_text(), text in key_text()) {
            let after_end = prefix_end(&prefix)
                .is_some_and(|end| key::compare(&text, &end) != Ordering::Less);
            let in_range = key::compare(&text, &prefix) != Ordering::Less && !after_end;
            prop_assert_eq!(in_range, text.starts_with(&prefix));
        }

        #[test]
        fn an_escaped_text_is_a_key_without_its_separator_and_reads_back(
            text in any::<String>(), separator in prop::option::of(any::<char>()),
        ) {
            let escaped = written(|out| escape(out, &text, separator));
            prop_assert!(!escaped.chars().any(is_forbidden));
            // Characters that escapes are made of.
            let plain = |c: char| c == '~' || c.is_ascii_digit() || c.is_ascii_uppercase();
            if let Some(separator) = separator.filter(|c| !plain(*c)) {
                prop_assert!(!escaped.contains(separator));
            }
            prop_assert_eq!(unescape(&escaped), Some(text));
        }

        #[test]
        fn a_field_ends_at_its_separator(
            text in any::<String>(), after in any::<String>(), separator in "[!0-9A-Z_é🦀]",
        ) {
            let separator = separator.chars().next().unwrap();
            let field = written(|out| escape(out, &text, Some(separator)));
            let rest = format!("{separator}{after}");
            let whole = format!("{field}{rest}");
            prop_assert_eq!(split_escaped(&whole, separator), Some((&*field, &*rest)));
        }

        #[test]
        fn unescape_never_panics(text in any::<String>()) {
            let _ = unescape(&text);
        }

        #[test]
        fn ticks_read_back_and_sort(a in 0..=Timestamp::MAX.ticks(), b in 0..=Timestamp::MAX.ticks()) {
            let [a, b] = [a, b].map(|ticks| Timestamp::from_ticks(ticks).unwrap());
            let [up_a, up_b] = [a, b].map(|time| written(|out| write_ticks(out, time)));
            let [down_a, down_b] = [a, b].map(|time| written(|out| write_inverted_ticks(out, time)));
            prop_assert_eq!(up_a.cmp(&up_b), a.cmp(&b));
            prop_assert_eq!(down_a.cmp(&down_b), b.cmp(&a));
            prop_assert_eq!(parse_ticks(&up_a), Some(a));
            prop_assert_eq!(parse_inverted_ticks(&down_a), Some(a));
        }
    }

    #[test]
    fn escapes_are_written_where_they_are_needed() {
        // C-4.5.
        let escaped = |text: &str, separator| written(|out| escape(out, text, separator));
        assert_eq!(escaped("R_D", Some('_')), "R~5FD");
        assert_eq!(escaped("a_b@contoso.com", None), "a_b@contoso.com");
        assert_eq!(escaped("a/b\\c#d?e~f", None), "a~2Fb~5Cc~23d~3Fe~7Ef");
        assert_eq!(escaped("\0\u{85}", None), "~00~C2~85");
        assert_eq!(escaped("xéy", Some('é')), "x~C3~A9y");
        assert!(RowKey::parse(escaped("a/\u{9F}", None)).is_ok());
    }

    #[test]
    fn only_what_escape_writes_is_unescaped() {
        for text in ["~", "~2", "~2f", "~GG", "~C3", "~+1"] {
            assert_eq!(unescape(text), None, "{text}");
        }
    }

    #[test]
    fn inverted_ticks_match_the_vectors() {
        // C-4.8.
        for (time, text) in [
            ("2014-08-22T00:50:32Z", "2519936321679999999"),
            ("2014-08-22T00:50:34Z", "2519936321659999999"),
            ("2026-11-15T12:00:00Z", "2516075567999999999"),
            ("9999-12-31T23:59:59.9999999Z", "0000000000000000000"),
        ] {
            let time = Timestamp::parse(time).unwrap();
            assert_eq!(written(|out| write_inverted_ticks(out, time)), text);
            assert_eq!(parse_inverted_ticks(text), Some(time));
        }
    }

    #[test]
    fn padded_numbers_have_their_width() {
        assert_eq!(written(|out| write_padded(out, 223, 6)), "000223");
        assert_eq!(written(|out| write_padded(out, 1_234_567, 6)), "1234567");
        assert_eq!(parse_padded("000223", 6), Some(223));
        for text in ["223", "0000223", "+00223", "00022x", ""] {
            assert_eq!(parse_padded(text, 6), None, "{text}");
        }
    }

    #[test]
    fn hashes_and_buckets_match_the_vectors() {
        // C-4.3.
        for (text, hash, bucket) in [
            ("Sales", 0x773f_2473_fde4_8117, "07"),
            ("Marketing", 0xd346_81e2_5ec9_a24f, "15"),
            ("000123", 0xdb9f_c29e_f94b_5179, "09"),
            ("", 0xcbf2_9ce4_8422_2325, "05"),
        ] {
            assert_eq!(fnv1a(text.as_bytes()), hash, "{text}");
            assert_eq!(written(|out| write_bucket(out, text, 16)), bucket, "{text}");
        }
        for (buckets, width) in [(0, 1), (1, 1), (10, 1), (11, 2), (100, 2), (101, 3)] {
            assert_eq!(written(|out| write_bucket(out, "a", buckets)).len(), width, "{buckets}");
        }
    }
}
