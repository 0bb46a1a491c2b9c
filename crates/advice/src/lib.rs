//! Finds designs of tables that will be slow or dear, from samples of traffic (P-20).
//!
//! [`Advisor`] is a pure function of the samples it has seen: it has no clock, no threads, and bounded memory. A
//! client feeds it its own traffic, a server the traffic of all, a test a workload. [`layout::check`] gives the advice
//! that declarations alone allow.
//!
//! ```
//! use lazuli_advice::{Advisor, Class, Code, QueryFacts, Sample, Verb};
//! use lazuli_model::Timestamp;
//!
//! let mut advisor = Advisor::default();
//! let query = QueryFacts { property: Some("LastName"), ..QueryFacts::new(Class::TableScan) };
//! let sample = Sample::new(Timestamp::UNIX_EPOCH, "Employees", Verb::Query).with_query(query);
//! advisor.observe(&sample);
//! let findings: Vec<_> = advisor.findings().map(|finding| finding.code).collect();
//! assert_eq!(findings, [Code::TableScan]);
//! ```

#![warn(missing_docs)]

mod code;
mod detect;
pub mod layout;
mod sample;
mod sketch;
#[cfg(test)]
mod tests;

pub use code::Code;
pub use sample::{Class, QueryFacts, Sample, SizeFacts, Verb};

use detect::{TableWatch, Together};
use std::collections::BTreeMap;

/// Tables that are watched; the traffic of others is not looked at.
const TABLES_MAX: usize = 64;
/// Findings that are kept.
const FINDINGS_MAX: usize = 1000;

/// When something is worth saying. The defaults are those of the table in P-20.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Thresholds {
    /// Percent of a minute's inserts that go to the newest partition (ADV-1).
    pub append_percent: u64,
    /// Minutes in a row (ADV-1).
    pub append_minutes: u32,
    /// Writes a second to one partition that are a problem (ADV-2, ADV-3, ADV-13).
    pub hot_per_second: u32,
    /// Percent of a table's traffic (ADV-3).
    pub hot_percent: u64,
    /// Percent of queries that scan the table (ADV-4).
    pub scan_percent: u64,
    /// Entities read for each that is returned (ADV-4).
    pub read_per_returned: u64,
    /// Scans of a partition by one property (ADV-5).
    pub partition_scans: u64,
    /// Rows (ADV-8), percent of their bytes that nobody uses.
    pub unused_rows: u64,
    /// See `unused_rows`.
    pub unused_percent: u64,
    /// Failed conditions on one row in a minute (ADV-9), and their percent of its conditional writes.
    pub conflicts: u32,
    /// See `conflicts`.
    pub conflict_percent: u64,
    /// Days without a read (ADV-12).
    pub index_days: u64,
    /// Rows of a table with one partition (ADV-13).
    pub single_partition_rows: u64,
    /// Deletions in an hour (ADV-14).
    pub deletions: u32,
    /// Reads of a whole small table in a minute (ADV-15), and its rows.
    pub rereads: u32,
    /// See `rereads`.
    pub small_rows: u32,
    /// Times that a habit is seen before it is one (ADV-11, ADV-16 to ADV-18, ADV-22 to ADV-24).
    pub habit: u64,
    /// Single inserts a second (ADV-19).
    pub single_inserts: u32,
    /// Times the median minute (ADV-20).
    pub spike: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            append_percent: 80,
            append_minutes: 5,
            hot_per_second: 500,
            hot_percent: 50,
            scan_percent: 1,
            read_per_returned: 10_000,
            partition_scans: 100,
            unused_rows: 1000,
            unused_percent: 80,
            conflicts: 100,
            conflict_percent: 10,
            index_days: 30,
            single_partition_rows: 100_000,
            deletions: 1000,
            rereads: 100,
            small_rows: 1000,
            habit: 100,
            single_inserts: 100,
            spike: 20,
        }
    }
}

/// Something to change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was found.
    pub code: Code,
    /// Where.
    pub table: String,
    /// What it is about within the table: a partition, a property, an index; may be empty.
    pub subject: String,
    /// The numbers it rests on.
    pub evidence: String,
    /// What to do: a sentence to act on.
    pub advice: String,
}

/// Looks at samples of traffic and says what could be better.
#[derive(Debug, Default)]
pub struct Advisor {
    thresholds: Thresholds,
    tables: BTreeMap<Box<str>, TableWatch>,
    together: Together,
    findings: Findings,
}

impl Advisor {
    /// An advisor with thresholds of your own.
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, ..Self::default() }
    }

    /// Looks at one sample. Samples come in the order of their times, more or less: one that is late by some
    /// seconds is counted with the present ones.
    pub fn observe(&mut self, sample: &Sample<'_>) {
        if !self.tables.contains_key(sample.table) {
            if self.tables.len() >= TABLES_MAX {
                return;
            }
            self.tables.insert(sample.table.into(), TableWatch::default());
        }
        if let Some(watch) = self.tables.get_mut(sample.table) {
            watch.observe(sample, &self.thresholds, &mut self.findings);
        }
        self.together.observe(sample, &self.thresholds, &mut self.findings);
    }

    /// What was found so far, by code and table.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.0.iter().map(|known| &known.finding)
    }

    /// Forgets what was found, and keeps what was counted.
    pub fn clear(&mut self) {
        self.findings.0.clear();
    }

    /// Bytes of memory in use, as far as they depend on the traffic.
    pub fn bytes(&self) -> usize {
        let tables: usize = self.tables.values().map(TableWatch::bytes).sum();
        tables + self.together.bytes()
    }
}

/// What was found, each thing once, by code, table and subject.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Known>);

#[derive(Debug)]
struct Known {
    finding: Finding,
    /// The minute in which it was reported last.
    minute: u64,
}

impl Findings {
    /// Reports something. What is known gets new evidence once a minute: it is reported with every sample that
    /// shows it.
    pub(crate) fn report(
        &mut self,
        code: Code,
        sample: &Sample<'_>,
        subject: &str,
        evidence: impl FnOnce() -> String,
    ) {
        let minute = sample.second() / 60;
        let place = self.0.binary_search_by(|known| {
            let finding = &known.finding;
            (finding.code, &*finding.table, &*finding.subject).cmp(&(code, sample.table, subject))
        });
        match place {
            Ok(at) => {
                if let Some(known) = self.0.get_mut(at).filter(|known| known.minute != minute) {
                    known.finding.evidence = evidence();
                    known.minute = minute;
                }
            }
            Err(_) if self.0.len() >= FINDINGS_MAX => {}
            Err(at) => {
                let finding = Finding {
                    code,
                    table: sample.table.to_owned(),
                    subject: subject.to_owned(),
                    evidence: evidence(),
                    advice: code.advice(subject),
                };
                self.0.insert(at, Known { finding, minute });
            }
        }
    }
}
