//! Doubles spelled as the service spells them.

use std::fmt;
use std::io::Write;

/// Appends a finite `value` as .NET's round-trip format does (T-3.34, T-3.35): fifteen digits if
/// they name the number, else seventeen, without the zeros at their end; an exponent, of at least
/// two digits, when the number has more places before the point than that, or more than three zeros
/// behind it.
///
/// An integral value gets no `.0`: that is JSON's affair.
pub(super) fn write_finite(out: &mut Vec<u8>, value: f64) {
    let (scientific, digits_max) = round_trip(value);
    let text = scientific.text();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let mantissa = match mantissa.strip_prefix('-') {
        Some(positive) => {
            out.push(b'-');
            positive
        }
        None => mantissa,
    };
    let mut digits = mantissa.bytes().filter(|b| *b != b'.');
    let count = digits.clone().count() - mantissa.bytes().rev().take_while(|b| *b == b'0').count();
    if exponent >= digits_max || exponent < -4 {
        out.extend(digits.next());
        write_fraction(out, digits.take(count.saturating_sub(1)));
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a vector does not fail.
        let _ = write!(out, "E{sign}{:02}", exponent.unsigned_abs());
    } else if exponent < 0 {
        let zeros = (1..exponent.unsigned_abs()).map(|_| b'0');
        out.push(b'0');
        write_fraction(out, zeros.chain(digits.take(count)));
    } else {
        let whole = exponent.unsigned_abs() as usize + 1;
        out.extend(digits.by_ref().chain(std::iter::repeat(b'0')).take(whole));
        write_fraction(out, digits.take(count.saturating_sub(whole)));
    }
}

fn write_fraction(out: &mut Vec<u8>, digits: impl Iterator<Item = u8>) {
    let mut digits = digits.peekable();
    if digits.peek().is_some() {
        out.push(b'.');
        out.extend(digits);
    }
}

/// The digits of `value`, and the most that were to be had.
fn round_trip(value: f64) -> (Scientific, i32) {
    // The fewest digits that name a number are fifteen without their zeros, unless it takes more.
    // Subnormal numbers differ: one digit may name them, and fifteen are shown all the same.
    if value.is_subnormal() {
        let fifteen = Scientific::new(format_args!("{value:.14e}"));
        if fifteen.text().parse() == Ok(value) {
            return (fifteen, 15);
        }
    } else {
        let fewest = Scientific::new(format_args!("{value:e}"));
        if fewest.digits() <= 15 {
            return (fewest, 15);
        }
    }
    (Scientific::new(format_args!("{value:.16e}")), 17)
}

/// A number like `-1.25e-7`.
struct Scientific {
    /// Room for a sign, 17 digits with their point, `e`, and an exponent down to -324.
    text: [u8; 24],
    len: usize,
}

impl Scientific {
    fn new(number: fmt::Arguments<'_>) -> Self {
        let mut text = [0; 24];
        let mut rest = &mut text[..];
        // The room suffices, so this cannot fail.
        let _ = rest.write_fmt(number);
        let len = 24 - rest.len();
        Self { text, len }
    }

    fn text(&self) -> &str {
        let text = self.text.get(..self.len).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    fn digits(&self) -> usize {
        let mantissa = self.text().bytes().take_while(|b| *b != b'e');
        mantissa.filter(u8::is_ascii_digit).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_finite(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn recorded_doubles_come_out_as_recorded() {
        // storage-node/tableservice-payload-tests.07 and .09, python/test_table_entity.*.
        for recorded in [
            "4.81516",
            "4.81516423423",
            "123456789012345.12",
            "1.23456789012346E+24",
            "1.7976931348623157E+308",
            "4.94065645841247E-324",
            "3.14159",
            "5.2",
        ] {
            assert_eq!(text(recorded.parse().unwrap()), recorded);
        }
    }

    #[test]
    fn exponents_begin_where_the_digits_end() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (10.0, "10"),
            (-1234.5, "-1234.5"),
            (100_000_000_000_000.0, "100000000000000"),
            (999_999_999_999_999.0, "999999999999999"),
            (1e15, "1E+15"),
            (1_234_567_890_123_456.8, "1234567890123456.8"),
            (12_345_678_901_234_568.0, "12345678901234568"),
            (123_456_789_012_345_680.0, "1.2345678901234568E+17"),
            (0.1, "0.1"),
            (0.000_12, "0.00012"),
            (0.000_1, "0.0001"),
            (0.000_01, "1E-05"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
        ];
        for (value, expect) in cases {
            assert_eq!(text(value), expect);
        }
    }

    proptest! {
        #[test]
        fn every_finite_double_reads_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(text(value).parse::<f64>().unwrap().to_bits(), bits);
        }

        #[test]
        fn every_short_decimal_reads_back(mantissa in -1_000_000i64..1_000_000, scale in 0..12i32) {
            let value = mantissa as f64 / 10f64.powi(scale);
            prop_assert_eq!(text(value).parse::<f64>().unwrap(), value);
        }
    }
}
