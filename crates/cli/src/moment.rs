//! Times on the command line: a date, or a duration from now.

use lazuli_model::{Clock, SystemClock, Timestamp};
use std::str::FromStr;

/// A time such as `2027-01-31`, `2027-01-31T12:00:00Z`, or `90m` from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, SystemClock.now()).map(Self)
    }
}

fn parse(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let wrong =
        || "give a time such as 2027-01-31T12:00:00Z, or a while such as 30m, 12h, 7d".to_owned();
    let unit = match text.as_bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 60 * 60,
        Some(b'd') => 24 * 60 * 60,
        _ => return Timestamp::parse(text).ok_or_else(wrong),
    };
    let number: Option<u32> = text.get(..text.len() - 1).and_then(|number| number.parse().ok());
    let seconds = u64::from(number.ok_or_else(wrong)?) * unit;
    let moment = now.plus_seconds(seconds);
    if moment > Timestamp::MAX {
        return Err("it is after the year 9999, which no service can write".to_owned());
    }
    Ok(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_a_while_from_now() {
        let now = Timestamp::parse("2026-11-17T00:00:00Z").unwrap();
        let parsed = |text| parse(text, now).map(|time| time.to_string());
        assert_eq!(parsed("90m").unwrap(), "2026-11-17T01:30:00Z");
        assert_eq!(parsed("7d").unwrap(), "2026-11-24T00:00:00Z");
        assert_eq!(parsed("30s").unwrap(), "2026-11-17T00:00:30Z");
        assert_eq!(parsed("12h").unwrap(), "2026-11-17T12:00:00Z");
        assert_eq!(parsed("2027-01-31").unwrap(), "2027-01-31T00:00:00Z");
        // A policy that was to end after the year 9999 was stored without an end once.
        for wrong in ["", "m", "-1h", "tomorrow", "1w", "99999999999d", "4294967295d", "2913000d"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
