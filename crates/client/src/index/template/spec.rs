//! The formats of a field (C-4.2).

use super::integer::Integer;
use super::part::Part;
use crate::key_part::{Calendar, KeyHex, KeyIso, KeyWidth};
use lazuli_model::Timestamp;
use lazuli_model::key_text::{
    TICKS_DIGITS, escape, parse_inverted_ticks, parse_ticks, unescape, write_bucket,
    write_inverted_ticks, write_ticks,
};
use std::fmt;

/// The format of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spec {
    Plain,
    Width(usize),
    Pad(&'static Integer),
    Rev(&'static Integer),
    RevTime,
    Ticks,
    Calendar(Calendar),
    Iso,
    Hex,
    Lower,
    Bucket(u64),
}

const CALENDARS: [(&str, Calendar); 4] = [
    ("month", Calendar::Month),
    ("date", Calendar::Date),
    ("hour", Calendar::Hour),
    ("minute", Calendar::Minute),
];

/// The number of digits of the largest number.
const WIDTH_MAX: usize = 39;

impl Spec {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, argument) = match text.split_once('(') {
            Some((name, rest)) => (name, rest.strip_suffix(')')),
            None => (text, None),
        };
        let integer = |argument: Option<&str>| argument.and_then(Integer::named);
        let calendar = CALENDARS.iter().find(|(word, _)| *word == text);
        let spec = match (name, argument) {
            ("" | "unsorted", None) => Some(Self::Plain),
            ("rev", None) => Some(Self::RevTime),
            ("pad", argument) => integer(argument).map(Self::Pad),
            ("rev", argument) => integer(argument).map(Self::Rev),
            ("ticks", None) => Some(Self::Ticks),
            ("iso", None) => Some(Self::Iso),
            ("hex", None) => Some(Self::Hex),
            ("lower", None) => Some(Self::Lower),
            ("bucket", Some(count)) => {
                count.parse().ok().filter(|count| *count > 0).map(Self::Bucket)
            }
            (width, None) => {
                let width = width.strip_prefix('0').and_then(|width| width.parse().ok());
                let width = width.filter(|width| (1..=WIDTH_MAX).contains(width)).map(Self::Width);
                width.or(calendar.map(|(_, calendar)| Self::Calendar(*calendar)))
            }
            _ => None,
        };
        spec.ok_or_else(|| match name {
            "pad" => "`pad` names the type of the number: `pad(u32)`".to_owned(),
            _ => format!("`{text}` is not a way to write a key field"),
        })
    }

    /// Whether different values may have the same text.
    pub(super) fn is_lossy(self) -> bool {
        matches!(self, Self::Bucket(_) | Self::Calendar(_) | Self::Lower)
    }

    /// The length in characters, if it is the same for all values.
    pub(super) fn width(self) -> Option<usize> {
        match self {
            Self::Plain | Self::Lower | Self::Hex | Self::Iso => None,
            Self::Width(width) => Some(width),
            Self::Pad(integer) | Self::Rev(integer) => Some(integer.width),
            Self::RevTime | Self::Ticks => Some(TICKS_DIGITS),
            Self::Calendar(calendar) => Some(calendar.width()),
            Self::Bucket(buckets) => Some((buckets - 1).checked_ilog10().unwrap_or(0) as usize + 1),
        }
    }

    /// Appends a part; `None` if it cannot be written in this format.
    pub(super) fn write(
        self,
        out: &mut String,
        part: &Part,
        separator: Option<char>,
    ) -> Option<()> {
        match (self, part) {
            (Self::Plain, _) => part.write_plain(out, separator)?,
            (Self::Lower, Part::Text(text)) => escape(out, &text.to_lowercase(), separator),
            (Self::Width(width), _) => {
                u64::try_from(part.number()?).ok()?.write_width(out, width).ok()?;
            }
            (Self::Pad(integer), _) => (integer.write_pad)(out, part.number()?)?,
            (Self::Rev(integer), _) => integer.write_rev(out, part.number()?)?,
            (Self::RevTime, Part::Time(time)) => write_inverted_ticks(out, *time),
            (Self::Ticks, Part::Time(time)) => write_ticks(out, *time),
            (Self::Iso, Part::Time(time)) => time.write_iso(out).ok()?,
            // A date is stored as its ISO text.
            (Self::Iso, Part::Text(text)) => out.push_str(text),
            (Self::Calendar(calendar), Part::Time(time)) => calendar.write(out, time).ok()?,
            (Self::Calendar(calendar), Part::Text(text)) => {
                out.extend(text.chars().filter(char::is_ascii_digit).take(calendar.width()));
            }
            (Self::Calendar(calendar), Part::Calendar(known, digits)) => {
                (calendar.width() <= known.width()).then_some(())?;
                out.push_str(digits.get(..calendar.width())?);
            }
            (Self::Hex, Part::Guid(guid)) => guid.write_hex(out),
            (Self::Hex, Part::Bytes(bytes)) => bytes.write_hex(out),
            (Self::Bucket(buckets), _) => {
                let mut text = String::new();
                part.write_plain(&mut text, None)?;
                write_bucket(out, &unescape(&text).unwrap_or(text), buckets);
            }
            _ => return None,
        }
        Some(())
    }

    /// Parses a text: `None` if it does not have this format, `Some(None)` if it does not determine a value.
    pub(super) fn read(self, text: &str) -> Option<Option<Part>> {
        Some(Some(match self {
            Self::Plain | Self::Lower => Part::Text(unescape(text)?),
            Self::Width(width) => Part::Number(u64::parse_width(text, width)?.into()),
            Self::Pad(integer) => Part::Number((integer.parse_pad)(text)?),
            Self::Rev(integer) => Part::Number(integer.parse_rev(text)?),
            Self::RevTime => Part::Time(parse_inverted_ticks(text)?),
            Self::Ticks => Part::Time(parse_ticks(text)?),
            Self::Calendar(calendar) => {
                calendar.parse(text)?;
                Part::Calendar(calendar, text.to_owned())
            }
            Self::Iso => match Timestamp::parse_iso(text) {
                Some(time) => Part::Time(time),
                None => Part::Text(text.to_owned()),
            },
            Self::Hex => Part::Bytes(Vec::parse_hex(text)?),
            Self::Bucket(_) => {
                text.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
                return Some(None);
            }
        }))
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("text"),
            Self::Width(width) => write!(f, "0{width}"),
            Self::Pad(integer) => write!(f, "pad({})", integer.name),
            Self::Rev(integer) => write!(f, "rev({})", integer.name),
            Self::RevTime => f.write_str("rev"),
            Self::Ticks => f.write_str("ticks"),
            Self::Calendar(calendar) => {
                let known = CALENDARS.iter().find(|(_, known)| known == calendar);
                f.write_str(known.map_or("", |(name, _)| name))
            }
            Self::Iso => f.write_str("iso"),
            Self::Hex => f.write_str("hex"),
            Self::Lower => f.write_str("lower"),
            Self::Bucket(buckets) => write!(f, "bucket({buckets})"),
        }
    }
}
