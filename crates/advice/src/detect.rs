//! The detectors: what each sees of a table's traffic.

mod keys;
mod pace;
mod queries;
mod together;
mod writes;

pub(crate) use together::Together;

use crate::{Findings, Sample, Thresholds};

/// Everything that is watched of one table.
#[derive(Debug, Default)]
pub(crate) struct TableWatch {
    keys: keys::Keys,
    pace: pace::Pace,
    queries: queries::Queries,
    writes: writes::Writes,
}

impl TableWatch {
    pub(crate) fn observe(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        self.keys.observe(sample, thresholds, findings);
        self.pace.observe(sample, thresholds, findings);
        self.queries.observe(sample, thresholds, findings);
        self.writes.observe(sample, thresholds, findings);
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.keys.bytes() + self.queries.bytes() + self.writes.bytes()
    }
}
