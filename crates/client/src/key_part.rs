//! Values as parts of keys: texts that sort as the values do, and can be parsed (C-4.2).
//!
//! One trait for each format. A template that uses a format which the type does not support does not
//! compile. Stored keys depend on every function here: the output must never change.
//!
//! What each format writes:
//!
//! ```
//! use lazuli_client::key_part::*;
//! use lazuli_client::{Guid, Timestamp};
//!
//! fn text(write: impl FnOnce(&mut String)) -> String {
//!     let mut text = String::new();
//!     write(&mut text);
//!     text
//! }
//!
//! # fn run() -> Result<(), lazuli_client::KeyError> {
//! // {id}, {name}, {id:06}, {id:pad}, {id:rev}; a signed number is shifted
//! assert_eq!(text(|out| 42_u32.write_text(out, None)), "42");
//! assert_eq!(text(|out| "R_D/1".to_owned().write_text(out, Some('_'))), "R~5FD~2F1");
//! assert_eq!(text(|out| 42_u32.write_width(out, 6).unwrap()), "000042");
//! assert_eq!(text(|out| 42_u32.write_pad(out)), "0000000042");
//! assert_eq!(text(|out| (-1_i32).write_pad(out)), "2147483647");
//! assert_eq!(text(|out| 42_u8.write_rev(out).unwrap()), "213");
//! // {name:lower}, {name:bucket(16)}, {id:hex}
//! assert_eq!(text(|out| "Sales".to_owned().write_lower(out, None)), "sales");
//! assert_eq!(text(|out| "Sales".to_owned().write_bucket(out, 16)), "07");
//! assert_eq!(text(|out| Guid([0xAB; 16]).write_hex(out)), "ab".repeat(16));
//! // {at:ticks}, {at:rev}, {at:date}, {at:iso}
//! let at = Timestamp::parse("2014-08-22T00:50:32Z").unwrap();
//! assert_eq!(text(|out| write_time_ticks(out, &at).unwrap()), "0635442654320000000");
//! assert_eq!(text(|out| at.write_rev(out).unwrap()), "2519936321679999999");
//! assert_eq!(text(|out| at.write_calendar(out, Calendar::Date).unwrap()), "20140822");
//! assert_eq!(text(|out| at.write_iso(out).unwrap()), "2014-08-22T00:50:32.0000000Z");
//!
//! // And back. A calendar format keeps the beginning of its period.
//! assert_eq!(u32::parse_width("000042", 6), Some(42));
//! assert_eq!(i32::parse_pad("2147483647"), Some(-1));
//! assert_eq!(u8::parse_rev("213"), Some(42));
//! assert_eq!(Guid::parse_hex(&"ab".repeat(16)), Some(Guid([0xAB; 16])));
//! assert_eq!(parse_time_ticks("0635442654320000000"), Some(at));
//! assert_eq!(Timestamp::parse_iso("2014-08-22T00:50:32.0000000Z"), Some(at));
//! assert_eq!(Calendar::Hour.width(), 10);
//! let hour = Timestamp::parse_calendar("2014082200", Calendar::Hour);
//! assert_eq!(hour, Timestamp::parse("2014-08-22T00:00:00Z"));
//! # Ok(())
//! # }
//! # run().unwrap();
//! ```

use lazuli_model::key_text::{
    TICKS_DIGITS, escape, parse_inverted_ticks, parse_padded, parse_ticks, unescape, write_bucket,
    write_inverted_ticks, write_padded, write_ticks,
};
use lazuli_model::{Guid, Timestamp};
use std::sync::Arc;
use std::time::SystemTime;

use crate::key::KeyError;
use crate::value::{TableValue, Value};

/// A value as plain text: `{name}`.
///
/// A type of one's own in a key:
///
/// ```
/// use lazuli_client::key_part::{KeyPad, KeyText};
/// use lazuli_client::prelude::*;
///
/// /// A maker's number and its article: `00017-00042`.
/// #[derive(Clone, Debug, PartialEq)]
/// struct Sku { maker: u16, article: u16 }
///
/// impl KeyText for Sku {
///     const WIDTH: Option<usize> = Some(11);
///
///     fn write_text(&self, out: &mut String, _separator: Option<char>) {
///         self.maker.write_pad(out);
///         out.push('-');
///         self.article.write_pad(out);
///     }
///
///     fn parse_text(text: &str) -> Option<Self> {
///         let (maker, article) = text.split_once('-')?;
///         Some(Self { maker: u16::parse_pad(maker)?, article: u16::parse_pad(article)? })
///     }
/// }
///
/// #[derive(TableEntity)]
/// #[table(partition = "{shop}", row = "{sku}")]
/// struct Stock { shop: String, sku: Sku, pieces: u32 }
///
/// let key = Stock::key("Main Street", Sku { maker: 17, article: 42 }).unwrap();
/// assert_eq!(key.as_entity_key().row.as_str(), "00017-00042");
/// ```
pub trait KeyText: Sized {
    /// The length of the text in characters, if it is the same for all values.
    const WIDTH: Option<usize> = None;

    /// Appends the text; it must not contain `separator`, the character that follows.
    fn write_text(&self, out: &mut String, separator: Option<char>);

    /// Reads what [`KeyText::write_text`] wrote.
    fn parse_text(text: &str) -> Option<Self>;

    /// Appends the number of the bucket among `buckets` that the value falls into: `{name:bucket(16)}`.
    fn write_bucket(&self, out: &mut String, buckets: u64) {
        let mut text = String::new();
        self.write_text(&mut text, None);
        // Computed from the text itself, not from its escaped form.
        write_bucket(out, &unescape(&text).unwrap_or(text), buckets);
    }
}

macro_rules! text_parts {
    ($($rust:ty),*) => {$(
        impl KeyText for $rust {
            fn write_text(&self, out: &mut String, separator: Option<char>) {
                escape(out, self, separator);
            }

            fn parse_text(text: &str) -> Option<Self> {
                unescape(text).map(Into::into)
            }
        }
    )*};
}

text_parts!(String, Box<str>, Arc<str>);

/// A text in lower case: `{name:lower}`.
pub trait KeyLower: KeyText {
    /// Appends the text in lower case.
    fn write_lower(&self, out: &mut String, separator: Option<char>);
}

impl<T: KeyText + AsRef<str>> KeyLower for T {
    fn write_lower(&self, out: &mut String, separator: Option<char>) {
        escape(out, &self.as_ref().to_lowercase(), separator);
    }
}

/// An unsigned number with a fixed width: `{id:06}`.
pub trait KeyWidth: Sized {
    /// Appends exactly `width` digits.
    fn write_width(&self, out: &mut String, width: usize) -> Result<(), KeyError>;

    /// Reads exactly `width` digits.
    fn parse_width(text: &str, width: usize) -> Option<Self>;
}

/// A number with as many digits as the largest of its type: `{id:pad}`. Signed ones are shifted so that the
/// least is zero.
pub trait KeyPad: Sized {
    /// The number of digits.
    const PAD_WIDTH: usize;

    /// The type's name in templates that are parsed at run time: `{id:pad(u32)}`.
    const TYPE: &'static str = "";

    /// Appends the digits.
    fn write_pad(&self, out: &mut String);

    /// Reads what [`KeyPad::write_pad`] wrote.
    fn parse_pad(text: &str) -> Option<Self>;
}

/// A value whose keys sort in reverse, the greatest or newest first: `{time:rev}`.
pub trait KeyRev: Sized {
    /// The number of digits.
    const REV_WIDTH: usize;

    /// The type's name in templates that are parsed at run time: `{id:rev(u32)}`.
    const TYPE: &'static str = "time";

    /// Appends the digits.
    fn write_rev(&self, out: &mut String) -> Result<(), KeyError>;

    /// Reads what [`KeyRev::write_rev`] wrote.
    fn parse_rev(text: &str) -> Option<Self>;
}

macro_rules! unsigned_parts {
    ($($rust:ty: $width:literal;)*) => {$(
        impl KeyText for $rust {
            fn write_text(&self, out: &mut String, _separator: Option<char>) {
                write_padded(out, u128::from(*self), 1);
            }

            fn parse_text(text: &str) -> Option<Self> {
                let value: Self = parse_padded(text, text.len())?.try_into().ok()?;
                // Only the canonical text is accepted.
                (value.to_string() == text).then_some(value)
            }
        }

        impl KeyWidth for $rust {
            fn write_width(&self, out: &mut String, width: usize) -> Result<(), KeyError> {
                let value = u128::from(*self);
                if value.checked_ilog10().unwrap_or(0) as usize >= width {
                    return Err(KeyError::TooWide { value, width });
                }
                write_padded(out, value, width);
                Ok(())
            }

            fn parse_width(text: &str, width: usize) -> Option<Self> {
                parse_padded(text, width)?.try_into().ok()
            }
        }

        impl KeyPad for $rust {
            const PAD_WIDTH: usize = $width;
            const TYPE: &'static str = stringify!($rust);

            fn write_pad(&self, out: &mut String) {
                write_padded(out, u128::from(*self), $width);
            }

            fn parse_pad(text: &str) -> Option<Self> {
                parse_padded(text, $width)?.try_into().ok()
            }
        }

        impl KeyRev for $rust {
            const REV_WIDTH: usize = $width;
            const TYPE: &'static str = stringify!($rust);

            fn write_rev(&self, out: &mut String) -> Result<(), KeyError> {
                (Self::MAX - *self).write_pad(out);
                Ok(())
            }

            fn parse_rev(text: &str) -> Option<Self> {
                Some(Self::MAX - Self::parse_pad(text)?)
            }
        }
    )*};
}

unsigned_parts! {
    u8: 3;
    u16: 5;
    u32: 10;
    u64: 20;
}

macro_rules! signed_parts {
    ($($rust:ty as $unsigned:ty;)*) => {$(
        impl KeyPad for $rust {
            const PAD_WIDTH: usize = <$unsigned>::PAD_WIDTH;
            const TYPE: &'static str = stringify!($rust);

            fn write_pad(&self, out: &mut String) {
                self.cast_unsigned().wrapping_add(<$rust>::MIN.cast_unsigned()).write_pad(out);
            }

            fn parse_pad(text: &str) -> Option<Self> {
                let moved = <$unsigned>::parse_pad(text)?;
                Some(moved.wrapping_sub(<$rust>::MIN.cast_unsigned()).cast_signed())
            }
        }
    )*};
}

signed_parts! {
    i32 as u32;
    i64 as u64;
}

/// A moment, in one of the time formats of keys.
///
/// ```
/// use lazuli_client::Timestamp;
/// use lazuli_client::key_part::KeyTime;
/// use std::time::SystemTime;
///
/// let time = SystemTime::UNIX_EPOCH.to_timestamp().unwrap();
/// assert_eq!(time, Timestamp::UNIX_EPOCH);
/// assert_eq!(SystemTime::from_timestamp(time), Some(SystemTime::UNIX_EPOCH));
/// ```
pub trait KeyTime: Sized {
    /// The moment.
    fn to_timestamp(&self) -> Result<Timestamp, KeyError>;

    /// The value for a moment.
    fn from_timestamp(time: Timestamp) -> Option<Self>;
}

impl KeyTime for Timestamp {
    fn to_timestamp(&self) -> Result<Timestamp, KeyError> {
        Ok(*self)
    }

    fn from_timestamp(time: Timestamp) -> Option<Self> {
        Some(time)
    }
}

impl KeyTime for SystemTime {
    fn to_timestamp(&self) -> Result<Timestamp, KeyError> {
        match self.to_value() {
            Ok(Value::DateTime(time)) => Ok(time),
            _ => Err(KeyError::TimeOutOfRange),
        }
    }

    fn from_timestamp(time: Timestamp) -> Option<Self> {
        Self::from_value(&Value::DateTime(time)).ok()
    }
}

macro_rules! time_parts {
    ($($rust:ty),*) => {$(
        impl KeyRev for $rust {
            const REV_WIDTH: usize = TICKS_DIGITS;

            fn write_rev(&self, out: &mut String) -> Result<(), KeyError> {
                write_inverted_ticks(out, self.to_timestamp()?);
                Ok(())
            }

            fn parse_rev(text: &str) -> Option<Self> {
                Self::from_timestamp(parse_inverted_ticks(text)?)
            }
        }
    )*};
}

time_parts!(Timestamp, SystemTime);

/// Appends the ticks of a moment: `{time:ticks}`.
pub fn write_time_ticks<T: KeyTime>(out: &mut String, time: &T) -> Result<(), KeyError> {
    write_ticks(out, time.to_timestamp()?);
    Ok(())
}

/// Reads what [`write_time_ticks`] wrote.
pub fn parse_time_ticks<T: KeyTime>(text: &str) -> Option<T> {
    T::from_timestamp(parse_ticks(text)?)
}

/// How much of a moment a key contains. The rest is lost, unless a property stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calendar {
    /// `201408`
    Month,
    /// `20140822`
    Date,
    /// `2014082200`
    Hour,
    /// `201408220050`
    Minute,
}

impl Calendar {
    /// The number of digits.
    pub const fn width(self) -> usize {
        match self {
            Self::Month => 6,
            Self::Date => 8,
            Self::Hour => 10,
            Self::Minute => 12,
        }
    }

    /// Appends the month, day, hour or minute, in UTC.
    pub fn write<T: KeyTime>(self, out: &mut String, time: &T) -> Result<(), KeyError> {
        let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
        let text = time.to_timestamp()?.text(&mut buffer).to_owned();
        out.extend(text.chars().filter(char::is_ascii_digit).take(self.width()));
        Ok(())
    }

    /// The moment at which a month, day, hour or minute begins.
    pub fn parse(self, text: &str) -> Option<Timestamp> {
        if text.len() != self.width() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // Fill up with the digits of 0001-01-01T00:00.
        let full = format!("{text}{}", "000101010000".get(text.len()..)?);
        let part = |range| full.get(range);
        let (year, month, day) = (part(0..4)?, part(4..6)?, part(6..8)?);
        let (hour, minute) = (part(8..10)?, part(10..12)?);
        Timestamp::parse(&format!("{year}-{month}-{day}T{hour}:{minute}:00Z"))
    }
}

/// A value whose month, day, hour or minute can be in a key.
pub trait KeyCalendar: Sized {
    /// Whether it is a date without a time, which a key contains completely.
    const IS_DATE: bool;

    /// Appends the month, day, hour or minute, in UTC.
    fn write_calendar(&self, out: &mut String, calendar: Calendar) -> Result<(), KeyError>;

    /// The value at which the month, day, hour or minute begins.
    fn parse_calendar(text: &str, calendar: Calendar) -> Option<Self>;
}

impl<T: KeyTime> KeyCalendar for T {
    const IS_DATE: bool = false;

    fn write_calendar(&self, out: &mut String, calendar: Calendar) -> Result<(), KeyError> {
        calendar.write(out, self)
    }

    fn parse_calendar(text: &str, calendar: Calendar) -> Option<Self> {
        Self::from_timestamp(calendar.parse(text)?)
    }
}

/// A moment or a day as ISO 8601 text: `{time:iso}`.
pub trait KeyIso: Sized {
    /// The length of the text in characters.
    const ISO_WIDTH: usize;

    /// Appends the text.
    fn write_iso(&self, out: &mut String) -> Result<(), KeyError>;

    /// Reads what [`KeyIso::write_iso`] wrote.
    fn parse_iso(text: &str) -> Option<Self>;
}

impl<T: KeyTime> KeyIso for T {
    const ISO_WIDTH: usize = Timestamp::TEXT_BYTES_MAX;

    fn write_iso(&self, out: &mut String) -> Result<(), KeyError> {
        let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
        out.push_str(self.to_timestamp()?.text_full(&mut buffer));
        Ok(())
    }

    fn parse_iso(text: &str) -> Option<Self> {
        let time = Timestamp::parse(text)?;
        let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
        if time.text_full(&mut buffer) != text {
            return None;
        }
        Self::from_timestamp(time)
    }
}

impl KeyText for Guid {
    const WIDTH: Option<usize> = Some(36);

    fn write_text(&self, out: &mut String, _separator: Option<char>) {
        out.push_str(&self.to_string());
    }

    fn parse_text(text: &str) -> Option<Self> {
        Self::parse(text).filter(|guid| guid.to_string() == text)
    }
}

#[cfg(feature = "uuid")]
impl KeyText for uuid::Uuid {
    const WIDTH: Option<usize> = Some(36);

    fn write_text(&self, out: &mut String, separator: Option<char>) {
        Guid(self.into_bytes()).write_text(out, separator);
    }

    fn parse_text(text: &str) -> Option<Self> {
        Guid::parse_text(text).map(|guid| Self::from_bytes(guid.0))
    }
}

/// Bytes as lower-case hexadecimal digits: `{id:hex}`.
pub trait KeyHex: Sized {
    /// The number of digits, if it is the same for all values.
    const HEX_WIDTH: Option<usize> = None;

    /// Appends two digits for each byte.
    fn write_hex(&self, out: &mut String);

    /// Reads what [`KeyHex::write_hex`] wrote.
    fn parse_hex(text: &str) -> Option<Self>;
}

impl KeyHex for Vec<u8> {
    fn write_hex(&self, out: &mut String) {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16);
        out.extend(self.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).flatten());
    }

    fn parse_hex(text: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
        pairs.iter().map(byte).collect::<Option<_>>().filter(|_| rest.is_empty())
    }
}

macro_rules! hex_parts {
    ($($(#[$attribute:meta])* $rust:ty: $bytes:expr, $from:expr;)*) => {$(
        $(#[$attribute])*
        impl KeyHex for $rust {
            const HEX_WIDTH: Option<usize> = Some(2 * size_of::<$rust>());

            fn write_hex(&self, out: &mut String) {
                let bytes: fn(&Self) -> Vec<u8> = $bytes;
                bytes(self).write_hex(out);
            }

            fn parse_hex(text: &str) -> Option<Self> {
                let bytes = Vec::parse_hex(text)?.try_into().ok()?;
                Some($from(bytes))
            }
        }
    )*};
}

hex_parts! {
    Guid: |guid| guid.0.to_vec(), Guid;
    #[cfg(feature = "uuid")]
    uuid::Uuid: |uuid| uuid.as_bytes().to_vec(), Self::from_bytes;
}

impl<const N: usize> KeyHex for [u8; N] {
    const HEX_WIDTH: Option<usize> = Some(2 * N);

    fn write_hex(&self, out: &mut String) {
        self.to_vec().write_hex(out);
    }

    fn parse_hex(text: &str) -> Option<Self> {
        Vec::parse_hex(text)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests;
