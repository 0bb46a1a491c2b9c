//! Reads: ADV-4 to 8, 15, 17, 23, 24.

use super::Sizes;
use crate::sketch::{Top, Within, is_share};
use crate::stored::{Stored, stored};
use crate::{Class, Code, Findings, QueryFacts, Sample, Thresholds, Verb};

/// Adjacent rows read one after the other.
const ROWS_IN_A_ROW: u32 = 24;
/// Consecutive empty pages.
const EMPTY_PAGES: u32 = 10;
/// Entities with this many properties, or bytes, are expensive to read whole (X-5.2b).
const WIDE_PROPERTIES: u64 = 20;
const LARGE_BYTES: u64 = 8 * 1024;

#[derive(Debug)]
pub(super) struct Queries {
    queries: u64,
    scans: u64,
    partition_scans: Top<u64>,
    unused: Unused,
    rereads: Within,
    writes: Within,
    neighbours: Neighbours,
    to_the_end: Within,
    empty_pages: Within,
    whole: Whole,
    /// Requests by [`Class`].
    by_class: [u64; Class::ALL.len()],
    shapes: Top<Shape>,
}

/// Bytes that were read but not used.
#[derive(Debug, Default)]
struct Unused {
    rows: u64,
    bytes: u64,
    used: u64,
}

stored!(Unused { rows, bytes, used });

/// Entities read whole, with all their properties.
#[derive(Debug, Default)]
struct Whole {
    rows: u64,
    properties: u64,
    bytes: u64,
}

stored!(Whole { rows, properties, bytes });

/// Queries whose filters differ only in their literals.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    pub(crate) queries: u64,
    pub(crate) examined: u64,
    pub(crate) returned: u64,
    /// Queries that read partitions or the table.
    pub(crate) scans: u64,
    /// A property that they compare with `eq`.
    pub(crate) lookup: Option<Box<str>>,
    /// The second of the last query.
    last: u64,
}

stored!(Shape { queries, examined, returned, scans, lookup, last });

/// Seconds without a query after which the counts of a shape start from zero.
const SHAPE_SECONDS: u64 = 24 * 3600;

/// Adjacent rows read one after the other.
#[derive(Debug, Default)]
struct Neighbours {
    /// The partition, the text before the number in the last row key, and the number.
    last: Option<(Box<str>, Box<str>, u64)>,
    run: u32,
    runs: u64,
}

stored!(Neighbours { last, run, runs });

impl Queries {
    pub(super) fn new(sizes: &Sizes) -> Self {
        Self {
            queries: 0,
            scans: 0,
            partition_scans: Top::new(sizes.names),
            unused: Unused::default(),
            rereads: Within::default(),
            writes: Within::default(),
            neighbours: Neighbours::default(),
            to_the_end: Within::default(),
            empty_pages: Within::default(),
            whole: Whole::default(),
            by_class: [0; Class::ALL.len()],
            shapes: Top::new(sizes.shapes),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.queries.write(out);
        self.scans.write(out);
        self.partition_scans.write(out);
        self.unused.write(out);
        self.rereads.write(out);
        self.writes.write(out);
        self.neighbours.write(out);
        self.to_the_end.write(out);
        self.empty_pages.write(out);
        self.whole.write(out);
        self.by_class.iter().for_each(|count| count.write(out));
        self.shapes.write(out);
    }

    pub(super) fn read(&mut self, from: &mut &[u8]) -> Option<()> {
        self.queries = Stored::read(from)?;
        self.scans = Stored::read(from)?;
        self.partition_scans.read(from)?;
        self.unused = Stored::read(from)?;
        self.rereads = Stored::read(from)?;
        self.writes = Stored::read(from)?;
        self.neighbours = Stored::read(from)?;
        self.to_the_end = Stored::read(from)?;
        self.empty_pages = Stored::read(from)?;
        self.whole = Stored::read(from)?;
        for count in &mut self.by_class {
            *count = Stored::read(from)?;
        }
        self.shapes.read(from)
    }

    /// Requests by class, in the order of [`Class::ALL`].
    pub(super) fn by_class(&self) -> &[u64] {
        &self.by_class
    }

    /// The most frequent filters without their literals.
    pub(super) fn shapes(&self) -> impl Iterator<Item = (&str, &Shape)> {
        self.shapes.iter().map(|(text, _, shape)| (text, shape))
    }

    fn count_shape(&mut self, second: u64, query: &QueryFacts<'_>) {
        let Some(shape) = query.shape.and_then(|shape| self.shapes.count(shape)) else { return };
        if second > shape.last + SHAPE_SECONDS {
            *shape = Shape::default();
        }
        shape.last = shape.last.max(second);
        shape.queries += 1;
        shape.examined += u64::from(query.read.unwrap_or_default());
        shape.returned += u64::from(query.returned);
        let scans =
            matches!(query.class, Class::PartitionScan | Class::PartitionRange | Class::TableScan);
        shape.scans += u64::from(scans);
        if shape.lookup.is_none() {
            shape.lookup = query.lookup.map(Into::into);
        }
    }

    pub(super) fn observe(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        match sample.verb {
            Verb::Get => {
                self.count_class(Class::Point);
                self.neighbours.observe(sample, thresholds, findings);
                if let Some(query) = &sample.query {
                    self.whole(sample, query, thresholds, findings);
                }
            }
            Verb::Query => {
                if let Some(query) = &sample.query {
                    self.count_class(query.class);
                    self.count_shape(sample.second(), query);
                    self.query(sample, query, thresholds, findings);
                    self.whole(sample, query, thresholds, findings);
                }
            }
            _ => {
                self.writes.add(sample.second() / 60);
            }
        }
    }

    fn count_class(&mut self, class: Class) {
        if let Some(count) = self.by_class.get_mut(class as usize) {
            *count += 1;
        }
    }

    /// ADV-8, seen by a server: wide or large entities are read whole.
    fn whole(
        &mut self,
        sample: &Sample<'_>,
        query: &QueryFacts<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let Some(properties) = query.whole_properties else { return };
        self.whole.rows += u64::from(query.returned);
        self.whole.properties += properties;
        self.whole.bytes += query.bytes;
        let Whole { rows, properties, bytes } = self.whole;
        let is_wide = properties >= WIDE_PROPERTIES * rows || bytes >= LARGE_BYTES * rows;
        if rows >= thresholds.unused_rows && is_wide {
            findings.report(Code::UnusedProperties, sample, "", || {
                let (properties, bytes) = (properties / rows.max(1), bytes / rows.max(1));
                format!(
                    "{rows} entities of {properties} properties and {bytes} bytes on average were read \
                     without $select"
                )
            });
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
        let in_a_row = query.empty_pages_before.saturating_add(query.empty_pages);
        if query.empty_pages > 0 && in_a_row >= EMPTY_PAGES {
            // The tenth in a row also stands for the nine before it.
            let is_first = query.empty_pages_before < EMPTY_PAGES;
            let new = if is_first { in_a_row } else { query.empty_pages };
            let count = self.empty_pages.add_many(hour, new);
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
            // Reading a table on purpose, without a filter, is not a mistake.
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
        let is_whole = query.class == Class::TableScan
            && query.property.is_none()
            && !query.has_more
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

    pub(super) fn bytes(&self) -> usize {
        let lookups = self.shapes.iter().filter_map(|(_, _, shape)| shape.lookup.as_ref());
        let lookups: usize = lookups.map(|name| name.len()).sum();
        let last = self.neighbours.last.as_ref().map_or(0, |(a, b, _)| a.len() + b.len());
        self.partition_scans.bytes() + self.shapes.bytes() + lookups + last
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
