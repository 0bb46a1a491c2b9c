//! The entity in a request body, whatever its format.

use crate::base64::STANDARD;
use base64::Engine;
use lazuli_model::{EdmType, Guid, Timestamp, Value};
use std::borrow::Cow;

/// An entity as a client sent it.
///
/// Nulls, control information and `Timestamp` are removed (T-3.46, T-3.49); a duplicate property is
/// kept, for `Properties::new` to refuse.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityBody<'a> {
    /// `None` when missing or null: an error on insert only (T-3.14, T-3.51).
    pub partition_key: Option<Cow<'a, str>>,
    pub row_key: Option<Cow<'a, str>>,
    /// Whether a key has a type other than Edm.String: an insert is refused (T-3.18), while an
    /// update takes its keys from the URL and ignores it (T-3.51).
    pub has_mistyped_key: bool,
    pub properties: Vec<(Cow<'a, str>, Value<'a>)>,
}

/// Why a body cannot be read.
///
/// All but [`BodyError::DuplicateProperty`] return 400 `InvalidInput`, "An error occurred while
/// processing this request.": logs and tests distinguish the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Not a document of its format, or nested where the service allows only primitive values.
    #[error("the body is malformed")]
    Malformed,
    /// A type that the service does not store (T-3.32).
    #[error("a property has an unknown type")]
    UnknownType,
    /// A value that is invalid for its type (T-3.30, T-3.31, T-3.33, T-3.41, T-3.43, T-3.45).
    #[error("a property value does not fit its type")]
    InvalidValue,
    /// A key is given twice: 400 `DuplicatePropertiesSpecified`, "A property is specified more than
    /// one time." (T-3.26). `Properties::new` finds the same fault in custom properties.
    #[error("a key is given twice")]
    DuplicateProperty,
}

/// Fills `slot`, which holds a key and must still be empty.
pub(super) fn set_key<'a>(
    slot: &mut Option<Cow<'a, str>>,
    text: Cow<'a, str>,
) -> Result<(), BodyError> {
    match slot.replace(text) {
        None => Ok(()),
        Some(_) => Err(BodyError::DuplicateProperty),
    }
}

/// Parses `text` as type `edm_type`: every type may be given as text (T-3.27).
pub fn value_from_text<'a>(text: Cow<'a, str>, edm_type: EdmType) -> Result<Value<'a>, BodyError> {
    let value = match edm_type {
        EdmType::String => return string(text),
        EdmType::Boolean => boolean(&text).map(Value::Boolean),
        EdmType::Int32 => text.parse().ok().map(Value::Int32),
        EdmType::Int64 => text.parse().ok().map(Value::Int64),
        EdmType::Double => double(&text).map(Value::Double),
        EdmType::DateTime => Timestamp::parse(&text).map(Value::DateTime),
        EdmType::Guid => Guid::parse(&text).map(Value::Guid),
        EdmType::Binary => (STANDARD.decode(text.as_bytes()).ok()).map(|b| Value::Binary(b.into())),
    };
    value.ok_or(BodyError::InvalidValue)
}

/// U+0000 is the only character that a string value must not contain (T-3.45).
pub(super) fn string(text: Cow<'_, str>) -> Result<Value<'_>, BodyError> {
    if memchr::memchr(0, text.as_bytes()).is_some() {
        return Err(BodyError::InvalidValue);
    }
    Ok(Value::String(text))
}

/// A number in decimal or exponent notation that is finite as a Double (T-3.33).
pub(super) fn finite_double(text: &str) -> Option<f64> {
    // `parse` also accepts the names of infinities and NaN, and a leading plus sign.
    let numeric = |b: &u8| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    if !text.as_bytes().iter().all(numeric) {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        // JSON writes the names, Atom the abbreviations; .NET reads both.
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        number => finite_double(number),
    }
}

fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, edm_type: EdmType, expect: Option<Value<'static>>) {
        let got = value_from_text(text.into(), edm_type).map(Value::into_owned);
        assert_eq!(got, expect.ok_or(BodyError::InvalidValue), "{text}");
    }

    #[test]
    fn every_type_is_read_from_text() {
        check("a", EdmType::String, Some("a".into()));
        check("False", EdmType::Boolean, Some(Value::Boolean(false)));
        check("-42", EdmType::Int32, Some(Value::Int32(-42)));
        check("9223372036854775807", EdmType::Int64, Some(Value::Int64(i64::MAX)));
        check("0", EdmType::Double, Some(Value::Double(0.0)));
        check("1.23456789012346e+24", EdmType::Double, Some(Value::Double(1.23456789012346e24)));
        check("-Infinity", EdmType::Double, Some(Value::Double(f64::NEG_INFINITY)));
        check("AQI=", EdmType::Binary, Some(Value::Binary(vec![1, 2].into())));
    }

    #[test]
    fn what_does_not_fit_its_type_is_refused() {
        check("not a bool", EdmType::Boolean, None);
        check("2147483648", EdmType::Int32, None);
        check("9223372036854775808", EdmType::Int64, None);
        check("3.0", EdmType::Int64, None);
        for text in ["1e400", "infinity", "nan", "0x1", "1 ", ""] {
            check(text, EdmType::Double, None);
        }
        for edm_type in [EdmType::DateTime, EdmType::Guid, EdmType::Int64] {
            check("", edm_type, None);
        }
        check("AQI", EdmType::Binary, None);
        check("A*I=", EdmType::Binary, None);
    }

    #[test]
    fn empty_strings_and_binaries_are_values() {
        check("", EdmType::String, Some("".into()));
        check("", EdmType::Binary, Some(Value::Binary(vec![].into())));
    }
}
