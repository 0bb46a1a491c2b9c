//! Property values: the eight Edm types the Table service stores.

use crate::digits::hex8;
use crate::key::{self, utf16_units};
use crate::time::Timestamp;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

/// The type of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdmType {
    String,
    Boolean,
    Int32,
    Int64,
    Double,
    DateTime,
    Guid,
    Binary,
}

impl EdmType {
    pub const ALL: [Self; 8] = [
        Self::String,
        Self::Boolean,
        Self::Int32,
        Self::Int64,
        Self::Double,
        Self::DateTime,
        Self::Guid,
        Self::Binary,
    ];

    /// The name on the wire, `Edm.String` and so on.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "Edm.String",
            Self::Boolean => "Edm.Boolean",
            Self::Int32 => "Edm.Int32",
            Self::Int64 => "Edm.Int64",
            Self::Double => "Edm.Double",
            Self::DateTime => "Edm.DateTime",
            Self::Guid => "Edm.Guid",
            Self::Binary => "Edm.Binary",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }
}

/// A property value that borrows its text and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    String(&'a str),
    Boolean(bool),
    Int32(i32),
    Int64(i64),
    Double(f64),
    DateTime(Timestamp),
    Guid(Guid),
    Binary(&'a [u8]),
}

/// A property value that may own its text and bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    String(Cow<'a, str>),
    Boolean(bool),
    Int32(i32),
    Int64(i64),
    Double(f64),
    DateTime(Timestamp),
    Guid(Guid),
    Binary(Cow<'a, [u8]>),
}

impl Value<'_> {
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::String(v) => ValueRef::String(v),
            Self::Boolean(v) => ValueRef::Boolean(*v),
            Self::Int32(v) => ValueRef::Int32(*v),
            Self::Int64(v) => ValueRef::Int64(*v),
            Self::Double(v) => ValueRef::Double(*v),
            Self::DateTime(v) => ValueRef::DateTime(*v),
            Self::Guid(v) => ValueRef::Guid(*v),
            Self::Binary(v) => ValueRef::Binary(v),
        }
    }

    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::String(v) => Value::String(Cow::Owned(v.into_owned())),
            Self::Boolean(v) => Value::Boolean(v),
            Self::Int32(v) => Value::Int32(v),
            Self::Int64(v) => Value::Int64(v),
            Self::Double(v) => Value::Double(v),
            Self::DateTime(v) => Value::DateTime(v),
            Self::Guid(v) => Value::Guid(v),
            Self::Binary(v) => Value::Binary(Cow::Owned(v.into_owned())),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Cow::Borrowed(text))
    }
}

macro_rules! from {
    ($($rust:ty => $edm:ident;)*) => {$(
        impl From<$rust> for Value<'_> {
            fn from(value: $rust) -> Self {
                Self::$edm(value.into())
            }
        }
    )*};
}

from! {
    String => String;
    bool => Boolean;
    i32 => Int32;
    i64 => Int64;
    f64 => Double;
    Timestamp => DateTime;
    Guid => Guid;
    Vec<u8> => Binary;
}

impl<'a> ValueRef<'a> {
    pub const fn edm_type(self) -> EdmType {
        match self {
            Self::String(_) => EdmType::String,
            Self::Boolean(_) => EdmType::Boolean,
            Self::Int32(_) => EdmType::Int32,
            Self::Int64(_) => EdmType::Int64,
            Self::Double(_) => EdmType::Double,
            Self::DateTime(_) => EdmType::DateTime,
            Self::Guid(_) => EdmType::Guid,
            Self::Binary(_) => EdmType::Binary,
        }
    }

    /// Bytes this value counts towards the size of its entity (T-3.10).
    pub fn size_bytes(self) -> usize {
        match self {
            Self::String(v) => 2 * utf16_units(v) + 4,
            Self::Binary(v) => v.len() + 4,
            Self::DateTime(_) | Self::Double(_) | Self::Int64(_) => 8,
            Self::Guid(_) => 16,
            Self::Int32(_) => 4,
            Self::Boolean(_) => 1,
        }
    }

    /// Whether [`compare`](Self::compare) finds two values equal, without ordering texts.
    pub fn equals(self, other: ValueRef<'_>) -> bool {
        match (self, other) {
            (ValueRef::String(a), ValueRef::String(b)) => a == b,
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }

    /// The order of two values in a filter.
    ///
    /// Values of one type compare by that type, the three numeric types with each other by number
    /// (T-4.34). Values of different types are never equal; they order by `type_rank` (T-4.37,
    /// T-4.38). `None` means that one is a NaN: unequal and unordered (T-4.33).
    pub fn compare(self, other: ValueRef<'_>) -> Option<Ordering> {
        use ValueRef as V;
        match (self, other) {
            (V::String(a), V::String(b)) => Some(key::compare(a, b)),
            (V::Boolean(a), V::Boolean(b)) => Some(a.cmp(&b)),
            (V::DateTime(a), V::DateTime(b)) => Some(a.cmp(&b)),
            (V::Guid(a), V::Guid(b)) => Some(a.cmp(&b)),
            (V::Binary(a), V::Binary(b)) => Some(a.cmp(b)),
            _ => match (Number::of(self), Number::of(other)) {
                (Some(a), Some(b)) => a.compare(b),
                _ => Some(type_rank(self).cmp(&type_rank(other))),
            },
        }
    }
}

/// Values of different types order by this rank: anything but a string sorts below strings
/// (T-4.38). The order among the others is ours; no source states it.
const fn type_rank(value: ValueRef<'_>) -> u8 {
    match value {
        ValueRef::Boolean(_) => 0,
        ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_) => 1,
        ValueRef::DateTime(_) => 2,
        ValueRef::Guid(_) => 3,
        ValueRef::Binary(_) => 4,
        ValueRef::String(_) => 5,
    }
}

#[derive(Clone, Copy)]
enum Number {
    Integer(i64),
    Double(f64),
}

impl Number {
    fn of(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Int32(v) => Some(Self::Integer(v.into())),
            ValueRef::Int64(v) => Some(Self::Integer(v)),
            ValueRef::Double(v) => Some(Self::Double(v)),
            _ => None,
        }
    }

    fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(&b)),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(&b),
            (Self::Integer(a), Self::Double(b)) => compare_integer_double(a, b),
            (Self::Double(a), Self::Integer(b)) => {
                compare_integer_double(b, a).map(Ordering::reverse)
            }
        }
    }
}

/// Compares exactly: widening an Int64 to a Double first would make neighbours equal.
fn compare_integer_double(integer: i64, double: f64) -> Option<Ordering> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if double.is_nan() {
        None
    } else if double >= TWO_TO_63 {
        Some(Ordering::Less)
    } else if double < -TWO_TO_63 {
        Some(Ordering::Greater)
    } else {
        let whole = double.trunc();
        let by_whole = integer.cmp(&(whole as i64));
        Some(by_whole.then_with(|| 0.0.partial_cmp(&(double - whole)).unwrap_or(Ordering::Equal)))
    }
}

/// A GUID, with its bytes in text order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// Parses `8-4-4-4-12` hexadecimal digits in either case, with or without braces (T-3.42).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        let text: &[u8; 36] = text.as_bytes().try_into().ok()?;
        if [8, 13, 18, 23].iter().any(|&place| text.get(place) != Some(&b'-')) {
            return None;
        }
        let mut bytes = [0; 16];
        let mut all = 0;
        for (byte, place) in bytes.iter_mut().zip(Self::PLACES) {
            let [high, low] = text.get(place..)?.first_chunk()?.map(hex_digit);
            *byte = high << 4 | low & 15;
            all |= high | low;
        }
        (all < 16).then_some(Self(bytes))
    }

    /// The position of each byte's two digits in the text.
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

    /// The 36 characters of the canonical text.
    pub fn text(self) -> [u8; 36] {
        let mut digits = [0; 32];
        let (eights, (fours, _)) = (digits.as_chunks_mut().0, self.0.as_chunks());
        eights.iter_mut().zip(fours).for_each(|(digits, bytes)| *digits = hex8(*bytes));
        let mut text = [b'-'; 36];
        for (from, to) in [(0..8, 0..8), (8..12, 9..13), (12..16, 14..18), (16..20, 19..23)] {
            copy(&mut text, to, &digits, from);
        }
        copy(&mut text, 24..36, &digits, 20..32);
        text
    }
}

/// Copies between two ranges of the same length.
fn copy(into: &mut [u8], to: Range<usize>, out_of: &[u8], from: Range<usize>) {
    if let (Some(to), Some(from)) = (into.get_mut(to), out_of.get(from)) {
        to.copy_from_slice(from);
    }
}

/// The value of a hexadecimal digit; more than 15 for any other byte.
fn hex_digit(character: u8) -> u8 {
    const NONE: u8 = u8::MAX;
    #[expect(clippy::indexing_slicing, reason = "the compiler runs this")]
    const VALUES: [u8; 256] = {
        let mut values = [NONE; 256];
        let mut value = 0;
        while value < 16 {
            let digit = b"0123456789abcdef"[value];
            values[digit as usize] = value as u8;
            values[digit.to_ascii_uppercase() as usize] = value as u8;
            value += 1;
        }
        values
    };
    VALUES.get(usize::from(character)).copied().unwrap_or(NONE)
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn guids_round_trip_in_lower_case() {
        let text = "c9da6455-213d-42c9-9a79-3e9149a57833";
        assert_eq!(Guid::parse(text).unwrap().to_string(), text);
        assert_eq!(Guid::parse(&text.to_uppercase()).unwrap().to_string(), text);
        assert_eq!(Guid::parse(&format!("{{{text}}}")).unwrap().to_string(), text);
        for bad in ["", "c9da6455", "c9da6455-213d-42c9-9a79-3e9149a5783g", "é"] {
            assert_eq!(Guid::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn other_types_sort_below_strings() {
        let empty = ValueRef::String("");
        let time = ValueRef::DateTime(Timestamp::UNIX_EPOCH);
        for value in [ValueRef::Double(1.0), time, ValueRef::Boolean(true), ValueRef::Int64(1)] {
            assert_eq!(value.compare(empty), Some(Ordering::Less), "{value:?}");
            assert_eq!(empty.compare(value), Some(Ordering::Greater), "{value:?}");
        }
    }

    #[test]
    fn integers_and_doubles_compare_exactly() {
        let cases = [
            (i64::MAX, 9_223_372_036_854_775_808.0, Ordering::Less),
            (i64::MIN, -9_223_372_036_854_775_808.0, Ordering::Equal),
            (i64::MIN, f64::NEG_INFINITY, Ordering::Greater),
            (3, 3.5, Ordering::Less),
            (-3, -3.5, Ordering::Greater),
            (9_007_199_254_740_993, 9_007_199_254_740_992.0, Ordering::Greater),
            (0, -0.0, Ordering::Equal),
        ];
        for (integer, double, expect) in cases {
            let (a, b) = (ValueRef::Int64(integer), ValueRef::Double(double));
            assert_eq!(a.compare(b), Some(expect), "{integer} {double}");
            assert_eq!(b.compare(a), Some(expect.reverse()), "{double} {integer}");
        }
        assert_eq!(ValueRef::Int32(1).compare(ValueRef::Double(f64::NAN)), None);
    }

    proptest! {
        #[test]
        fn guid_order_is_text_order(a in any::<[u8; 16]>(), b in any::<[u8; 16]>()) {
            prop_assert_eq!(Guid(a).cmp(&Guid(b)), Guid(a).to_string().cmp(&Guid(b).to_string()));
        }
    }
}
