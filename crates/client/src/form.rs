//! Ways to store a value other than its type's default: `#[table(as = "text")]` (C-5.2).

use crate::value::{EncodeError, IntoValue, TableValue, Value, ValueError, wrong_type};
use lazuli_model::EdmType;
use std::time::Duration;

/// A Rust type that can be stored in the form `F`.
///
/// ```
/// use lazuli_client::Value;
/// use lazuli_client::form::{Bits, Iso, Json, Plain, StoredAs, Text};
/// use std::time::Duration;
///
/// # fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let span = Duration::from_millis(1500);
/// assert_eq!(StoredAs::<Plain>::store(&span)?, Value::Int64(15_000_000));
/// assert_eq!(StoredAs::<Iso>::store(&span)?, Value::String("PT1.5S".into()));
/// assert_eq!(StoredAs::<Bits>::store(&u64::MAX)?, Value::Int64(-1));
/// assert_eq!(StoredAs::<Text>::store(&7_u64)?, Value::String("00000000000000000007".into()));
/// let tags: Vec<String> = StoredAs::<Json>::restore(Value::String(r#"["a","b"]"#.into()))?;
/// assert_eq!(tags, ["a", "b"]);
/// # Ok(())
/// # }
/// # run().unwrap();
/// ```
pub trait StoredAs<F>: Sized {
    /// The Edm type in this form.
    const EDM_TYPE: EdmType;

    /// The stored value.
    fn store(&self) -> Result<Value, EncodeError>;

    /// Reads the stored value.
    fn restore(value: Value) -> Result<Self, ValueError>;
}

/// The default form of the type.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// A number as a checked Int32: `as = "int32"`.
#[derive(Clone, Copy, Debug)]
pub struct Int32;

/// An unsigned number by its bits, as the old .NET converter wrote it: `as = "bits"`.
#[derive(Clone, Copy, Debug)]
pub struct Bits;

/// A number as text of a fixed width, which sorts as the numbers do: `as = "text"`.
#[derive(Clone, Copy, Debug)]
pub struct Text;

/// A span of time as ISO 8601 text, `PT1.5S`: `as = "iso"`.
#[derive(Clone, Copy, Debug)]
pub struct Iso;

/// A decimal number as a Double, which loses digits: `as = "double"`.
///
/// ```
/// # #[cfg(feature = "decimal")] {
/// use lazuli_client::prelude::*;
/// use rust_decimal::Decimal;
///
/// #[derive(TableEntity)]
/// #[table(partition = "{shop}", row = "{id:08}", rename_all = "PascalCase")]
/// struct Order {
///     shop: String,
///     id: u32,
///     total: Decimal,
///     #[table(as = "double")]
///     weight: Decimal,
/// }
///
/// assert_eq!(Order::TOTAL.eq(Decimal::new(1999, 2)).to_string(), "Total eq '19.99'");
/// assert_eq!(Order::WEIGHT.lt(Decimal::new(25, 1)).to_string(), "Weight lt 2.5");
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Double;

/// Anything that serde can serialize, as compact JSON text: `json`.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl<T: TableValue> StoredAs<Plain> for T {
    const EDM_TYPE: EdmType = T::EDM_TYPE;

    fn store(&self) -> Result<Value, EncodeError> {
        self.to_value()
    }

    fn restore(value: Value) -> Result<Self, ValueError> {
        T::from_owned(value)
    }
}

macro_rules! int32 {
    ($($rust:ty),*) => {$(
        impl StoredAs<Int32> for $rust {
            const EDM_TYPE: EdmType = EdmType::Int32;

            fn store(&self) -> Result<Value, EncodeError> {
                i32::try_from(*self).map(Value::Int32).map_err(|_| EncodeError::OutOfRange {
                    value: self.to_string(),
                    edm_type: EdmType::Int32.name(),
                })
            }

            fn restore(value: Value) -> Result<Self, ValueError> {
                <$rust>::from_value(&value)
            }
        }
    )*};
}

int32!(u32, i64, u64, isize, usize);

impl StoredAs<Bits> for u64 {
    const EDM_TYPE: EdmType = EdmType::Int64;

    fn store(&self) -> Result<Value, EncodeError> {
        Ok(Value::Int64(self.cast_signed()))
    }

    fn restore(value: Value) -> Result<Self, ValueError> {
        i64::from_value(&value).map(i64::cast_unsigned)
    }
}

/// Numbers as text, with `$offset` added so that the least is zero.
macro_rules! text {
    ($($rust:ty: $width:literal, $to:expr, $from:expr;)*) => {$(
        impl StoredAs<Text> for $rust {
            const EDM_TYPE: EdmType = EdmType::String;

            fn store(&self) -> Result<Value, EncodeError> {
                let to: fn($rust) -> u128 = $to;
                Ok(format!("{:0width$}", to(*self), width = $width).into_value())
            }

            fn restore(value: Value) -> Result<Self, ValueError> {
                let Value::String(text) = &value else {
                    return Err(wrong_type(EdmType::String, &value));
                };
                let from: fn(u128) -> Option<$rust> = $from;
                let number = lazuli_model::key_text::parse_padded(text, $width).and_then(from);
                number.ok_or(ValueError::OutOfRange { expected: stringify!($rust) })
            }
        }
    )*};
}

text! {
    u64: 20, u128::from, |number| number.try_into().ok();
    usize: 20, |number| number as u128, |number| number.try_into().ok();
    u128: 39, |number| number, Some;
    i128: 39, |number| number.cast_unsigned() ^ (1 << 127), |number| Some((number ^ (1 << 127)).cast_signed());
}

impl StoredAs<Iso> for Duration {
    const EDM_TYPE: EdmType = EdmType::String;

    /// Only seconds: `PT86401.5S`. Exact to the nanosecond.
    fn store(&self) -> Result<Value, EncodeError> {
        let nanos = format!("{:09}", self.subsec_nanos());
        let text = match nanos.trim_end_matches('0') {
            "" => format!("PT{}S", self.as_secs()),
            fraction => format!("PT{}.{fraction}S", self.as_secs()),
        };
        Ok(text.into_value())
    }

    /// Days, hours, minutes and seconds; months and years have no fixed length.
    fn restore(value: Value) -> Result<Self, ValueError> {
        let Value::String(text) = &value else { return Err(wrong_type(EdmType::String, &value)) };
        parse_iso(text).ok_or(ValueError::OutOfRange { expected: "an ISO 8601 duration" })
    }
}

fn parse_iso(text: &str) -> Option<Duration> {
    let (days, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((days, time)) if !time.is_empty() => (days, time),
        Some(_) => return None,
        None => (text.strip_prefix('P').filter(|days| !days.is_empty())?, ""),
    };
    let mut seconds: u64 = 0;
    let mut nanos: u32 = 0;
    for (part, units) in [(days, &[('D', 86_400)][..]), (time, &[('H', 3600), ('M', 60), ('S', 1)])]
    {
        let mut rest = part;
        for (unit, length) in units {
            let Some((number, after)) = rest.split_once(*unit) else { continue };
            let (whole, fraction) = match number.split_once('.') {
                Some((whole, fraction)) if *unit == 'S' => (whole, fraction),
                Some(_) => return None,
                None => (number, ""),
            };
            let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || fraction.len() > 9 {
                return None;
            }
            seconds = whole.parse::<u64>().ok()?.checked_mul(*length)?.checked_add(seconds)?;
            nanos = format!("{fraction:0<9}").parse().ok()?;
            rest = after;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    Some(Duration::new(seconds, nanos))
}

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> StoredAs<Json> for T {
    const EDM_TYPE: EdmType = EdmType::String;

    fn store(&self) -> Result<Value, EncodeError> {
        let text = serde_json::to_string(self);
        let text = text.map_err(|error| EncodeError::Json(error.to_string()))?;
        // JSON escapes U+0000, so the text never contains it.
        Ok(text.into_value())
    }

    fn restore(value: Value) -> Result<Self, ValueError> {
        let Value::String(text) = &value else { return Err(wrong_type(EdmType::String, &value)) };
        serde_json::from_str(text).map_err(|error| ValueError::Json(error.to_string()))
    }
}

#[cfg(feature = "decimal")]
impl TableValue for rust_decimal::Decimal {
    const EDM_TYPE: EdmType = EdmType::String;

    fn to_value(&self) -> Result<Value, EncodeError> {
        Ok(self.to_string().into_value())
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let Value::String(text) = value else { return Err(wrong_type(EdmType::String, value)) };
        let number = Self::from_str_exact(text);
        number.map_err(|_| ValueError::OutOfRange { expected: "Decimal" })
    }
}

#[cfg(feature = "decimal")]
impl StoredAs<Double> for rust_decimal::Decimal {
    const EDM_TYPE: EdmType = EdmType::Double;

    fn store(&self) -> Result<Value, EncodeError> {
        let number = f64::try_from(*self).map_err(|_| EncodeError::OutOfRange {
            value: self.to_string(),
            edm_type: EdmType::Double.name(),
        })?;
        Ok(Value::Double(number))
    }

    fn restore(value: Value) -> Result<Self, ValueError> {
        let number = f64::from_value(&value)?;
        Self::try_from(number).map_err(|_| ValueError::OutOfRange { expected: "Decimal" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back<F, T: StoredAs<F> + PartialEq + std::fmt::Debug>(value: T) -> Value {
        let stored = value.store().unwrap();
        assert_eq!(stored.as_ref().edm_type(), T::EDM_TYPE);
        assert_eq!(T::restore(stored.clone()), Ok(value));
        stored
    }

    #[test]
    fn numbers_in_other_forms_go_there_and_back() {
        // C-5.2.
        assert_eq!(there_and_back::<Int32, _>(7_u32), Value::Int32(7));
        assert!(StoredAs::<Int32>::store(&u32::MAX).is_err());
        assert_eq!(there_and_back::<Bits, _>(u64::MAX), Value::Int64(-1));
        assert_eq!(there_and_back::<Text, _>(7_u64), "00000000000000000007".into_value());
        assert_eq!(there_and_back::<Text, _>(u64::MAX), "18446744073709551615".into_value());
        there_and_back::<Text, _>(u128::MAX);
        let zeros = "0".repeat(39).into_value();
        assert_eq!(there_and_back::<Text, _>(i128::MIN), zeros);
        there_and_back::<Text, _>(i128::MAX);
        there_and_back::<Text, _>(-1_i128);
        assert!(<u64 as StoredAs<Text>>::restore("7".into_value()).is_err());
    }

    #[test]
    fn spans_of_time_are_iso_text() {
        let text = |duration: Duration| there_and_back::<Iso, _>(duration);
        assert_eq!(text(Duration::from_millis(1500)), "PT1.5S".into_value());
        assert_eq!(text(Duration::ZERO), "PT0S".into_value());
        assert_eq!(parse_iso("P1DT2H3M4.25S"), Some(Duration::new(93_784, 250_000_000)));
        for bad in ["", "P", "PT", "1S", "PT1", "PT1.5H", "P1M", "PT-1S", "PT1S2", "PTS"] {
            assert_eq!(parse_iso(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn text_forms_sort_as_numbers_do(a in any::<i128>(), b in any::<i128>()) {
            let text = |number: i128| match StoredAs::<Text>::store(&number) {
                Ok(Value::String(text)) => text.into_owned(),
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(text(a).cmp(&text(b)), a.cmp(&b));
        }
    }
}
