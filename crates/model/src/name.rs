//! Names of accounts, tables and queues, valid once parsed.

mod blob;

pub use blob::{BlobName, BlobNameError, ContainerName, ContainerNameError};

use crate::limits::{
    QUEUE_NAME_CHARS_MAX, QUEUE_NAME_CHARS_MIN, TABLE_NAME_CHARS_MAX, TABLE_NAME_CHARS_MIN,
};
use crate::metrics::MeteredService;
use crate::time::Interval;
use std::fmt;

/// How the names of analytics tables begin.
const METRICS: &str = "$Metrics";

/// The name of a storage account.
///
/// The cloud allows 3 to 24 lower-case letters and digits. Emulators allow other names, so we
/// accept letters, digits, `-` and `_`, up to 63 characters; the name must not end in `-secondary`,
/// which selects a location.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountName(Box<str>);

impl AccountName {
    /// Parses `text`, or returns `None` when it cannot name an account.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=63).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !text.ends_with("-secondary");
        fits.then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which of an account's two locations a request addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Location {
    Primary,
    Secondary,
}

/// Why a text is not a table name. The order of the variants is the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the name's length is not within the permissible limits")]
    Length,
    #[error("the name contains invalid characters")]
    Characters,
    #[error("the name is reserved")]
    Reserved,
}

/// The name of a table: `[A-Za-z][A-Za-z0-9]{2,62}`, unique ignoring case; or that of an analytics
/// table, which only [`TableName::parse_any`] reads.
///
/// Names that differ only in case are equal; the given case is kept for display.
#[derive(Clone, Debug)]
pub struct TableName {
    given: Box<str>,
    /// `None` if the given name is already lower case.
    lower: Option<Box<str>>,
}

impl TableName {
    /// Parses `text`; the length is checked before the characters, as in the service.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let starts_with_letter = text.starts_with(|c: char| c.is_ascii_alphabetic());
        let valid = starts_with_letter && text.bytes().all(|b| b.is_ascii_alphanumeric());
        let chars = if valid { text.len() } else { text.chars().count() };
        if !(TABLE_NAME_CHARS_MIN..=TABLE_NAME_CHARS_MAX).contains(&chars) {
            return Err(NameError::Length);
        }
        if !valid {
            return Err(NameError::Characters);
        }
        if text.eq_ignore_ascii_case("tables") {
            return Err(NameError::Reserved);
        }
        Ok(Self::new(text))
    }

    fn new(given: &str) -> Self {
        let is_lower = !given.bytes().any(|b| b.is_ascii_uppercase());
        let lower = (!is_lower).then(|| given.to_ascii_lowercase().into());
        Self { given: given.into(), lower }
    }

    /// Parses the name of an existing table: a client's, or an analytics table, which the service
    /// creates itself (T-3.4).
    pub fn parse_any(text: &str) -> Result<Self, NameError> {
        match text.get(..METRICS.len()).zip(text.get(METRICS.len()..)) {
            Some((start, rest)) if start.eq_ignore_ascii_case(METRICS) => {
                Self::parse_metrics(text, rest)
            }
            _ => Self::parse(text),
        }
    }

    fn parse_metrics(text: &str, rest: &str) -> Result<Self, NameError> {
        if text.len() > TABLE_NAME_CHARS_MAX {
            return Err(NameError::Length);
        }
        if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(NameError::Characters);
        }
        // The names of the hourly tables before 2013-08-15, which still work.
        let lower = match text.to_ascii_lowercase().as_str() {
            "$metricstransactionstable" => "$metricshourprimarytransactionstable".into(),
            "$metricstransactionsqueue" => "$metricshourprimarytransactionsqueue".into(),
            lower => lower.into(),
        };
        Ok(Self { given: text.into(), lower: Some(lower) })
    }

    /// The analytics table of a service and location that has an entity per interval (9.7, Q-9.12).
    pub fn of_metrics(service: MeteredService, interval: Interval, location: Location) -> Self {
        let interval = match interval {
            Interval::Hour => "Hour",
            Interval::Minute => "Minute",
        };
        let location = match location {
            Location::Primary => "Primary",
            Location::Secondary => "Secondary",
        };
        let service = match service {
            MeteredService::Table => "Table",
            MeteredService::Queue => "Queue",
        };
        Self::new(&[METRICS, interval, location, "Transactions", service].concat())
    }

    /// Whether it names an analytics table: clients read it and delete its entities, nothing else
    /// (T-9.47), and it is not listed (T-4.76).
    pub fn is_metrics(&self) -> bool {
        self.lower().starts_with('$')
    }

    /// The name in the case it was given in.
    pub fn as_str(&self) -> &str {
        &self.given
    }

    /// The name in lower case: what identifies the table.
    pub fn lower(&self) -> &str {
        self.lower.as_deref().unwrap_or(&self.given)
    }
}

impl PartialEq for TableName {
    fn eq(&self, other: &Self) -> bool {
        self.lower() == other.lower()
    }
}

impl Eq for TableName {}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}

/// Why a text is not a queue name. The order of the variants is the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueNameError {
    #[error("the name contains invalid characters")]
    Characters,
    #[error("the name's length is not within the permissible limits")]
    Length,
}

/// The name of a queue: lower-case letters, digits and single dashes between them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Box<str>);

impl QueueName {
    /// Parses `text`; the characters are checked before the length.
    pub fn parse(text: &str) -> Result<Self, QueueNameError> {
        let is_valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let dashes_are_single_and_inside =
            !text.starts_with('-') && !text.ends_with('-') && !text.contains("--");
        if !text.bytes().all(is_valid) || !dashes_are_single_and_inside {
            return Err(QueueNameError::Characters);
        }
        if !(QUEUE_NAME_CHARS_MIN..=QUEUE_NAME_CHARS_MAX).contains(&text.len()) {
            return Err(QueueNameError::Length);
        }
        Ok(Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_queue(text: &str, expect: Result<(), QueueNameError>) {
        let got = QueueName::parse(text);
        assert_eq!(got.as_ref().map(QueueName::as_str), expect.as_ref().map(|()| text));
    }

    #[test]
    fn queue_names_are_lower_case_with_single_dashes() {
        for good in ["abc", "0-9", "a-b-c", "orders-2026", &"a".repeat(63)] {
            check_queue(good, Ok(()));
        }
        let bad = ["Orders", "my_queue", "-abc", "abc-", "a--b", "啊", "a b", "a/b", "-", "A"];
        for bad in bad {
            check_queue(bad, Err(QueueNameError::Characters));
        }
    }

    #[test]
    fn queue_names_have_3_to_63_characters_and_characters_are_judged_first() {
        for bad in ["", "ab", &"a".repeat(64)] {
            check_queue(bad, Err(QueueNameError::Length));
        }
        check_queue(&"A".repeat(64), Err(QueueNameError::Characters));
    }

    #[track_caller]
    fn check(text: &str, expect: Result<&str, NameError>) {
        let got = TableName::parse(text);
        assert_eq!(got.as_ref().map(TableName::lower).map_err(|e| *e), expect);
    }

    #[test]
    fn length_is_judged_before_characters() {
        check("aa", Err(NameError::Length));
        check("_", Err(NameError::Length));
        check(&"a".repeat(64), Err(NameError::Length));
        check("my_table", Err(NameError::Characters));
        check("1abc", Err(NameError::Characters));
        check("abé", Err(NameError::Characters));
    }

    #[test]
    fn names_are_equal_without_regard_to_case() {
        assert_eq!(TableName::parse("Abc").unwrap(), TableName::parse("aBC").unwrap());
        assert_eq!(TableName::parse("Abc").unwrap().as_str(), "Abc");
        check(&"a".repeat(63), Ok(&"a".repeat(63)));
    }

    #[test]
    fn names_of_analytics_tables_can_be_read_and_not_given() {
        let of_service =
            |service| TableName::of_metrics(service, Interval::Hour, Location::Primary);
        let hourly = of_service(MeteredService::Table);
        let of_queues = of_service(MeteredService::Queue);
        assert_eq!(TableName::parse_any("$MetricsTransactionsQueue"), Ok(of_queues));
        for text in [
            "$MetricsHourPrimaryTransactionsTable",
            "$metricsHOURprimaryTransactionsTable",
            "$MetricsTransactionsTable",
        ] {
            assert_eq!(TableName::parse_any(text).as_ref(), Ok(&hourly));
            assert_eq!(TableName::parse_any(text).unwrap().as_str(), text);
            check(text, Err(NameError::Characters));
        }
        assert!(hourly.is_metrics() && !TableName::parse_any("Metrics").unwrap().is_metrics());
        for (text, error) in [
            ("$Metrics_Hour", NameError::Characters),
            ("$MetricsHour'", NameError::Characters),
            ("$Metric", NameError::Characters),
            ("$Métrics", NameError::Characters),
            ("$logs", NameError::Characters),
            ("$", NameError::Length),
        ] {
            assert_eq!(TableName::parse_any(text), Err(error), "{text}");
        }
        let long = format!("$Metrics{}", "a".repeat(56));
        assert_eq!(TableName::parse_any(&long), Err(NameError::Length));
    }

    #[test]
    fn tables_is_reserved_in_any_case() {
        check("Tables", Err(NameError::Reserved));
        check("TABLES", Err(NameError::Reserved));
    }

    #[test]
    fn account_names_do_not_hold_a_location() {
        assert!(AccountName::parse("devstoreaccount1").is_some());
        assert!(AccountName::parse("devstoreaccount1-secondary").is_none());
        assert!(AccountName::parse("").is_none());
        assert!(AccountName::parse("a/b").is_none());
    }
}
