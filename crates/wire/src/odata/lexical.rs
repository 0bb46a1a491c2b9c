//! Value formats shared by JSON and Atom, in characters that neither needs to escape.

use crate::base64::STANDARD;
use base64::Engine;
use lazuli_model::Timestamp;
use lazuli_model::digits::write_unsigned;

pub(super) fn write_integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_unsigned(out, value.unsigned_abs());
}

pub(super) fn write_timestamp(out: &mut Vec<u8>, value: Timestamp) {
    let mut text = [0; Timestamp::TEXT_BYTES_MAX];
    out.extend_from_slice(value.text_bytes(&mut text));
}

/// Standard base64 with padding.
pub(super) fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    if let Some(room) = out.get_mut(start..) {
        // The buffer has the exact size, so this cannot fail.
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
