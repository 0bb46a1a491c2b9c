//! What is read: ADV-4 to 8, 15 to 17, 23, 24.

use crate::sketch::{Top, Within, is_share};
use crate::{Class, Code, Findings, QueryFacts, Sample, Thresholds, Verb};

/// Properties, and pairs of types, that are counted.
const NAMES_MAX: usize = 64;
/// Rows that are read one after the other.
const ROWS_IN_A_ROW: u32 = 24;
/// Empty pages one after the other.
const EMPTY_PAGES: u32 = 10;

#[derive(Debug)]
pub(super) struct Queries {
    queries: u64,
    scans: u64,
    partition_scans: Top<u64>,
    unused: Unused,
    rereads: Within,
    writes: Within,
    reads_of_kind: Top<u64>,
    pairs: Top<u64>,
    neighbours: Neighbours,
    to_the_end: Within,
    empty_pages: Within,
}

/// Bytes that were read and not used.
#[derive(Debug, Default)]
struct Unused {
    rows: u64,
    bytes: u64,
    used: u64,
}

/// Rows that are read one after the other.
#[derive(Debug, Default)]
struct Neighbours {
    /// The partition, the text before the number of the last row, and the number.
    last: Option<(Box<str>, Box<str>, u64)>,
    run: u32,
    runs: u64,
}

impl Default for Queries {
    fn default() -> Self {
        Self {
            queries: 0,
            scans: 0,
            partition_scans: Top::new(NAMES_MAX),
            unused: Unused::default(),
            rereads: Within::default(),
            writes: Within::default(),
            reads_of_kind: Top::new(NAMES_MAX),
            pairs: Top::new(NAMES_MAX),
            neighbours: Neighbours::default(),
            to_the_end: Within::default(),
            empty_pages: Within::default(),
        }
    }
}

impl Queries {
    pub(super) fn observe(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        match sample.verb {
            Verb::Get => {
                self.neighbours.observe(sample, thresholds, findings);
                self.read_then_read(sample, thresholds, findings);
            }
            Verb::Query => {
                if let Some(query) = &sample.query {
                    self.query(sample, query, thresholds, findings);
                }
            }
            _ => {
                self.writes.add(sample.second() / 60);
            }
        }
    }

    fn query(
        &mut self,
        sample: &Sample<'_>,
        query: &QueryFacts<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        self.queries += 1;
        if query.has_row_alone {
            findings.report(Code::RowWithoutPartition, sample, "", || "a query".to_owned());
        } else if query.has_or_of_keys {
            findings.report(Code::OrOfKeys, sample, "", || "a query".to_owned());
        } else {
            self.scan(sample, query, thresholds, findings);
        }
        self.unused(sample, query, thresholds, findings);
        self.reread(sample, query, thresholds, findings);
        let hour = sample.second() / 3600;
        if query.used_last_only {
            let count = self.to_the_end.add(hour);
            if u64::from(count) >= thresholds.habit {
                findings.report(Code::ReadToTheEnd, sample, "", || {
                    format!("{count} queries in an hour used the last rows of those they read")
                });
            }
        }
        if query.empty_pages >= EMPTY_PAGES {
            let count = self.empty_pages.add_many(hour, query.empty_pages);
            if u64::from(count) >= thresholds.habit {
                findings.report(Code::EmptyPages, sample, "", || {
                    format!("{count} empty pages in an hour, {EMPTY_PAGES} and more in a row")
                });
            }
        }
    }

    /// ADV-4 and ADV-5.
    fn scan(
        &mut self,
        sample: &Sample<'_>,
        query: &QueryFacts<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let reads_much = query.read.is_some_and(|read| {
            u64::from(read) >= thresholds.read_per_returned * u64::from(query.returned.max(1))
        });
        let property = query.property.unwrap_or_default();
        match query.class {
            // To read a table on purpose, without a filter, is no mistake.
            Class::TableScan | Class::PartitionRange if query.property.is_some() || reads_much => {
                self.scans += 1;
                let (scans, queries) = (self.scans, self.queries);
                if reads_much || is_share(scans, queries, thresholds.scan_percent) {
                    findings.report(Code::TableScan, sample, property, || {
                        let read = query.read.map(|read| format!(", the last read {read} rows"));
                        format!("{scans} of {queries} queries{}", read.unwrap_or_default())
                    });
                }
            }
            Class::PartitionScan if query.property.is_some() => {
                let Some(scans) = self.partition_scans.count(property) else { return };
                *scans += 1;
                let scans = *scans;
                if scans >= thresholds.partition_scans {
                    findings.report(Code::PartitionScan, sample, property, || {
                        format!("{scans} queries read a partition to find rows by {property}")
                    });
                }
            }
            _ => {}
        }
    }

    /// ADV-8.
    fn unused(
        &mut self,
        sample: &Sample<'_>,
        query: &QueryFacts<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let Some(used) = query.bytes_used else { return };
        self.unused.rows += u64::from(query.returned);
        self.unused.bytes += query.bytes;
        self.unused.used += used;
        let Unused { rows, bytes, used } = self.unused;
        let unused = bytes.saturating_sub(used);
        if rows >= thresholds.unused_rows && is_share(unused, bytes, thresholds.unused_percent) {
            findings.report(Code::UnusedProperties, sample, "", || {
                format!("{unused} of {bytes} bytes in {rows} rows were not used")
            });
        }
    }

    /// ADV-15.
    fn reread(
        &mut self,
        sample: &Sample<'_>,
        query: &QueryFacts<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let is_whole = matches!(query.class, Class::TableScan | Class::PartitionScan)
            && query.property.is_none()
            && query.returned > 0
            && query.returned <= thresholds.small_rows;
        let minute = sample.second() / 60;
        if !is_whole || self.writes.of(minute) > 0 {
            return;
        }
        let reads = self.rereads.add(minute);
        if reads >= thresholds.rereads {
            let rows = query.returned;
            findings.report(Code::Rereads, sample, "", || {
                format!("{reads} reads of {rows} rows in a minute, and no write")
            });
        }
    }

    /// ADV-16.
    fn read_then_read(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let Some(kind) = sample.kind else { return };
        if let Some(reads) = self.reads_of_kind.count(kind) {
            *reads += 1;
        }
        let Some(first) = sample.key_from else { return };
        let pair = format!("{first} then {kind}");
        let Some(pairs) = self.pairs.count(&pair) else { return };
        *pairs += 1;
        let pairs = *pairs;
        // The first read may be of another table, whose reads are not counted here.
        let reads = self.reads_of_kind.get(first).copied().unwrap_or(pairs).max(pairs);
        if pairs >= thresholds.habit && is_share(pairs, reads, 90) {
            findings.report(Code::ReadThenRead, sample, &pair, || {
                format!("{pairs} of {reads} reads of {first} were followed by one of {kind}")
            });
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.partition_scans.bytes() + self.reads_of_kind.bytes() + self.pairs.bytes()
    }
}

impl Neighbours {
    /// ADV-17.
    fn observe(&mut self, sample: &Sample<'_>, thresholds: &Thresholds, findings: &mut Findings) {
        let (Some(partition), Some(row)) = (sample.partition, sample.row) else { return };
        let prefix = row.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: Option<u64> = row.get(prefix.len()..).and_then(|digits| digits.parse().ok());
        let Some(number) = number else { return };
        let is_next = self.last.as_ref().is_some_and(|(of, before, last)| {
            **of == *partition && **before == *prefix && number == last.saturating_add(1)
        });
        self.run = if is_next { self.run + 1 } else { 1 };
        self.last = Some((partition.into(), prefix.into(), number));
        if self.run < ROWS_IN_A_ROW {
            return;
        }
        self.run = 0;
        self.runs += 1;
        let runs = self.runs;
        if runs >= thresholds.habit {
            findings.report(Code::ReadsInARow, sample, "", || {
                format!(
                    "{runs} times {ROWS_IN_A_ROW} rows that follow each other were read one by one"
                )
            });
        }
    }
}
