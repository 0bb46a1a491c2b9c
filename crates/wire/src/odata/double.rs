//! Doubles spelled as the service spells them.

use std::io::Write;

/// Appends a finite `value` as .NET's round-trip format does (T-3.34, T-3.35): fifteen digits if
/// they name the number, else seventeen; an exponent, of at least two digits, when the number has
/// more digits before the point than that, or more than three zeros behind it.
///
/// An integral value gets no `.0`: that is JSON's affair.
pub(super) fn write_finite(out: &mut Vec<u8>, value: f64) {
    let mut buffer = [0; SCIENTIFIC_BYTES_MAX];
    let (scientific, precision) = digits(value, &mut buffer);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let mantissa = match mantissa.strip_prefix('-') {
        Some(positive) => {
            out.push(b'-');
            positive
        }
        None => mantissa,
    };
    if exponent >= precision || exponent < -4 {
        write_scientific(out, mantissa, exponent);
    } else {
        write_plain(out, mantissa, exponent);
    }
}

/// A sign, 17 digits with their point, `e`, and an exponent down to -324.
const SCIENTIFIC_BYTES_MAX: usize = 24;

/// `value` in scientific notation, and how many digits were to be had. Zeros may end the mantissa.
fn digits(value: f64, buffer: &mut [u8; SCIENTIFIC_BYTES_MAX]) -> (&str, i32) {
    let text = |buffer: &mut [u8], precision: usize| {
        let room = buffer.len();
        let mut rest = &mut *buffer;
        let _ = write!(rest, "{value:.precision$e}");
        room - rest.len()
    };
    let mut precision = 15;
    let mut len = text(buffer, 14);
    if parse(buffer, len) != Some(value) {
        precision = 17;
        len = text(buffer, 16);
    }
    let scientific = buffer.get(..len).map(std::str::from_utf8);
    (scientific.and_then(Result::ok).unwrap_or_default(), precision)
}

fn parse(buffer: &[u8], len: usize) -> Option<f64> {
    std::str::from_utf8(buffer.get(..len)?).ok()?.parse().ok()
}

fn write_scientific(out: &mut Vec<u8>, mantissa: &str, exponent: i32) {
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    out.extend_from_slice(mantissa.as_bytes());
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "E{sign}{:02}", exponent.unsigned_abs());
}

/// Moves the point of `mantissa`, which stands behind its first digit, by `exponent` places.
fn write_plain(out: &mut Vec<u8>, mantissa: &str, exponent: i32) {
    let digits = mantissa.bytes().filter(|b| *b != b'.');
    let significant = mantissa.trim_end_matches('0').bytes().filter(|b| *b != b'.').count();
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend((1..exponent.unsigned_abs()).map(|_| b'0'));
        out.extend(digits.take(significant));
        return;
    }
    let whole = exponent.unsigned_abs() as usize + 1;
    for (index, digit) in digits.enumerate() {
        if index >= whole && index >= significant {
            break;
        }
        if index == whole {
            out.push(b'.');
        }
        out.push(digit);
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
