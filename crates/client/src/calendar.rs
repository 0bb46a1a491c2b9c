//! Instants and dates of `time`, `chrono` and `jiff` as values and parts of keys (C-4.2, C-5.2).
//!
//! Instants are converted to UTC and truncated to 100 ns towards the past. Dates are text: `2014-08-22`.
//! Date-times without a zone are not supported: give the zone.

use crate::key::KeyError;
use crate::key_part::{Calendar, KeyCalendar, KeyIso, KeyRev, KeyTime};
use crate::value::{EncodeError, IntoValue, TableValue, Value, ValueError, wrong_type};
use lazuli_model::key_text::{TICKS_DIGITS, parse_inverted_ticks, write_inverted_ticks};
use lazuli_model::{EdmType, Timestamp};

/// Nanoseconds of a tick.
const TICK_NANOS: i128 = 100;

/// The moment this many nanoseconds after 1970; `None` before 1601 and after 9999.
fn from_unix_nanos(nanos: i128) -> Option<Timestamp> {
    let ticks = nanos.div_euclid(TICK_NANOS).checked_add(Timestamp::UNIX_EPOCH.ticks().into())?;
    let time = Timestamp::from_ticks(ticks.try_into().ok()?)?;
    (time >= Timestamp::EDM_MIN).then_some(time)
}

fn to_unix_nanos(time: Timestamp) -> i128 {
    (i128::from(time.ticks()) - i128::from(Timestamp::UNIX_EPOCH.ticks())) * TICK_NANOS
}

/// Types of instants: to and from nanoseconds since 1970.
macro_rules! instants {
    ($($(#[$attribute:meta])* $rust:ty: $to:expr, $from:expr;)*) => {$(
        $(#[$attribute])*
        impl KeyTime for $rust {
            fn to_timestamp(&self) -> Result<Timestamp, KeyError> {
                let to: fn(&$rust) -> Option<i128> = $to;
                to(self).and_then(from_unix_nanos).ok_or(KeyError::TimeOutOfRange)
            }

            fn from_timestamp(time: Timestamp) -> Option<Self> {
                let from: fn(i128) -> Option<$rust> = $from;
                from(to_unix_nanos(time))
            }
        }

        $(#[$attribute])*
        impl TableValue for $rust {
            const EDM_TYPE: EdmType = EdmType::DateTime;

            fn to_value(&self) -> Result<Value, EncodeError> {
                let time = self.to_timestamp().map_err(|_| EncodeError::TimeOutOfRange)?;
                Ok(Value::DateTime(time))
            }

            fn from_value(value: &Value) -> Result<Self, ValueError> {
                let time = Timestamp::from_value(value)?;
                <Self as KeyTime>::from_timestamp(time).ok_or(ValueError::OutOfRange { expected: stringify!($rust) })
            }
        }

        $(#[$attribute])*
        impl KeyRev for $rust {
            const REV_WIDTH: usize = TICKS_DIGITS;

            fn write_rev(&self, out: &mut String) -> Result<(), KeyError> {
                write_inverted_ticks(out, self.to_timestamp()?);
                Ok(())
            }

            fn parse_rev(text: &str) -> Option<Self> {
                <Self as KeyTime>::from_timestamp(parse_inverted_ticks(text)?)
            }
        }
    )*};
}

instants! {
    #[cfg(feature = "time")]
    time::OffsetDateTime: |time| Some(time.unix_timestamp_nanos()), |nanos| {
        time::OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()
    };
    #[cfg(feature = "chrono")]
    chrono::DateTime<chrono::Utc>: chrono_nanos, chrono_from;
    #[cfg(feature = "chrono")]
    chrono::DateTime<chrono::FixedOffset>: chrono_nanos, |nanos| Some(chrono_from(nanos)?.fixed_offset());
    #[cfg(feature = "jiff")]
    jiff::Timestamp: |time| Some(time.as_nanosecond()), |nanos| {
        jiff::Timestamp::from_nanosecond(nanos).ok()
    };
}

#[cfg(feature = "chrono")]
fn chrono_nanos<Tz: chrono::TimeZone>(time: &chrono::DateTime<Tz>) -> Option<i128> {
    Some(i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos()))
}

#[cfg(feature = "chrono")]
fn chrono_from(nanos: i128) -> Option<chrono::DateTime<chrono::Utc>> {
    let (seconds, rest) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
    chrono::DateTime::from_timestamp(seconds.try_into().ok()?, rest.try_into().ok()?)
}

/// Year, month and day of `2014-08-22`.
fn parse_date(text: &str) -> Option<(i32, u32, u32)> {
    let part = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits)?.parse::<u32>().ok()
    };
    let is_shape = text.len() == 10 && text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    let (year, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
    is_shape.then_some((year.try_into().ok()?, month, day))
}

/// Types of dates: to and from year, month and day.
macro_rules! dates {
    ($($(#[$attribute:meta])* $rust:ty: $to:expr, $from:expr;)*) => {$(
        $(#[$attribute])*
        impl TableValue for $rust {
            const EDM_TYPE: EdmType = EdmType::String;

            fn to_value(&self) -> Result<Value, EncodeError> {
                let mut text = String::new();
                self.write_iso(&mut text).map_err(|_| EncodeError::TimeOutOfRange)?;
                Ok(text.into_value())
            }

            fn from_value(value: &Value) -> Result<Self, ValueError> {
                let Value::String(text) = value else { return Err(wrong_type(EdmType::String, value)) };
                Self::parse_iso(text).ok_or(ValueError::OutOfRange { expected: stringify!($rust) })
            }
        }

        $(#[$attribute])*
        impl KeyIso for $rust {
            const ISO_WIDTH: usize = 10;

            fn write_iso(&self, out: &mut String) -> Result<(), KeyError> {
                let to: fn(&$rust) -> (i32, u32, u32) = $to;
                let (year, month, day) = to(self);
                if !(1..=9999).contains(&year) {
                    return Err(KeyError::TimeOutOfRange);
                }
                out.push_str(&format!("{year:04}-{month:02}-{day:02}"));
                Ok(())
            }

            fn parse_iso(text: &str) -> Option<Self> {
                let from: fn(i32, u32, u32) -> Option<$rust> = $from;
                let (year, month, day) = parse_date(text)?;
                from(year, month, day)
            }
        }

        $(#[$attribute])*
        impl KeyCalendar for $rust {
            const IS_DATE: bool = true;

            fn write_calendar(&self, out: &mut String, calendar: Calendar) -> Result<(), KeyError> {
                let mut text = String::new();
                self.write_iso(&mut text)?;
                let digits = text.chars().filter(char::is_ascii_digit).chain("0000".chars());
                out.extend(digits.take(calendar.width()));
                Ok(())
            }

            fn parse_calendar(text: &str, calendar: Calendar) -> Option<Self> {
                let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
                let begins = calendar.parse(text)?;
                Self::parse_iso(begins.text(&mut buffer).get(..10)?)
            }
        }
    )*};
}

dates! {
    #[cfg(feature = "time")]
    time::Date: |date| (date.year(), u8::from(date.month()).into(), date.day().into()), |year, month, day| {
        let month = time::Month::try_from(u8::try_from(month).ok()?).ok()?;
        time::Date::from_calendar_date(year, month, day.try_into().ok()?).ok()
    };
    #[cfg(feature = "chrono")]
    chrono::NaiveDate: |date| {
        use chrono::Datelike;
        (date.year(), date.month(), date.day())
    }, chrono::NaiveDate::from_ymd_opt;
    #[cfg(feature = "jiff")]
    jiff::civil::Date: |date| (
        date.year().into(), date.month().unsigned_abs().into(), date.day().unsigned_abs().into(),
    ), |year, month, day| {
        let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
        jiff::civil::Date::new(year.try_into().ok()?, month, day).ok()
    };
}

#[cfg(test)]
#[cfg(all(feature = "chrono", feature = "jiff", feature = "time"))]
mod tests {
    use super::*;

    /// 2014-08-22T00:50:32.1234567Z, and half a tick.
    const NANOS: i128 = 1_408_668_632_123_456_750;

    fn instant<T: TableValue + KeyTime + KeyRev + std::fmt::Debug + PartialEq>(value: &T) {
        let cut = Timestamp::parse("2014-08-22T00:50:32.1234567Z").unwrap();
        assert_eq!(value.to_value(), Ok(Value::DateTime(cut)));
        let back = T::from_value(&Value::DateTime(cut)).unwrap();
        assert_eq!(back.to_timestamp(), Ok(cut));
        let mut text = String::new();
        value.write_rev(&mut text).unwrap();
        assert_eq!(T::parse_rev(&text), Some(back));
    }

    fn date<T: TableValue + KeyIso + KeyCalendar + std::fmt::Debug + PartialEq>(value: &T) {
        assert_eq!(value.to_value(), Ok("2014-08-22".into_value()));
        assert_eq!(T::from_value(&"2014-08-22".into_value()).as_ref(), Ok(value));
        for bad in ["2014-02-30", "2014-8-22", "20140822", "", "2014-08-22T00"] {
            assert!(T::from_value(&bad.into_value()).is_err(), "{bad}");
        }
        for (calendar, text) in [(Calendar::Date, "20140822"), (Calendar::Hour, "2014082200")] {
            let mut out = String::new();
            value.write_calendar(&mut out, calendar).unwrap();
            assert_eq!(out, text);
            assert_eq!(T::parse_calendar(text, calendar).as_ref(), Some(value));
        }
    }

    #[test]
    fn instants_and_dates_of_other_crates_go_there_and_back() {
        // C-5.2.
        instant(&time::OffsetDateTime::from_unix_timestamp_nanos(NANOS).unwrap());
        instant(&chrono_from(NANOS).unwrap());
        instant(&chrono_from(NANOS).unwrap().fixed_offset());
        instant(&jiff::Timestamp::from_nanosecond(NANOS).unwrap());
        date(&time::Date::from_calendar_date(2014, time::Month::August, 22).unwrap());
        date(&chrono::NaiveDate::from_ymd_opt(2014, 8, 22).unwrap());
        date(&jiff::civil::Date::constant(2014, 8, 22));
        let before = time::OffsetDateTime::from_unix_timestamp(-12_000_000_000).unwrap();
        assert_eq!(before.to_value(), Err(EncodeError::TimeOutOfRange));
    }
}
