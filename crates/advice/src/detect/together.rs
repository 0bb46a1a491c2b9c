//! Tables whose rows are written together: ADV-22.

use crate::sketch::{Top, is_share};
use crate::{Code, Findings, Sample, Thresholds};
use lazuli_model::key_text::fnv1a;
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of writes remembered.
const WRITES_MAX: usize = 256;
/// Pairs of tables that are counted.
const PAIRS_MAX: usize = 64;

/// Recent writes of all tables, to find those that belong together.
#[derive(Debug)]
pub(crate) struct Together {
    last: VecDeque<Write>,
    /// Writes of each table.
    tables: Top<u64>,
    /// Writes to a table with a companion write in another: `this with that`.
    pairs: Top<u64>,
}

#[derive(Debug)]
struct Write {
    partition: u64,
    second: u64,
    table: Arc<str>,
}

impl Default for Together {
    fn default() -> Self {
        Self { last: VecDeque::new(), tables: Top::new(PAIRS_MAX), pairs: Top::new(PAIRS_MAX) }
    }
}

impl Together {
    pub(crate) fn observe(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let (true, true, Some(partition)) =
            (sample.verb.is_write(), sample.is_ok(), sample.partition)
        else {
            return;
        };
        let (partition, second) = (fnv1a(partition.as_bytes()), sample.second());
        while self.last.front().is_some_and(|write| write.second + 1 < second)
            || self.last.len() >= WRITES_MAX
        {
            self.last.pop_front();
        }
        let Some(writes) = self.tables.count(sample.table) else { return };
        *writes += 1;
        let writes = *writes;
        let is_other =
            |write: &&Write| write.partition == partition && *write.table != *sample.table;
        if let Some(other) = self.last.iter().find(is_other) {
            let other = other.table.clone();
            if let Some(pairs) = self.pairs.count(&format!("{}\0{other}", sample.table)) {
                *pairs += 1;
                let pairs = *pairs;
                if writes >= thresholds.habit && is_share(pairs, writes, 80) {
                    findings.report(Code::WrittenTogether, sample, &other, || {
                        format!(
                            "{pairs} of {writes} writes came within a second of one to {other} with \
                             the same partition key"
                        )
                    });
                }
            }
        }
        let known = self.last.iter().rev().find(|write| *write.table == *sample.table);
        let table = known.map_or_else(|| sample.table.into(), |write| write.table.clone());
        self.last.push_back(Write { partition, second, table });
    }

    /// The writes of the last second are not worth storing.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.tables.write(out);
        self.pairs.write(out);
    }

    pub(crate) fn read(&mut self, from: &mut &[u8]) -> Option<()> {
        self.tables.read(from)?;
        self.pairs.read(from)
    }

    pub(crate) fn bytes(&self) -> usize {
        let names: usize = self.last.iter().map(|write| write.table.len()).sum();
        let writes = self.last.capacity() * size_of::<Write>() + names;
        writes + self.tables.bytes() + self.pairs.bytes()
    }
}
