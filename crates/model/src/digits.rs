//! Digits of numbers, eight at a time.

/// Eight times the digit zero.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The eight digits of `value`, which must be less than 10^8.
///
/// Quotients and remainders are packed in one word and divided together: by 10,000, then by 100,
/// then by 10. The factors are reciprocals, exact for numbers of this width.
pub const fn digits8(value: u32) -> [u8; 8] {
    let fours = (value / 10_000) as u64 | ((value % 10_000) as u64) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x7F_0000_007F;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x0F_000F_000F_000F;
    let ones = tens | (twos - 10 * tens) << 8;
    (ones | ZEROS).to_le_bytes()
}

/// Appends the digits of `value`: eight at a time, most significant first.
pub fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    const EIGHT_DIGITS: u64 = 100_000_000;
    let last = digits8((value % EIGHT_DIGITS) as u32);
    match value / EIGHT_DIGITS {
        0 => out.extend_from_slice(last.get(zeros_at_front(last).min(7)..).unwrap_or_default()),
        front => {
            write_unsigned(out, front);
            out.extend_from_slice(&last);
        }
    }
}

/// The eight hexadecimal digits of four bytes.
pub(crate) const fn hex8(bytes: [u8; 4]) -> [u8; 8] {
    // Spreads the bytes, then their halves.
    let word = u32::from_le_bytes(bytes) as u64;
    let word = (word | word << 16) & 0x0000_FFFF_0000_FFFF;
    let word = (word | word << 8) & 0x00FF_00FF_00FF_00FF;
    let halves = (word >> 4 | word << 8) & 0x0F0F_0F0F_0F0F_0F0F;
    // One in each position that holds ten or more.
    let letters = (halves + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    (halves + ZEROS + letters * (b'a' - b'0' - 10) as u64).to_le_bytes()
}

/// The number that eight digits stand for; `None` if one of the bytes is not a digit.
pub(crate) const fn parse8(digits: [u8; 8]) -> Option<u32> {
    let word = u64::from_le_bytes(digits);
    // A byte that is not a digit has another upper half, or gets one after adding six.
    const UPPER: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    let more = word.wrapping_add(0x0606_0606_0606_0606);
    if word & UPPER != ZEROS || more & UPPER != ZEROS {
        return None;
    }
    let ones = word & 0x0F0F_0F0F_0F0F_0F0F;
    let twos = (ones * 10 + (ones >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (twos * 100 + (twos >> 16)) & 0x0000_FFFF_0000_FFFF;
    Some((fours * 10_000 + (fours >> 32)) as u32)
}

/// The number of leading zeros.
pub const fn zeros_at_front(digits: [u8; 8]) -> usize {
    values(digits).trailing_zeros() as usize / 8
}

/// The number of trailing zeros.
pub const fn zeros_at_end(digits: [u8; 8]) -> usize {
    values(digits).leading_zeros() as usize / 8
}

/// The value of each digit, in its byte.
const fn values(digits: [u8; 8]) -> u64 {
    u64::from_le_bytes(digits) & 0x0F0F_0F0F_0F0F_0F0F
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: u32) {
        let text = format!("{value:08}");
        assert_eq!(digits8(value).as_slice(), text.as_bytes());
        assert_eq!(parse8(digits8(value)), Some(value));
        assert_eq!(zeros_at_front(digits8(value)), 8 - text.trim_start_matches('0').len());
        assert_eq!(zeros_at_end(digits8(value)), 8 - text.trim_end_matches('0').len());
    }

    #[test]
    fn every_byte_has_its_two_digits_in_every_place() {
        for byte in 0..=u8::MAX {
            let bytes = [byte, !byte, byte.rotate_left(3), byte.wrapping_mul(5)];
            let text = bytes.map(|byte| format!("{byte:02x}")).concat();
            assert_eq!(hex8(bytes).as_slice(), text.as_bytes());
        }
    }

    #[test]
    fn what_is_no_digit_is_refused_in_every_place() {
        for (byte, place) in (0..=u8::MAX).flat_map(|byte| (0..8).map(move |place| (byte, place))) {
            let mut digits = *b"98765432";
            digits[place] = byte;
            let expect = std::str::from_utf8(&digits).ok().and_then(|text| text.parse().ok());
            let expect = expect.filter(|_| byte != b'+');
            assert_eq!(parse8(digits), expect, "{byte} {place}");
        }
    }

    #[test]
    fn every_group_of_four_digits_is_right_in_either_half() {
        for group in 0..10_000 {
            check(group);
            check(group * 10_000);
            check(group * 10_000 + (9_999 - group));
        }
    }
}
