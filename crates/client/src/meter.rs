//! Counters of an account's requests, by table and operation, without any dependency (C-18.4).

use http::StatusCode;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tables with counters of their own; further tables are counted together.
const TABLES_MAX: usize = 1000;
/// The name under which those are counted.
const OTHERS: &str = "(others)";

/// Counts of one operation on one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Operations that ended, successfully or not.
    pub operations: u64,
    /// Requests that were sent for them.
    pub attempts: u64,
    /// Operations that ended with an error.
    pub failures: u64,
    /// Bytes of request bodies.
    pub sent_bytes: u64,
    /// Bytes of response bodies.
    pub received_bytes: u64,
    /// Pages of queries.
    pub pages: u64,
    /// Entities in them.
    pub entities: u64,
    /// Throttling responses: 429 and 503.
    pub throttles: u64,
    /// Responses that report a conflict with another client: 409 and 412.
    pub conflicts: u64,
    /// Requests without a response that may have been carried out.
    pub lost_answers: u64,
    /// An estimate of the transactions that the service bills: requests it answered, except those it
    /// throttled, failed to authenticate or failed to serve. A batch counts as one.
    pub billed: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.attempts += other.attempts;
        self.failures += other.failures;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.pages += other.pages;
        self.entities += other.entities;
        self.throttles += other.throttles;
        self.conflicts += other.conflicts;
        self.lost_answers += other.lost_answers;
        self.billed += other.billed;
    }
}

/// The counters of an account at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter(BTreeMap<(String, &'static str), Counts>);

impl Meter {
    /// Counts by table and operation. The table is empty for operations that concern none.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'static str, &Counts)> {
        self.0.iter().map(|((table, verb), counts)| (&**table, *verb, counts))
    }

    /// Counts of one operation on one table.
    pub fn of(&self, table: &str, verb: &str) -> Counts {
        let found = self.iter().find(|(known, name, _)| *known == table && *name == verb);
        found.map(|(_, _, counts)| *counts).unwrap_or_default()
    }

    /// The sum of all counts.
    pub fn total(&self) -> Counts {
        self.0.values().fold(Counts::default(), |mut total, counts| {
            total.add(counts);
            total
        })
    }
}

/// The counters of a running account.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Tables>);

type Tables = HashMap<Box<str>, Verbs>;

/// The counts of a table. There are few operations: a linear search is faster than hashing.
#[derive(Debug, Default)]
struct Verbs(Vec<(&'static str, Counts)>);

impl Verbs {
    fn count(&mut self, verb: &'static str, count: impl FnOnce(&mut Counts)) {
        if let Some((_, counts)) = self.0.iter_mut().find(|(known, _)| *known == verb) {
            return count(counts);
        }
        let mut counts = Counts::default();
        count(&mut counts);
        self.0.push((verb, counts));
    }
}

impl Counters {
    pub(crate) fn count(&self, table: &str, verb: &'static str, count: impl FnOnce(&mut Counts)) {
        let mut tables = self.tables();
        if let Some(verbs) = tables.get_mut(table) {
            return verbs.count(verb, count);
        }
        let table = if tables.len() < TABLES_MAX { table } else { OTHERS };
        tables.entry(table.into()).or_default().count(verb, count);
    }

    pub(crate) fn read(&self) -> Meter {
        let tables = self.tables();
        let rows = tables.iter().flat_map(|(table, verbs)| {
            verbs.0.iter().map(move |(verb, counts)| ((table.to_string(), *verb), *counts))
        });
        Meter(rows.collect())
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Counts one request and its response, if one came.
    pub(crate) fn attempt(&mut self, sent: usize, answer: Option<(StatusCode, usize)>) {
        self.attempts += 1;
        self.sent_bytes += sent as u64;
        let Some((status, received)) = answer else { return };
        self.received_bytes += received as u64;
        match status.as_u16() {
            429 | 503 => self.throttles += 1,
            401 | 403 | 500.. => {}
            409 | 412 => {
                self.conflicts += 1;
                self.billed += 1;
            }
            _ => self.billed += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_their_number_is_bounded() {
        let counters = Counters::default();
        for number in 0..=TABLES_MAX + 5 {
            counters.count(&format!("T{number}"), "get", |counts| {
                counts.operations += 1;
                counts.attempt(1, Some((StatusCode::OK, 10)));
            });
        }
        let meter = counters.read();
        assert_eq!(meter.iter().count(), TABLES_MAX + 1);
        assert_eq!(meter.of(OTHERS, "get").operations, 6);
        assert_eq!(meter.total().received_bytes, 10 * (TABLES_MAX as u64 + 6));
        assert_eq!(meter.of("T0", "insert"), Counts::default());
    }

    #[test]
    fn only_what_the_service_did_is_billed() {
        let mut counts = Counts::default();
        for status in [200, 404, 409, 412, 403, 503, 500] {
            counts.attempt(0, Some((StatusCode::from_u16(status).unwrap(), 0)));
        }
        counts.attempt(0, None);
        assert_eq!((counts.attempts, counts.billed), (8, 4));
        assert_eq!((counts.conflicts, counts.throttles), (2, 1));
    }
}
