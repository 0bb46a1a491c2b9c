//! Formats doubles as the service does.

use lazuli_model::digits::digits8;
use std::fmt;
use std::io::Write;
use std::ops::Range;

/// Appends a finite `value` like .NET's round-trip format (T-3.34, T-3.35): fifteen digits if they
/// identify the number, else seventeen, without trailing zeros. It has an exponent, of at least two
/// digits, if the number has more than that many digits before the point, or more than three zeros after it.
///
/// Negative zero has no sign. An integral value gets no `.0`, which only JSON adds: the return value
/// says whether the text has a point or an exponent.
pub(super) fn write_finite(out: &mut Vec<u8>, value: f64) -> Spelling {
    if value < 0.0 {
        out.push(b'-');
    }
    let Decimal { digits, exponent, digits_max } = Decimal::of(value.abs());
    let count = 1 + digits.iter().rposition(|digit| *digit != b'0').unwrap_or_default();
    let digits = digits.get(..count).unwrap_or_default();
    if exponent >= digits_max || exponent < -4 {
        let (first, rest) = digits.split_at_checked(1).unwrap_or_default();
        out.extend_from_slice(first);
        write_fraction(out, rest);
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a vector does not fail.
        let _ = write!(out, "E{sign}{:02}", exponent.unsigned_abs());
        Spelling::Fractional
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend((1..exponent.unsigned_abs()).map(|_| b'0'));
        out.extend_from_slice(digits);
        Spelling::Fractional
    } else {
        let whole = exponent.unsigned_abs() as usize + 1;
        let (places, fraction) = digits.split_at_checked(whole).unwrap_or((digits, &[]));
        out.extend_from_slice(places);
        out.extend((count..whole).map(|_| b'0'));
        write_fraction(out, fraction)
    }
}

/// Whether the text of a number could also be that of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    Integral,
    /// With a point, or an exponent.
    Fractional,
}

fn write_fraction(out: &mut Vec<u8>, digits: &[u8]) -> Spelling {
    if digits.is_empty() {
        return Spelling::Integral;
    }
    out.push(b'.');
    out.extend_from_slice(digits);
    Spelling::Fractional
}

/// The digits of a number without its sign, including trailing zeros.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    /// The point follows the first digit.
    digits: [u8; 17],
    exponent: i32,
    /// The maximum number of digits.
    digits_max: i32,
}

impl Decimal {
    fn of(value: f64) -> Self {
        Self::exactly(value).unwrap_or_else(|| Self::formatted(value))
    }

    /// Rounds with 128-bit integers; `None` for the few numbers that need more.
    fn exactly(value: f64) -> Option<Self> {
        if !Binary::VALUES.contains(&value) {
            return None;
        }
        let binary = Binary::of(value);
        let (fifteen, exponent) = binary.round(15)?;
        if binary.is_named_by(fifteen, 15, exponent)? {
            return Some(Self::new(fifteen * 100, exponent, 15));
        }
        let (seventeen, exponent) = binary.round(17)?;
        Some(Self::new(seventeen, exponent, 17))
    }

    /// The number that begins with the seventeen digits of `number`.
    fn new(number: u64, exponent: i32, digits_max: i32) -> Self {
        let [front, middle] = [number / 1_000_000_000, number / 10 % 100_000_000];
        let mut digits = [b'0' + (number % 10) as u8; 17];
        let places = digits.iter_mut();
        let eights = [front, middle].map(|eight| digits8(eight as u32));
        places.zip(eights.as_flattened()).for_each(|(place, digit)| *place = *digit);
        Self { digits, exponent, digits_max }
    }

    fn formatted(value: f64) -> Self {
        let (scientific, digits_max) = round_trip(value);
        let (mantissa, exponent) = scientific.text().split_once('e').unwrap_or_default();
        let mut digits = [b'0'; 17];
        let shown = mantissa.bytes().filter(|b| *b != b'.');
        digits.iter_mut().zip(shown).for_each(|(place, digit)| *place = digit);
        Self { digits, exponent: exponent.parse().unwrap_or_default(), digits_max }
    }
}

/// A number as stored: `mantissa / 2^shift`.
struct Binary {
    mantissa: u128,
    shift: u32,
    /// The decimal exponent, or one less.
    exponent: i32,
}

impl Binary {
    /// The numbers for which no step needs more than 128 bits: a 53-bit mantissa, and a 74-bit power of
    /// ten. They have fewer than fifteen digits before the point, so no power is a fraction.
    const VALUES: Range<f64> = 1e-5..1e15;

    fn of(value: f64) -> Self {
        const FRACTION: u64 = (1 << 52) - 1;
        let bits = value.to_bits();
        let exponent = (bits >> 52) as i32 - 1023;
        Self {
            mantissa: u128::from(bits & FRACTION | (FRACTION + 1)),
            // From 3 to 69 for the numbers above.
            shift: (52 - exponent).unsigned_abs(),
            // 1233 / 4096 approximates log10 of 2 closely enough.
            exponent: (exponent * 1233) >> 12,
        }
    }

    /// The nearest number of `digits`, and the exponent of its first.
    fn round(&self, digits: u32) -> Option<(u64, i32)> {
        let limit = *POWERS.get(digits as usize)?;
        let mut exponent = self.exponent;
        loop {
            let rounded = self.rounded_by(scale(digits, exponent)?);
            if rounded < limit {
                return Some((u64::try_from(rounded).ok()?, exponent));
            }
            // The exponent was too small, or rounding gave one more digit.
            exponent += 1;
        }
    }

    /// The number times `power`, rounded, half to even.
    fn rounded_by(&self, power: u128) -> u128 {
        let product = self.mantissa * power;
        let (whole, left) = (product >> self.shift, product & ((1 << self.shift) - 1));
        let half = 1 << (self.shift - 1);
        whole + u128::from(left > half || left == half && whole & 1 == 1)
    }

    /// Whether `rounded` is nearer to this number than to its neighbours, so that parsing returns it.
    fn is_named_by(&self, rounded: u64, digits: u32, exponent: i32) -> Option<bool> {
        let power = scale(digits, exponent)?;
        let (rounded, number) = (u128::from(rounded) << self.shift, self.mantissa * power);
        // Neighbours are one power of two apart; below a power of two, where the exponent changes,
        // half of that.
        let lower_is_nearer = self.mantissa == 1 << 52 && rounded < number;
        let distance = rounded.abs_diff(number) << (1 + u32::from(lower_is_nearer));
        Some(distance < power || distance == power && self.mantissa & 1 == 0)
    }
}

/// The powers of ten, up to the largest that is needed.
#[expect(clippy::indexing_slicing, reason = "the compiler runs this")]
const POWERS: [u128; 23] = {
    let mut powers = [1; 23];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = 10 * powers[exponent - 1];
        exponent += 1;
    }
    powers
};

/// The power of ten that gives a number with this exponent `digits` digits before the point.
fn scale(digits: u32, exponent: i32) -> Option<u128> {
    let power = i32::try_from(digits).ok()? - 1 - exponent;
    POWERS.get(usize::try_from(power).ok()?).copied()
}

/// The digits of `value`, and the maximum number of digits.
fn round_trip(value: f64) -> (Scientific, i32) {
    // The fewest digits that identify a number are fifteen without their zeros, unless more are
    // needed. Subnormal numbers differ: one digit may identify them, and still fifteen are shown.
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
        // The buffer is large enough, so this cannot fail.
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
            (-0.0, "0"),
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

    #[track_caller]
    fn check_exact(value: f64) {
        if let Some(exact) = Decimal::exactly(value) {
            assert_eq!(exact, Decimal::formatted(value), "{value:e}");
        }
    }

    #[test]
    fn integers_of_128_bits_round_as_the_formatter_does_where_exponents_change() {
        let twos = (-17..50).map(|power| 2f64.powi(power));
        let tens = (-5..=15).map(|power| 10f64.powi(power));
        for value in twos.chain(tens) {
            for near in [value.next_down(), value, value.next_up(), 9.5 * value, 0.95 * value] {
                check_exact(near);
            }
        }
        assert!(Decimal::exactly(Binary::VALUES.start).is_some());
        assert!(Decimal::exactly(9e14).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn integers_of_128_bits_round_as_the_formatter_does(
            exponent in 1006..1073u64,
            fraction in prop_oneof![any::<u64>(), (any::<u64>(), 0..52u32).prop_map(|(f, s)| f << s)],
        ) {
            let value = f64::from_bits(exponent << 52 | fraction & ((1 << 52) - 1));
            if let Some(exact) = Decimal::exactly(value) {
                prop_assert_eq!(exact, Decimal::formatted(value));
            }
        }

        #[test]
        fn short_decimals_round_as_the_formatter_does(digits in 0..1_000_000_000_000_000_000u64, scale in 3..24i32) {
            let value: f64 = format!("{digits}e-{scale}").parse().unwrap();
            if let Some(exact) = Decimal::exactly(value) {
                prop_assert_eq!(exact, Decimal::formatted(value));
            }
        }

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
