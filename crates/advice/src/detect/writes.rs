//! What is written: ADV-9, 12, 14, 18, 21.

use crate::sketch::{Top, Within, is_share};
use crate::{Code, Findings, Sample, SizeFacts, Thresholds, Verb};
use lazuli_model::limits::{BINARY_BYTES_MAX, CUSTOM_PROPERTIES_MAX, ENTITY_BYTES_MAX};

/// Rows and indexes that are counted.
const NAMES_MAX: usize = 64;
/// Three quarters of the limit of a size is near it; of the number of properties, 230 of 252.
const NEAR_PROPERTIES: usize = CUSTOM_PROPERTIES_MAX - 22;
const NEAR_LIST_PERCENT: u8 = 75;
/// Bytes of an entity that is dear to replace.
const LARGE_BYTES: usize = 4 * 1024;

#[derive(Debug)]
pub(super) struct Writes {
    rows: Top<Row>,
    indexes: Top<Index>,
    /// The hour of the last query by time.
    queried_by_time: Option<u64>,
    deletions: Within,
    replaces: u64,
    of_one_property: u64,
}

/// Conditional writes of a row in a minute.
#[derive(Debug, Default)]
struct Row {
    writes: Within,
    conflicts: Within,
}

#[derive(Debug, Default)]
struct Index {
    first_write: Option<u64>,
    writes: u64,
    reads: u64,
}

impl Default for Writes {
    fn default() -> Self {
        Self {
            rows: Top::new(NAMES_MAX),
            indexes: Top::new(NAMES_MAX),
            queried_by_time: None,
            deletions: Within::default(),
            replaces: 0,
            of_one_property: 0,
        }
    }
}

impl Writes {
    pub(super) fn observe(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        self.index(sample, thresholds, findings);
        if let Some(query) = &sample.query
            && query.is_on_time
        {
            self.queried_by_time = Some(sample.second() / 3600);
        }
        if !sample.verb.is_write() {
            return;
        }
        self.conflict(sample, thresholds, findings);
        self.deletion(sample, thresholds, findings);
        self.replace(sample, thresholds, findings);
        if let Some(size) = &sample.size {
            near_limits(sample, size, findings);
        }
    }

    /// ADV-9.
    fn conflict(&mut self, sample: &Sample<'_>, thresholds: &Thresholds, findings: &mut Findings) {
        let (true, Some(partition), Some(row)) =
            (sample.is_conditional, sample.partition, sample.row)
        else {
            return;
        };
        let minute = sample.second() / 60;
        let name = format!("({partition}, {row})");
        let Some(state) = self.rows.count(&name) else { return };
        let writes = state.writes.add(minute);
        if sample.status != 412 {
            return;
        }
        let conflicts = state.conflicts.add(minute);
        let is_many = conflicts >= thresholds.conflicts
            && is_share(u64::from(conflicts), u64::from(writes), thresholds.conflict_percent);
        if is_many {
            findings.report(Code::Conflicts, sample, &name, || {
                format!("{conflicts} of {writes} conditional writes in a minute failed")
            });
        }
    }

    /// ADV-12.
    fn index(&mut self, sample: &Sample<'_>, thresholds: &Thresholds, findings: &mut Findings) {
        let Some(name) = sample.index else { return };
        let Some(index) = self.indexes.count(name) else { return };
        if !sample.verb.is_write() {
            index.reads += 1;
            return;
        }
        index.writes += 1;
        let now = sample.second();
        let since = now.saturating_sub(*index.first_write.get_or_insert(now));
        let days = since / (24 * 3600);
        if index.reads == 0 && days >= thresholds.index_days {
            let writes = index.writes;
            findings.report(Code::UnreadIndex, sample, name, || {
                format!("{writes} writes and no read in {days} days")
            });
        }
    }

    /// ADV-14.
    fn deletion(&mut self, sample: &Sample<'_>, thresholds: &Thresholds, findings: &mut Findings) {
        let hour = sample.second() / 3600;
        let is_by_age = self.queried_by_time.is_some_and(|queried| queried + 1 >= hour);
        if sample.verb != Verb::Delete || !sample.is_ok() || !is_by_age {
            return;
        }
        let deletions = self.deletions.add(hour);
        if deletions >= thresholds.deletions {
            findings.report(Code::DeletesByAge, sample, "", || {
                format!("{deletions} deletions in an hour, after a query by time")
            });
        }
    }

    /// ADV-18.
    fn replace(&mut self, sample: &Sample<'_>, thresholds: &Thresholds, findings: &mut Findings) {
        let is_large = sample.size.is_some_and(|size| size.entity_bytes >= LARGE_BYTES);
        let (Verb::Replace, Some(changed), true) =
            (sample.verb, sample.changed_properties, is_large)
        else {
            return;
        };
        self.replaces += 1;
        self.of_one_property += u64::from(changed <= 1);
        let (replaces, of_one) = (self.replaces, self.of_one_property);
        if replaces >= thresholds.habit && is_share(of_one, replaces, 80) {
            findings.report(Code::ReplaceForOne, sample, "", || {
                format!(
                    "{of_one} of {replaces} replacements of large entities changed one property"
                )
            });
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes() + self.indexes.bytes()
    }
}

/// ADV-21.
fn near_limits(sample: &Sample<'_>, size: &SizeFacts, findings: &mut Findings) {
    let near = |limit: usize| limit / 4 * 3;
    let mut report = |subject: &str, evidence: String| {
        findings.report(Code::NearLimits, sample, subject, || evidence);
    };
    if size.entity_bytes >= near(ENTITY_BYTES_MAX) {
        report("the entity", format!("an entity of {} bytes", size.entity_bytes));
    }
    if size.property_bytes >= near(BINARY_BYTES_MAX) {
        report("the property", format!("a property of {} bytes", size.property_bytes));
    }
    if size.properties >= NEAR_PROPERTIES {
        report("some properties", format!("an entity of {} properties", size.properties));
    }
    if size.list_percent >= NEAR_LIST_PERCENT {
        report("the list", format!("a list that is {} % full", size.list_percent));
    }
}
