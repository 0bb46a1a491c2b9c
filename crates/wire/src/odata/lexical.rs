//! Spellings of values that JSON and Atom share, in characters neither needs to escape.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lazuli_model::Timestamp;

/// How many bytes from the front are plain: those before the first that `special` finds.
///
/// `special` looks at eight bytes at once and sets the high bit of the first special byte among them;
/// what it sets above that one does not count. See [`below`], [`equal`] and [`not_ascii`].
pub(super) fn plain_prefix(bytes: &[u8], special: impl Fn(u64) -> u64) -> usize {
    let is_plain = |block: &&[[u8; WORD]; 4]| {
        block.iter().fold(0, |found, word| found | special(u64::from_le_bytes(*word))) == 0
    };
    let (words, tail) = bytes.as_chunks::<WORD>();
    // The compiler makes fewer steps of four words than of one by one; short text has none to spare.
    let skipped = match words.first() {
        Some(word) if special(u64::from_le_bytes(*word)) == 0 => {
            4 * words.as_chunks::<4>().0.iter().take_while(is_plain).count()
        }
        _ => 0,
    };
    for (index, word) in words.iter().enumerate().skip(skipped) {
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return index * WORD + first_byte(found);
        }
    }
    // What the last word lacks is zero, and perhaps special: but behind the end.
    let word = tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let found = special(word);
    bytes.len() - tail.len() + first_byte(found).min(tail.len())
}

/// Marks bytes less than `limit`, which is at most 80 in hexadecimal.
pub(super) const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(every(limit)) & !word & every(0x80)
}

/// Marks bytes equal to `byte`.
pub(super) const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ every(byte), 1)
}

pub(super) const fn not_ascii(word: u64) -> u64 {
    word & every(0x80)
}

/// Bytes that are looked at in one step.
const WORD: usize = 8;

/// A word of eight times the same byte.
const fn every(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

/// The place of the lowest byte that is marked; behind the word if none is.
const fn first_byte(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

pub(super) fn write_integer(out: &mut Vec<u8>, value: i64) {
    const DIGITS_MAX: usize = 19;
    if value < 0 {
        out.push(b'-');
    }
    let mut digits = [0; DIGITS_MAX];
    let mut rest = value.unsigned_abs();
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(DIGITS_MAX - count..).unwrap_or_default());
}

pub(super) fn write_timestamp(out: &mut Vec<u8>, value: Timestamp) {
    let mut text = [0; Timestamp::TEXT_BYTES_MAX];
    out.extend_from_slice(value.text(&mut text).as_bytes());
}

/// Standard base64 with padding.
pub(super) fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    if let Some(room) = out.get_mut(start..) {
        // The room is exact, so this cannot fail.
        let _ = STANDARD.encode_slice(bytes, room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = b">".to_vec();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_ends_of_the_integers() {
        for value in [0, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(written(|out| write_integer(out, value)), format!(">{value}"));
        }
    }

    #[test]
    fn a_mark_names_the_first_special_byte() {
        for byte in 0..=u8::MAX {
            for at in 0..40 {
                let mut bytes = [b'x'; 40];
                bytes[at] = byte;
                let special = |w: u64| below(w, b' ') | equal(w, b'"') | not_ascii(w);
                let is_special = byte < b' ' || byte == b'"' || byte >= 0x80;
                let expect = if is_special { at } else { bytes.len() };
                assert_eq!(plain_prefix(&bytes, special), expect, "{byte} {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn plain_text_ends_before_the_first_special_byte(
            bytes in prop::collection::vec(prop_oneof![0..0x30u8, b'['..b'a', any::<u8>()], 0..80),
        ) {
            let special = |w: u64| below(w, b' ') | equal(w, b'"') | equal(w, b'\\');
            let is_special = |b: &u8| *b < b' ' || matches!(b, b'"' | b'\\');
            let expect = bytes.iter().position(is_special).unwrap_or(bytes.len());
            prop_assert_eq!(plain_prefix(&bytes, special), expect);
        }

        #[test]
        fn integers_are_decimal(value in any::<i64>()) {
            prop_assert_eq!(written(|out| write_integer(out, value)), format!(">{value}"));
        }

        #[test]
        fn base64_is_standard(bytes in any::<Vec<u8>>()) {
            prop_assert_eq!(
                written(|out| write_base64(out, &bytes)),
                format!(">{}", STANDARD.encode(&bytes))
            );
        }
    }
}
