//! The detectors, and the traffic that each of them watches.

mod keys;
mod pace;
mod pairs;
mod queries;
mod together;
mod writes;

pub(crate) use pairs::Pairs;
pub(crate) use queries::Shape;
pub(crate) use together::Together;
pub(crate) use writes::Totals;

use crate::stored::Stored;
use crate::{Findings, Sample, Thresholds};

/// Limits of what is kept for one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Partitions that are counted individually.
    pub(crate) partitions: usize,
    /// Positions in keys where numbers are looked for.
    pub(crate) places: usize,
    /// Properties that are counted.
    pub(crate) names: usize,
    /// Rows with conditional writes that are counted.
    pub(crate) rows: usize,
    /// Distinct filters without their literals.
    pub(crate) shapes: usize,
}

impl Sizes {
    pub(crate) const FULL: Self =
        Self { partitions: 64, places: 64, names: 64, rows: 64, shapes: 64 };

    /// At most 64 KiB in all, if texts are short.
    pub(crate) const COMPACT: Self =
        Self { partitions: 64, places: 24, names: 24, rows: 24, shapes: 64 };
}

/// The state of all detectors for one table.
#[derive(Debug)]
pub(crate) struct TableWatch {
    /// When it was first and last seen, in seconds.
    since: u64,
    last: u64,
    keys: keys::Keys,
    pace: pace::Pace,
    queries: queries::Queries,
    writes: writes::Writes,
}

impl TableWatch {
    pub(crate) fn new(sizes: &Sizes) -> Self {
        Self {
            since: 0,
            last: 0,
            keys: keys::Keys::new(sizes),
            pace: pace::Pace::default(),
            queries: queries::Queries::new(sizes),
            writes: writes::Writes::new(sizes),
        }
    }

    pub(crate) fn observe(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        self.last = self.last.max(sample.second());
        if self.since == 0 {
            self.since = self.last;
        }
        self.keys.observe(sample, thresholds, findings);
        self.pace.observe(sample, thresholds, findings);
        self.queries.observe(sample, thresholds, findings);
        self.writes.observe(sample, thresholds, findings);
    }

    /// Closes the periods that have ended by the time of `sample`, which does not count as traffic.
    pub(crate) fn pass(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        self.keys.pass(sample, thresholds, findings);
        self.pace.pass(sample, thresholds, findings);
    }

    /// Notes that an index was read, or updated by a write; `sample` does not count as traffic.
    pub(crate) fn note_index(
        &mut self,
        name: &str,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        self.writes.index(name, sample, thresholds, findings);
    }

    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn by_class(&self) -> &[u64] {
        self.queries.by_class()
    }

    pub(crate) fn shapes(&self) -> impl Iterator<Item = (&str, &Shape)> {
        self.queries.shapes()
    }

    pub(crate) fn busiest(&self) -> impl Iterator<Item = (&str, u64)> {
        self.keys.busiest()
    }

    pub(crate) fn growth(&self) -> (u64, u64) {
        self.keys.growth()
    }

    pub(crate) fn totals(&self) -> Totals {
        self.writes.totals()
    }

    pub(crate) fn last_read_of_index(&self, name: &str) -> Option<u64> {
        self.writes.last_read_of_index(name)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.keys.bytes() + self.queries.bytes() + self.writes.bytes()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.since.write(out);
        self.last.write(out);
        self.keys.write(out);
        self.pace.write(out);
        self.queries.write(out);
        self.writes.write(out);
    }

    pub(crate) fn read(sizes: &Sizes, from: &mut &[u8]) -> Option<Self> {
        let mut watch = Self::new(sizes);
        watch.since = Stored::read(from)?;
        watch.last = Stored::read(from)?;
        watch.keys.read(from)?;
        watch.pace = Stored::read(from)?;
        watch.queries.read(from)?;
        watch.writes.read(from)?;
        Some(watch)
    }
}
