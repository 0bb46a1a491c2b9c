//! Spellings of values that JSON and Atom share, in characters neither needs to escape.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lazuli_model::Timestamp;

/// How many bytes from the front are all `plain`. Looks at sixteen at a time, which the compiler
/// makes one step of: most text is plain to its end.
pub(super) fn plain_prefix(bytes: &[u8], plain: impl Fn(u8) -> bool) -> usize {
    let whole = |chunk: &&[u8]| chunk.iter().fold(true, |all, &b| all & plain(b));
    let checked = 16 * bytes.chunks_exact(16).take_while(whole).count();
    checked + bytes.iter().skip(checked).take_while(|b| plain(**b)).count()
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

    proptest! {
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
