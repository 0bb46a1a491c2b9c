//! Finds table designs that will be slow or expensive, from samples of traffic (P-20).
//!
//! [`Advisor`] is a pure function of the samples it has seen: it has no clock, no threads, and bounded memory. A client
//! feeds it its own traffic, a server all traffic, a test a workload. [`layout::check`] gives advice from declarations
//! alone.
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
mod facts;
pub mod layout;
mod sample;
mod sketch;
mod stored;
mod summary;
#[cfg(test)]
mod tests;

pub use code::Code;
pub use facts::FilterFacts;
pub use sample::{Class, FINGERPRINT_PLACES, Fingerprint, QueryFacts, Sample, SizeFacts, Verb};
pub use summary::{ShapeSummary, TableSummary};

use detect::{Pairs, Sizes, TableWatch, Together};
use lazuli_model::Timestamp;
use lazuli_model::key_text::fnv1a;
use std::borrow::Cow;
use std::collections::BTreeMap;
use stored::Stored;

/// The most tables that are watched; traffic on others is ignored.
const TABLES_MAX: usize = 64;
/// The most findings that are kept.
const FINDINGS_MAX: usize = 1000;
/// Seconds without traffic after which a table may be replaced by another.
const IDLE_SECONDS: u64 = 3600;
/// Seconds after which a finding that did not recur is dropped.
const FINDING_SECONDS: u64 = 7 * 24 * 3600;
/// The longest key, name and filter that a compact advisor keeps.
const KEY_BYTES_MAX: usize = 40;
const NAME_BYTES_MAX: usize = 64;
const SHAPE_BYTES_MAX: usize = 160;
/// The first byte of the state stored across restarts.
const STORED_VERSION: u8 = 1;

/// Limits above which findings are reported. The defaults are those of the table in P-20.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Thresholds {
    /// Percent of a minute's inserts that go to the newest partition (ADV-1).
    pub append_percent: u64,
    /// Consecutive minutes (ADV-1).
    pub append_minutes: u32,
    /// Writes per second to one partition that are a problem (ADV-2, ADV-3, ADV-13).
    pub hot_per_second: u32,
    /// Percent of a table's traffic (ADV-3).
    pub hot_percent: u64,
    /// Percent of queries that scan the table (ADV-4).
    pub scan_percent: u64,
    /// Entities read for each one returned (ADV-4).
    pub read_per_returned: u64,
    /// Scans of a partition by one property (ADV-5).
    pub partition_scans: u64,
    /// Rows read, and the percentage of their bytes that is unused (ADV-8).
    pub unused_rows: u64,
    /// See `unused_rows`.
    pub unused_percent: u64,
    /// Failed conditions on one row in a minute (ADV-9), and their percentage of its conditional writes.
    pub conflicts: u32,
    /// See `conflicts`.
    pub conflict_percent: u64,
    /// Days without a read (ADV-12).
    pub index_days: u64,
    /// Rows of a table with one partition (ADV-13).
    pub single_partition_rows: u64,
    /// Deletions in an hour (ADV-14).
    pub deletions: u32,
    /// Reads of a whole small table in a minute (ADV-15), and the most rows of a small table.
    pub rereads: u32,
    /// See `rereads`.
    pub small_rows: u32,
    /// How often a pattern must be seen to count as a habit (ADV-11, ADV-16 to ADV-18, ADV-22 to ADV-24).
    pub habit: u64,
    /// Single inserts per second (ADV-19).
    pub single_inserts: u32,
    /// Multiple of the median minute (ADV-20).
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

/// Something that could be improved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The code of the finding.
    pub code: Code,
    /// The table.
    pub table: String,
    /// What it is about within the table: a partition, a property, an index; may be empty.
    pub subject: String,
    /// The numbers it is based on.
    pub evidence: String,
    /// What to do, as a sentence.
    pub advice: String,
    /// The command, request or key design that implements it.
    pub command: String,
    /// The seconds in which it was first and last seen.
    pub first: Timestamp,
    /// See `first`.
    pub last: Timestamp,
    /// How many requests showed it.
    pub times: u64,
}

impl Finding {
    /// How much it matters: the weight of one occurrence, and the magnitude of their number.
    pub fn weight(&self) -> u64 {
        self.code.severity() * u64::from(64 - self.times.leading_zeros())
    }
}

/// Examines samples of traffic and reports what could be improved.
#[derive(Debug)]
pub struct Advisor {
    thresholds: Thresholds,
    sizes: Sizes,
    is_compact: bool,
    tables_max: usize,
    tables: BTreeMap<Box<str>, TableWatch>,
    together: Together,
    pairs: Pairs,
    findings: Findings,
}

impl Default for Advisor {
    fn default() -> Self {
        Self::new(Thresholds::default())
    }
}

impl Advisor {
    /// An advisor with custom thresholds.
    pub fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            sizes: Sizes::FULL,
            is_compact: false,
            tables_max: TABLES_MAX,
            tables: BTreeMap::new(),
            together: Together::default(),
            pairs: Pairs::default(),
            findings: Findings::default(),
        }
    }

    /// An advisor that keeps at most 64 KiB for each table, whatever is sent: long keys and filters are truncated,
    /// and a table without traffic for an hour may be replaced by an active one.
    pub fn compact(thresholds: Thresholds) -> Self {
        Self { sizes: Sizes::COMPACT, is_compact: true, ..Self::new(thresholds) }
    }

    /// Limits the number of tables that are watched, to at most 64.
    pub fn with_tables_max(self, tables_max: usize) -> Self {
        Self { tables_max: tables_max.min(TABLES_MAX), ..self }
    }

    /// Examines one sample. Samples should come roughly in the order of their times: one that is a few seconds late is
    /// counted with the current ones.
    pub fn observe(&mut self, sample: &Sample<'_>) {
        match self.is_compact {
            false => self.observe_short(sample),
            true => self.observe_cut(sample),
        }
    }

    fn observe_cut(&mut self, sample: &Sample<'_>) {
        let (partition, row) = (sample.partition.map(cut_key), sample.row.map(cut_key));
        let name = |name| cut(name, NAME_BYTES_MAX);
        let query = sample.query.map(|query| QueryFacts {
            property: query.property.map(name),
            shape: query.shape.map(|shape| cut(shape, SHAPE_BYTES_MAX)),
            // A truncated name would name another property.
            lookup: query.lookup.filter(|lookup| lookup.len() <= NAME_BYTES_MAX),
            ..query
        });
        let (partition, row) = (partition.as_deref(), row.as_deref());
        self.observe_short(&Sample { partition, row, query, ..*sample });
    }

    fn observe_short(&mut self, sample: &Sample<'_>) {
        if !self.tables.contains_key(sample.table) {
            if self.tables.len() >= self.tables_max && !self.drop_idle(sample.second()) {
                return;
            }
            self.tables.insert(sample.table.into(), TableWatch::new(&self.sizes));
        }
        if let Some(watch) = self.tables.get_mut(sample.table) {
            watch.observe(sample, &self.thresholds, &mut self.findings);
        }
        self.together.observe(sample, &self.thresholds, &mut self.findings);
        self.pairs.observe(sample, &self.thresholds, &mut self.findings);
    }

    /// Drops the table that has been idle for the longest time, if that is long enough.
    fn drop_idle(&mut self, now: u64) -> bool {
        let idle = self.tables.iter().min_by_key(|(_, watch)| watch.last());
        let idle = idle.filter(|(_, watch)| watch.last() + IDLE_SECONDS < now);
        let Some(name) = idle.map(|(name, _)| name.clone()) else { return false };
        self.tables.remove(&name).is_some()
    }

    /// Advances time without traffic: reports the seconds and minutes that have ended, and drops findings that did not
    /// recur for a week.
    pub fn pass(&mut self, now: Timestamp) {
        for (table, watch) in &mut self.tables {
            let sample = Sample::new(now, table, Verb::Get);
            watch.pass(&sample, &self.thresholds, &mut self.findings);
        }
        let is_recent = |known: &Known| known.second + FINDING_SECONDS >= now.unix_seconds();
        self.findings.0.retain(is_recent);
    }

    /// Notes that queries read an index of the server, or that writes updated it.
    pub fn note_index(&mut self, at: Timestamp, table: &str, index: &str, is_read: bool) {
        let Some(watch) = self.tables.get_mut(table) else { return };
        let verb = if is_read { Verb::Query } else { Verb::Insert };
        let sample = Sample::new(at, table, verb);
        watch.note_index(index, &sample, &self.thresholds, &mut self.findings);
    }

    /// When queries last read an index, if known.
    pub fn last_read_of_index(&self, table: &str, index: &str) -> Option<Timestamp> {
        let second = self.tables.get(table)?.last_read_of_index(index)?;
        Some(Timestamp::from_unix_seconds(second))
    }

    /// Drops a table and its findings, after the table was deleted.
    pub fn forget(&mut self, table: &str) {
        self.tables.remove(table);
        self.findings.0.retain(|known| known.finding.table != table);
    }

    /// Statistics of each table.
    pub fn tables(&self) -> impl Iterator<Item = TableSummary<'_>> {
        self.tables.iter().map(|(table, watch)| TableSummary::new(table, watch))
    }

    /// The state of each watched table as bytes, and under the empty name the state of all tables together.
    pub fn save(&self) -> Vec<(String, Vec<u8>)> {
        let mut shared = vec![STORED_VERSION];
        self.together.write(&mut shared);
        self.pairs.write(&mut shared);
        let mut saved = vec![(String::new(), shared)];
        for (table, watch) in &self.tables {
            let mut bytes = vec![STORED_VERSION];
            watch.write(&mut bytes);
            let of_table = |known: &&Known| *known.finding.table == **table;
            let findings: Vec<&Known> = self.findings.0.iter().filter(of_table).collect();
            (findings.len() as u64).write(&mut bytes);
            findings.into_iter().for_each(|known| known.write(&mut bytes));
            saved.push((table.to_string(), bytes));
        }
        saved
    }

    /// Restores the state of one table from [`Advisor::save`]. Returns whether it could be read; if not, nothing
    /// changes.
    pub fn restore(&mut self, table: &str, bytes: &[u8]) -> bool {
        match table {
            "" => self.restore_shared(bytes).is_some(),
            table => self.restore_table(table, bytes).is_some(),
        }
    }

    fn restore_shared(&mut self, bytes: &[u8]) -> Option<()> {
        let mut from = bytes.strip_prefix(&[STORED_VERSION])?;
        let (mut together, mut pairs) = (Together::default(), Pairs::default());
        together.read(&mut from)?;
        pairs.read(&mut from)?;
        (self.together, self.pairs) = (together, pairs);
        Some(())
    }

    fn restore_table(&mut self, table: &str, bytes: &[u8]) -> Option<()> {
        let mut from = bytes.strip_prefix(&[STORED_VERSION])?;
        let watch = TableWatch::read(&self.sizes, &mut from)?;
        let mut findings = Vec::new();
        for _ in 0..u64::read(&mut from)? {
            findings.push(Known::read(table, &mut from)?);
        }
        if self.tables.len() < self.tables_max {
            self.tables.insert(table.into(), watch);
        }
        for known in findings {
            self.findings.restore(known);
        }
        Some(())
    }

    /// The findings so far, by code and table.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.0.iter().map(|known| &known.finding)
    }

    /// Discards the findings, but keeps the counts.
    pub fn clear(&mut self) {
        self.findings.0.clear();
    }

    /// Memory in use, as far as it depends on the traffic.
    pub fn bytes(&self) -> usize {
        let tables: usize = self.tables.values().map(TableWatch::bytes).sum();
        tables + self.together.bytes() + self.pairs.bytes()
    }
}

/// The beginning of a text, at most this many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// A key; if it is long, its beginning and a hash of it.
fn cut_key(key: &str) -> Cow<'_, str> {
    match key.len() <= KEY_BYTES_MAX {
        true => Cow::Borrowed(key),
        false => {
            let hash = fnv1a(key.as_bytes());
            Cow::Owned(format!("{}…{hash:016x}", cut(key, KEY_BYTES_MAX - 20)))
        }
    }
}

/// The findings, without duplicates, by code, table and subject.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Known>);

#[derive(Debug)]
struct Known {
    finding: Finding,
    /// The second in which it was last reported.
    second: u64,
}

impl Known {
    /// Advice and command are not written: they follow from the code.
    fn write(&self, out: &mut Vec<u8>) {
        let Finding { code, subject, evidence, first, times, .. } = &self.finding;
        (*code as u64).write(out);
        subject.write(out);
        evidence.write(out);
        first.unix_seconds().write(out);
        self.second.write(out);
        times.write(out);
    }

    fn read(table: &str, from: &mut &[u8]) -> Option<Self> {
        let code = Code::of_number(u64::read(from)?)?;
        let (subject, evidence) = (String::read(from)?, String::read(from)?);
        let (first, second, times) = (u64::read(from)?, u64::read(from)?, u64::read(from)?);
        let mut finding = Finding::new(code, table, &subject, evidence, first);
        finding.last = Timestamp::from_unix_seconds(second);
        finding.times = times;
        Some(Self { finding, second })
    }
}

impl Finding {
    fn new(code: Code, table: &str, subject: &str, evidence: String, second: u64) -> Self {
        let at = Timestamp::from_unix_seconds(second);
        Self {
            code,
            table: table.to_owned(),
            subject: subject.to_owned(),
            evidence,
            advice: code.advice(subject),
            command: code.command(table, subject),
            first: at,
            last: at,
            times: 1,
        }
    }
}

impl Findings {
    /// Reports a finding. A known one gets new evidence once a second, and whenever its count has doubled: it is
    /// reported for every sample that shows it.
    pub(crate) fn report(
        &mut self,
        code: Code,
        sample: &Sample<'_>,
        subject: &str,
        evidence: impl FnOnce() -> String,
    ) {
        let second = sample.second();
        match self.place(code, sample.table, subject) {
            Ok(at) => {
                let Some(known) = self.0.get_mut(at) else { return };
                known.finding.times += 1;
                if known.second != second || known.finding.times.is_power_of_two() {
                    known.finding.evidence = evidence();
                    known.finding.last = Timestamp::from_unix_seconds(second);
                    known.second = second;
                }
            }
            Err(_) if self.0.len() >= FINDINGS_MAX => {}
            Err(at) => {
                let finding = Finding::new(code, sample.table, subject, evidence(), second);
                self.0.insert(at, Known { finding, second });
            }
        }
    }

    /// The position of a finding, or where to insert it.
    fn place(&self, code: Code, table: &str, subject: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|known| {
            let finding = &known.finding;
            (finding.code, &*finding.table, &*finding.subject).cmp(&(code, table, subject))
        })
    }

    /// Restores a stored finding.
    fn restore(&mut self, known: Known) {
        let Finding { code, table, subject, .. } = &known.finding;
        if let Err(at) = self.place(*code, table, subject)
            && self.0.len() < FINDINGS_MAX
        {
            self.0.insert(at, known);
        }
    }
}
