//! The parts of keys, and of properties that are in keys.

use crate::key_part::{Calendar, KeyText};
use crate::value::Value;
use lazuli_model::key_text::escape;
use lazuli_model::{Guid, Timestamp};

/// The value of a key field or a property, as far as keys can represent it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Number(i128),
    Time(Timestamp),
    Guid(Guid),
    Bytes(Vec<u8>),
    /// The digits of a month, day, hour or minute; the rest is unknown.
    Calendar(Calendar, String),
}

impl Part {
    /// The part for a property; `None` if its type cannot be in keys.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::String(text) => Self::Text(text.to_string()),
            Value::Int32(number) => Self::Number((*number).into()),
            Value::Int64(number) => Self::Number((*number).into()),
            Value::DateTime(time) => Self::Time(*time),
            Value::Guid(guid) => Self::Guid(*guid),
            Value::Binary(bytes) => Self::Bytes(bytes.to_vec()),
            _ => return None,
        })
    }

    pub(super) fn write_plain(&self, out: &mut String, separator: Option<char>) -> Option<()> {
        match self {
            Self::Text(text) => escape(out, text, separator),
            Self::Number(number) => u64::try_from(*number).ok()?.write_text(out, separator),
            Self::Guid(guid) => guid.write_text(out, separator),
            Self::Time(_) | Self::Bytes(_) | Self::Calendar(..) => return None,
        }
        Some(())
    }

    /// A number, including one that a key holds as plain text.
    pub(super) fn number(&self) -> Option<i128> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => u64::parse_text(text).map(i128::from),
            _ => None,
        }
    }
}
