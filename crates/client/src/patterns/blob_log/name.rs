//! Names of the blobs of a log: `{service}/{yyyy}/{MM}/{dd}/{HH}00/{NNNNNN}.log` (T-9.32).

use lazuli_model::Timestamp;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// The greatest counter of six digits.
pub(super) const COUNTER_MAX: u32 = 999_999;

/// An hour, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hour(u64);

impl Hour {
    pub(super) fn of(time: Timestamp) -> Self {
        Self(time.ticks() / ticks_per_hour())
    }

    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The beginning of the hour.
    pub(super) fn start(self) -> Timestamp {
        let ticks = self.0.saturating_mul(ticks_per_hour());
        Timestamp::from_ticks(ticks).unwrap_or(Timestamp::MAX)
    }

    /// The prefix of its blob names, with a slash at the end.
    pub(super) fn prefix(self, service: &str) -> String {
        let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
        // 2014-07-31T18:00:00Z
        let text = self.start().text(&mut buffer);
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        let (year, month, day, hour) = (part(0, 4), part(5, 7), part(8, 10), part(11, 13));
        format!("{service}/{year}/{month}/{day}/{hour}00/")
    }
}

fn ticks_per_hour() -> u64 {
    u64::try_from(HOUR.as_nanos() / 100).unwrap_or(u64::MAX)
}

pub(super) fn blob_name(service: &str, hour: Hour, counter: u32) -> String {
    format!("{}{counter:06}.log", hour.prefix(service))
}

/// The hour and the counter in a name; `None` if it has another form.
pub(super) fn parse_name(service: &str, name: &str) -> Option<(Hour, u32)> {
    let rest = name.strip_prefix(service)?.strip_prefix('/')?;
    let parts: Vec<&str> = rest.split('/').collect();
    let [year, month, day, time, file] = parts.as_slice() else { return None };
    let hour = time.strip_suffix("00").filter(|hour| hour.len() == 2)?;
    let at = Timestamp::parse(&format!("{year}-{month}-{day}T{hour}:00:00Z"))?;
    let digits = file.strip_suffix(".log").filter(|digits| digits.len() == 6)?;
    let hour = Hour::of(at);
    let counter = digits.parse().ok()?;
    (blob_name(service, hour, counter) == name).then_some((hour, counter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_the_hour_and_a_counter() {
        // PS-14.1.
        let at = Timestamp::parse("2014-07-31T18:59:59.9999999Z").unwrap();
        let hour = Hour::of(at);
        assert_eq!(hour.prefix("queue"), "queue/2014/07/31/1800/");
        assert_eq!(blob_name("queue", hour, 1), "queue/2014/07/31/1800/000001.log");
        let name = "queue/2014/07/31/1800/000001.log";
        assert_eq!(parse_name("queue", name), Some((hour, 1)));
        assert_eq!(hour.next().prefix("queue"), "queue/2014/07/31/1900/");
        for other in [
            "table/2014/07/31/1800/000001.log",
            "queue/2014/07/31/1830/000001.log",
            "queue/2014/13/31/1800/000001.log",
            "queue/2014/07/31/1800/1.log",
            "queue/2014/07/31/1800/000001.txt",
        ] {
            assert_eq!(parse_name("queue", other), None, "{other}");
        }
    }
}
