//! One row of an account's analytics: its counts and columns.

use crate::value::{Value, ValueRef};
use std::borrow::Cow;

/// The services whose requests are counted, each in its own tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeteredService {
    Table,
    Queue,
}

/// How a request ended, as analytics classify it (T-9.38).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    ThrottlingError,
    ClientTimeoutError,
    ServerTimeoutError,
    ClientOtherError,
    ServerOtherError,
    AuthorizationError,
    NetworkError,
}

impl Outcome {
    /// In the order of the columns (T-9.43).
    pub const ALL: [Self; 8] = [
        Self::Success,
        Self::ThrottlingError,
        Self::ClientTimeoutError,
        Self::ServerTimeoutError,
        Self::ClientOtherError,
        Self::ServerOtherError,
        Self::AuthorizationError,
        Self::NetworkError,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::ThrottlingError => "ThrottlingError",
            Self::ClientTimeoutError => "ClientTimeoutError",
            Self::ServerTimeoutError => "ServerTimeoutError",
            Self::ClientOtherError => "ClientOtherError",
            Self::ServerOtherError => "ServerOtherError",
            Self::AuthorizationError => "AuthorizationError",
            Self::NetworkError => "NetworkError",
        }
    }

    const fn is_server_failure(self) -> bool {
        matches!(self, Self::ServerTimeoutError | Self::ServerOtherError)
    }

    /// A request without a result is free, and so is a refused unauthenticated one.
    const fn is_billable(self, access: Access) -> bool {
        match self {
            Self::ThrottlingError | Self::ServerTimeoutError | Self::ServerOtherError => false,
            Self::AuthorizationError => !matches!(access, Access::Anonymous),
            _ => true,
        }
    }
}

/// The kind of credential of a request (T-9.43): the prefix of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A key of the account, or a bearer token.
    Authenticated,
    Anonymous,
    Sas,
}

impl Access {
    pub const ALL: [Self; 3] = [Self::Authenticated, Self::Anonymous, Self::Sas];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Authenticated => "",
            Self::Anonymous => "Anonymous",
            Self::Sas => "SAS",
        }
    }
}

/// What analytics record of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    pub outcome: Outcome,
    pub access: Access,
    pub ingress_bytes: u64,
    pub egress_bytes: u64,
    /// From the first byte of the request to the last byte of the response, in milliseconds.
    pub e2e_ms: f64,
    /// The same without network time.
    pub server_ms: f64,
}

/// The sums over the requests of an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricsRow {
    /// In the order of [`counted`].
    counts: [u64; Outcome::ALL.len() * Access::ALL.len()],
    ingress_bytes: u64,
    egress_bytes: u64,
    /// Of successful requests only: others have no meaningful latency.
    e2e_ms: f64,
    server_ms: f64,
}

/// Every pair with its own column, in column order.
fn counted() -> impl Iterator<Item = (Outcome, Access)> {
    let of = |outcome| Access::ALL.into_iter().map(move |access| (outcome, access));
    Outcome::ALL.into_iter().flat_map(of)
}

impl MetricsRow {
    pub fn count(&mut self, request: &Observed) {
        let kind = (request.outcome, request.access);
        if let Some((_, count)) = counted().zip(&mut self.counts).find(|(known, _)| *known == kind)
        {
            *count += 1;
        }
        self.ingress_bytes += request.ingress_bytes;
        self.egress_bytes += request.egress_bytes;
        if request.outcome == Outcome::Success {
            self.e2e_ms += request.e2e_ms;
            self.server_ms += request.server_ms;
        }
    }

    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.ingress_bytes += other.ingress_bytes;
        self.egress_bytes += other.egress_bytes;
        self.e2e_ms += other.e2e_ms;
        self.server_ms += other.server_ms;
    }

    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    /// The columns of the entity (T-9.43, T-9.44).
    pub fn columns(&self) -> Vec<(Cow<'static, str>, Value<'static>)> {
        let total = self.total(|_, _| true);
        let billable = self.total(Outcome::is_billable);
        let int64 = |value: u64| Value::Int64(i64::try_from(value).unwrap_or(i64::MAX));
        let mut columns = vec![
            ("TotalRequests".into(), int64(total)),
            ("TotalBillableRequests".into(), int64(billable)),
            ("TotalIngress".into(), int64(self.ingress_bytes)),
            ("TotalEgress".into(), int64(self.egress_bytes)),
        ];
        for ((outcome, access), count) in counted().zip(self.counts) {
            columns.push((column(outcome, access), int64(count)));
        }
        for (name, value) in self.averages(total) {
            columns.push((name.into(), Value::Double(value)));
        }
        columns
    }

    /// Reads what [`MetricsRow::columns`] wrote. Latency sums are recomputed from the averages.
    pub fn read<'r>(columns: impl Iterator<Item = (&'r str, ValueRef<'r>)>) -> Self {
        let mut row = Self::default();
        let (mut e2e, mut server) = (0.0, 0.0);
        for (name, value) in columns {
            match (name, value) {
                ("TotalIngress", ValueRef::Int64(bytes)) => row.ingress_bytes = unsigned(bytes),
                ("TotalEgress", ValueRef::Int64(bytes)) => row.egress_bytes = unsigned(bytes),
                ("AverageE2ELatency", ValueRef::Double(average)) => e2e = average,
                ("AverageServerLatency", ValueRef::Double(average)) => server = average,
                (name, ValueRef::Int64(count)) => {
                    let mut counts = counted().zip(&mut row.counts);
                    if let Some((_, known)) = counts.find(|((o, a), _)| column(*o, *a) == name) {
                        *known = unsigned(count);
                    }
                }
                _ => {}
            }
        }
        let successes = row.total(|outcome, _| outcome == Outcome::Success) as f64;
        Self { e2e_ms: e2e * successes, server_ms: server * successes, ..row }
    }

    fn total(&self, wanted: impl Fn(Outcome, Access) -> bool) -> u64 {
        let counts = counted().zip(self.counts);
        counts.filter(|((outcome, access), _)| wanted(*outcome, *access)).map(|(_, n)| n).sum()
    }

    fn averages(&self, total: u64) -> [(&'static str, f64); 10] {
        let of = |wanted: &[Outcome]| self.total(|outcome, _| wanted.contains(&outcome));
        let percent = |wanted: &[Outcome]| ratio(100 * of(wanted), total, 0.0);
        let successes = of(&[Outcome::Success]);
        let average = |sum: f64| if successes == 0 { 0.0 } else { sum / successes as f64 };
        // Throttled requests do not count (T-9.46).
        let applicable = total - of(&[Outcome::ThrottlingError]);
        let failed = self.total(|outcome, _| outcome.is_server_failure());
        // A service without requests counts as available.
        let availability = ratio(100 * (applicable - failed), applicable, 100.0);
        [
            ("Availability", availability),
            ("AverageE2ELatency", average(self.e2e_ms)),
            ("AverageServerLatency", average(self.server_ms)),
            ("PercentSuccess", ratio(100 * successes, total, 100.0)),
            ("PercentThrottlingError", percent(&[Outcome::ThrottlingError])),
            (
                "PercentTimeoutError",
                percent(&[Outcome::ClientTimeoutError, Outcome::ServerTimeoutError]),
            ),
            ("PercentServerOtherError", percent(&[Outcome::ServerOtherError])),
            ("PercentClientOtherError", percent(&[Outcome::ClientOtherError])),
            ("PercentAuthorizationError", percent(&[Outcome::AuthorizationError])),
            ("PercentNetworkError", percent(&[Outcome::NetworkError])),
        ]
    }
}

fn column(outcome: Outcome, access: Access) -> Cow<'static, str> {
    match access.prefix() {
        "" => outcome.name().into(),
        prefix => format!("{prefix}{}", outcome.name()).into(),
    }
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

fn ratio(part: u64, whole: u64, of_nothing: f64) -> f64 {
    if whole == 0 { of_nothing } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn observed(outcome: Outcome, access: Access) -> Observed {
        Observed {
            outcome,
            access,
            ingress_bytes: 100,
            egress_bytes: 10,
            e2e_ms: 4.0,
            server_ms: 2.0,
        }
    }

    fn row(requests: &[(Outcome, Access)]) -> MetricsRow {
        let mut row = MetricsRow::default();
        requests.iter().for_each(|(outcome, access)| row.count(&observed(*outcome, *access)));
        row
    }

    #[track_caller]
    fn check(row: &MetricsRow, expect: &[(&str, Value<'_>)]) {
        let columns = row.columns();
        for (name, value) in expect {
            let found = columns.iter().find(|(known, _)| known == name);
            assert_eq!(found.map(|(_, found)| found), Some(value), "{name}");
        }
    }

    #[test]
    fn requests_are_counted_by_outcome_and_credential() {
        let row = row(&[
            (Outcome::Success, Access::Authenticated),
            (Outcome::Success, Access::Sas),
            (Outcome::ServerOtherError, Access::Authenticated),
            (Outcome::ThrottlingError, Access::Sas),
            (Outcome::AuthorizationError, Access::Anonymous),
        ]);
        check(
            &row,
            &[
                ("TotalRequests", Value::Int64(5)),
                ("TotalBillableRequests", Value::Int64(2)),
                ("TotalIngress", Value::Int64(500)),
                ("TotalEgress", Value::Int64(50)),
                ("Success", Value::Int64(1)),
                ("SASSuccess", Value::Int64(1)),
                ("AnonymousSuccess", Value::Int64(0)),
                ("SASThrottlingError", Value::Int64(1)),
                ("AnonymousAuthorizationError", Value::Int64(1)),
                ("PercentSuccess", Value::Double(40.0)),
                ("PercentTimeoutError", Value::Double(0.0)),
                ("Availability", Value::Double(75.0)),
                ("AverageE2ELatency", Value::Double(4.0)),
                ("AverageServerLatency", Value::Double(2.0)),
            ],
        );
        assert_eq!(row.columns().len(), 4 + 24 + 10);
    }

    #[test]
    fn a_service_that_nobody_asked_was_available() {
        let idle = MetricsRow::default();
        assert!(idle.is_empty());
        check(&idle, &[("TotalRequests", Value::Int64(0)), ("Availability", Value::Double(100.0))]);
    }

    fn any_row() -> impl Strategy<Value = MetricsRow> {
        let kind = (0..Outcome::ALL.len(), 0..Access::ALL.len());
        proptest::collection::vec(kind, 0..20).prop_map(|kinds| {
            let kinds = kinds.iter().map(|(o, a)| (Outcome::ALL[*o], Access::ALL[*a]));
            row(&kinds.collect::<Vec<_>>())
        })
    }

    proptest! {
        #[test]
        fn rows_are_read_as_they_were_written(row in any_row()) {
            let columns = row.columns();
            let read = columns.iter().map(|(name, value)| (&**name, value.as_ref()));
            prop_assert_eq!(MetricsRow::read(read), row);
        }
    }
}
