//! Rust types as property values, and back (C-5.2).

use lazuli_model::limits::BINARY_BYTES_MAX;
use lazuli_model::{EdmType, EntityKey, Guid, Timestamp};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A property value: one of the eight Edm types.
pub type Value = lazuli_model::Value<'static>;

/// A value that cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The number does not fit into the stored type.
    #[error("{value} does not fit {edm_type}")]
    OutOfRange {
        /// The number.
        value: String,
        /// The stored type.
        edm_type: &'static str,
    },
    /// A time before 1601 or after 9999.
    #[error("a time before 1601 or after 9999 cannot be stored")]
    TimeOutOfRange,
    /// The service does not accept U+0000.
    #[error("a text holds U+0000")]
    Nul,
    /// A value whose serde form does not fit into properties.
    #[error("it cannot be written: {0}")]
    Serde(String),
    /// A value in the text of a filter that no type has.
    #[error("{0}")]
    Filter(String),
    /// A text that is not a valid property name, or that filters cannot name.
    #[error("{name:?} is not the name of a property that can be asked for")]
    Name {
        /// The text.
        name: String,
    },
    /// A value that cannot be serialized to JSON.
    #[error("it cannot be written as JSON: {0}")]
    Json(String),
}

/// An entity that cannot be decoded as a type.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("property {property}: {reason}")]
pub struct DecodeError {
    /// The property.
    pub property: String,
    /// What is wrong with it.
    pub reason: ValueError,
    /// The entity, if known.
    pub key: Option<EntityKey>,
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// It is missing.
    #[error("it is missing")]
    Missing,
    /// It has another type.
    #[error("expected {expected}, found {}", .found.name())]
    WrongType {
        /// The expected type.
        expected: &'static str,
        /// What is stored.
        found: EdmType,
    },
    /// It has the right type, but is out of range.
    #[error("the value does not fit {expected}")]
    OutOfRange {
        /// The accepted values.
        expected: &'static str,
    },
    /// Serde cannot deserialize it.
    #[error("it cannot be read: {0}")]
    Serde(String),
    /// It is not valid JSON for the type.
    #[error("it cannot be read as JSON: {0}")]
    Json(String),
    /// The entity is of another kind (C-6.1).
    #[error("expected an entity of kind {expected}, found {found:?}")]
    WrongKind {
        /// The kind of the type.
        expected: &'static str,
        /// The kind of the entity.
        found: String,
    },
    /// The entity was written by a newer version of the program (C-6.4).
    #[error("version {found} of the type is newer than {known}, the one known here")]
    NewerVersion {
        /// The version of the entity.
        found: u32,
        /// The version of the type.
        known: u32,
    },
    /// The key does not match the type's template.
    #[error("{0}")]
    Key(Box<crate::key::KeyError>),
    /// The property and the key contradict each other (C-4.10).
    #[error("it is not what the key says")]
    KeyMismatch,
    /// The property is unknown to the type, which denies unknown properties.
    #[error("the type does not know it")]
    Unknown,
}

/// A Rust type that a property can hold.
///
/// A type of one's own; for enums there is `#[derive(TableValue)]`.
///
/// ```
/// use lazuli_client::prelude::*;
/// use lazuli_client::{EdmType, EncodeError, IntoValue, Value, ValueError};
///
/// /// Stored in cents.
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Money(i64);
///
/// impl TableValue for Money {
///     const EDM_TYPE: EdmType = EdmType::Int64;
///
///     fn to_value(&self) -> Result<Value, EncodeError> {
///         Ok(self.0.into_value())
///     }
///
///     fn from_value(value: &Value) -> Result<Self, ValueError> {
///         i64::from_value(value).map(Self)
///     }
/// }
///
/// #[derive(TableEntity)]
/// #[table(partition = "{shop}", row = "{id:08}", rename_all = "PascalCase")]
/// struct Order { shop: String, id: u32, total: Money }
///
/// assert_eq!(Order::TOTAL.ge(Money(1999)).to_string(), "Total ge 1999L");
/// assert_eq!(Money::from_owned(Value::Int64(5)), Ok(Money(5)));
/// assert!(matches!(Money::from_value(&Value::Boolean(true)), Err(ValueError::WrongType { .. })));
/// ```
pub trait TableValue: Sized {
    /// The stored type.
    const EDM_TYPE: EdmType;

    /// The stored value.
    fn to_value(&self) -> Result<Value, EncodeError>;

    /// Reads the stored value.
    fn from_value(value: &Value) -> Result<Self, ValueError>;

    /// Reads the stored value, consuming it.
    fn from_owned(value: Value) -> Result<Self, ValueError> {
        Self::from_value(&value)
    }
}

/// A Rust value that can always be stored: what `Entity::with` takes.
pub trait IntoValue {
    /// The stored value.
    fn into_value(self) -> Value;
}

fn wrong<T: TableValue>(value: &Value) -> ValueError {
    wrong_type(T::EDM_TYPE, value)
}

/// The error of a value whose type is not `expected`.
pub fn wrong_type(expected: EdmType, value: &Value) -> ValueError {
    ValueError::WrongType { expected: expected.name(), found: value.as_ref().edm_type() }
}

/// Types whose stored form is one variant, without conversion.
macro_rules! same {
    ($($rust:ty: $edm:ident;)*) => {$(
        impl TableValue for $rust {
            const EDM_TYPE: EdmType = EdmType::$edm;

            fn to_value(&self) -> Result<Value, EncodeError> {
                Ok(Value::$edm(self.clone().into()))
            }

            fn from_value(value: &Value) -> Result<Self, ValueError> {
                match value {
                    Value::$edm(value) => Ok(value.clone().into()),
                    other => Err(wrong::<Self>(other)),
                }
            }
        }

        impl IntoValue for $rust {
            fn into_value(self) -> Value {
                Value::$edm(self.into())
            }
        }
    )*};
}

same! {
    bool: Boolean;
    Timestamp: DateTime;
    Guid: Guid;
}

/// Integers stored in a type that holds all or some of their values.
macro_rules! integers {
    ($($rust:ty: $edm:ident as $stored:ty;)*) => {$(
        impl TableValue for $rust {
            const EDM_TYPE: EdmType = EdmType::$edm;

            fn to_value(&self) -> Result<Value, EncodeError> {
                let fits = <$stored>::try_from(*self);
                fits.map(Value::$edm).map_err(|_| EncodeError::OutOfRange {
                    value: self.to_string(),
                    edm_type: EdmType::$edm.name(),
                })
            }

            fn from_value(value: &Value) -> Result<Self, ValueError> {
                let fits = match value {
                    Value::Int32(value) => Self::try_from(*value).ok(),
                    Value::Int64(value) => Self::try_from(*value).ok(),
                    other => return Err(wrong::<Self>(other)),
                };
                fits.ok_or(ValueError::OutOfRange { expected: stringify!($rust) })
            }
        }
    )*};
}

integers! {
    i8: Int32 as i32;
    u8: Int32 as i32;
    i16: Int32 as i32;
    u16: Int32 as i32;
    i32: Int32 as i32;
    u32: Int64 as i64;
    i64: Int64 as i64;
    u64: Int64 as i64;
    isize: Int64 as i64;
    usize: Int64 as i64;
}

macro_rules! into_value {
    ($($rust:ty: $edm:ident;)*) => {$(
        impl IntoValue for $rust {
            fn into_value(self) -> Value {
                Value::$edm(self.into())
            }
        }
    )*};
}

into_value! {
    i8: Int32;
    u8: Int32;
    i16: Int32;
    u16: Int32;
    i32: Int32;
    u32: Int64;
    i64: Int64;
    f32: Double;
    f64: Double;
}

impl IntoValue for Value {
    fn into_value(self) -> Value {
        self
    }
}

impl IntoValue for &str {
    fn into_value(self) -> Value {
        Value::String(Cow::Owned(self.to_owned()))
    }
}

impl IntoValue for String {
    fn into_value(self) -> Value {
        Value::String(Cow::Owned(self))
    }
}

impl IntoValue for Vec<u8> {
    fn into_value(self) -> Value {
        Value::Binary(Cow::Owned(self))
    }
}

impl IntoValue for &[u8] {
    fn into_value(self) -> Value {
        Value::Binary(Cow::Owned(self.to_owned()))
    }
}

impl IntoValue for bytes::Bytes {
    fn into_value(self) -> Value {
        Value::Binary(Cow::Owned(self.into()))
    }
}

impl TableValue for f64 {
    const EDM_TYPE: EdmType = EdmType::Double;

    fn to_value(&self) -> Result<Value, EncodeError> {
        Ok(Value::Double(*self))
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        /// Integers up to this one are exact.
        const EXACT: i64 = 1 << f64::MANTISSA_DIGITS;
        match value {
            Value::Double(value) => Ok(*value),
            Value::Int32(value) => Ok((*value).into()),
            Value::Int64(value) if (-EXACT..=EXACT).contains(value) => Ok(*value as Self),
            Value::Int64(_) => Err(ValueError::OutOfRange { expected: "f64" }),
            other => Err(wrong::<Self>(other)),
        }
    }
}

impl TableValue for f32 {
    const EDM_TYPE: EdmType = EdmType::Double;

    fn to_value(&self) -> Result<Value, EncodeError> {
        Ok(Value::Double((*self).into()))
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let wide = f64::from_value(value)?;
        let narrow = wide as Self;
        let is_exact = wide.is_nan() || f64::from(narrow) == wide;
        if is_exact { Ok(narrow) } else { Err(ValueError::OutOfRange { expected: "f32" }) }
    }
}

/// Owned text types.
macro_rules! texts {
    ($($rust:ty),*) => {$(
        impl TableValue for $rust {
            const EDM_TYPE: EdmType = EdmType::String;

            fn to_value(&self) -> Result<Value, EncodeError> {
                text(self)
            }

            fn from_value(value: &Value) -> Result<Self, ValueError> {
                match value {
                    Value::String(text) => Ok((&**text).into()),
                    other => Err(wrong::<Self>(other)),
                }
            }
        }
    )*};
}

texts!(Box<str>, Arc<str>);

impl TableValue for String {
    const EDM_TYPE: EdmType = EdmType::String;

    fn to_value(&self) -> Result<Value, EncodeError> {
        text(self)
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::String(text) => Ok((**text).to_owned()),
            other => Err(wrong::<Self>(other)),
        }
    }

    fn from_owned(value: Value) -> Result<Self, ValueError> {
        match value {
            Value::String(text) => Ok(text.into_owned()),
            other => Err(wrong::<Self>(&other)),
        }
    }
}

impl TableValue for Cow<'static, str> {
    const EDM_TYPE: EdmType = EdmType::String;

    fn to_value(&self) -> Result<Value, EncodeError> {
        text(self)
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        String::from_value(value).map(Cow::Owned)
    }
}

impl TableValue for crate::ETag {
    const EDM_TYPE: EdmType = EdmType::String;

    fn to_value(&self) -> Result<Value, EncodeError> {
        text(self.as_str())
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        String::from_value(value).map(Self::new)
    }
}

fn text(text: &str) -> Result<Value, EncodeError> {
    // Testing every byte takes fewer instructions than a search with an early exit.
    if text.bytes().fold(false, |found, byte| found | (byte == 0)) {
        return Err(EncodeError::Nul);
    }
    Ok(text.into_value())
}

impl TableValue for char {
    const EDM_TYPE: EdmType = EdmType::String;

    fn to_value(&self) -> Result<Value, EncodeError> {
        text(self.encode_utf8(&mut [0; 4]))
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let text = String::from_value(value)?;
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) => Ok(character),
            _ => Err(ValueError::OutOfRange { expected: "char" }),
        }
    }
}

impl TableValue for Vec<u8> {
    const EDM_TYPE: EdmType = EdmType::Binary;

    fn to_value(&self) -> Result<Value, EncodeError> {
        Ok(self.as_slice().into_value())
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Binary(bytes) => Ok(bytes.to_vec()),
            other => Err(wrong::<Self>(other)),
        }
    }

    fn from_owned(value: Value) -> Result<Self, ValueError> {
        match value {
            Value::Binary(bytes) => Ok(bytes.into_owned()),
            other => Err(wrong::<Self>(&other)),
        }
    }
}

impl TableValue for bytes::Bytes {
    const EDM_TYPE: EdmType = EdmType::Binary;

    fn to_value(&self) -> Result<Value, EncodeError> {
        Ok(self.clone().into_value())
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        Vec::from_value(value).map(Self::from)
    }
}

impl<const N: usize> TableValue for [u8; N] {
    const EDM_TYPE: EdmType = {
        assert!(N <= BINARY_BYTES_MAX, "a property holds at most 64 KiB");
        EdmType::Binary
    };

    fn to_value(&self) -> Result<Value, EncodeError> {
        Ok(self.as_slice().into_value())
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let bytes = Vec::from_value(value)?;
        bytes.try_into().map_err(|_| ValueError::OutOfRange { expected: "[u8; N]" })
    }
}

const TICKS_PER_SECOND: u64 = 10_000_000;
const NANOS_PER_TICK: u32 = 100;

impl TableValue for Duration {
    const EDM_TYPE: EdmType = EdmType::Int64;

    /// In ticks of 100 ns; truncated.
    fn to_value(&self) -> Result<Value, EncodeError> {
        let ticks = (self.as_nanos() / u128::from(NANOS_PER_TICK)).try_into();
        ticks.map(Value::Int64).map_err(|_| EncodeError::OutOfRange {
            value: format!("{self:?}"),
            edm_type: EdmType::Int64.name(),
        })
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let ticks = u64::from_value(value)?;
        let nanos = u32::try_from(ticks % TICKS_PER_SECOND).unwrap_or(0) * NANOS_PER_TICK;
        Ok(Self::new(ticks / TICKS_PER_SECOND, nanos))
    }
}

impl TableValue for SystemTime {
    const EDM_TYPE: EdmType = EdmType::DateTime;

    /// Truncated to 100 ns towards the past (C-5.2).
    fn to_value(&self) -> Result<Value, EncodeError> {
        let epoch = i128::from(Timestamp::UNIX_EPOCH.ticks());
        let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        let since = match self.duration_since(Self::UNIX_EPOCH) {
            Ok(after) => nanos(after),
            Err(before) => -nanos(before.duration()),
        };
        let ticks = since.div_euclid(NANOS_PER_TICK.into()).saturating_add(epoch);
        let time = u64::try_from(ticks).ok().and_then(Timestamp::from_ticks);
        let storable = time.filter(|time| *time >= Timestamp::EDM_MIN);
        storable.map(Value::DateTime).ok_or(EncodeError::TimeOutOfRange)
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let ticks = Timestamp::from_value(value)?.ticks();
        let epoch = Timestamp::UNIX_EPOCH.ticks();
        let span = |ticks: u64| {
            let nanos = u32::try_from(ticks % TICKS_PER_SECOND).unwrap_or(0) * NANOS_PER_TICK;
            Duration::new(ticks / TICKS_PER_SECOND, nanos)
        };
        let time = match ticks.checked_sub(epoch) {
            Some(after) => Self::UNIX_EPOCH.checked_add(span(after)),
            None => Self::UNIX_EPOCH.checked_sub(span(epoch - ticks)),
        };
        time.ok_or(ValueError::OutOfRange { expected: "SystemTime" })
    }
}

#[cfg(feature = "uuid")]
impl TableValue for uuid::Uuid {
    const EDM_TYPE: EdmType = EdmType::Guid;

    fn to_value(&self) -> Result<Value, EncodeError> {
        Ok((*self).into_value())
    }

    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Guid(guid) => Ok(Self::from_bytes(guid.0)),
            other => Err(wrong::<Self>(other)),
        }
    }
}

#[cfg(feature = "uuid")]
impl IntoValue for uuid::Uuid {
    fn into_value(self) -> Value {
        Value::Guid(Guid(self.into_bytes()))
    }
}

#[cfg(test)]
mod tests;
