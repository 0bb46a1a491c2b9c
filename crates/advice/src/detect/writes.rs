//! Writes: ADV-9, 12, 14, 18, 21.

use super::Sizes;
use crate::sample::FINGERPRINT_PLACES;
use crate::sketch::{Top, Within, is_share};
use crate::stored::{Stored, stored};
use crate::{Code, Findings, Fingerprint, Sample, SizeFacts, Thresholds, Verb};
use lazuli_model::key_text::fnv1a;
use lazuli_model::limits::{BINARY_BYTES_MAX, CUSTOM_PROPERTIES_MAX, ENTITY_BYTES_MAX};

/// Indexes that are counted: a table cannot have more.
const INDEXES_MAX: usize = 16;
/// Large rows whose versions are compared, and seconds after which one may be replaced by another.
const COMPARED_MAX: usize = 16;
const COMPARED_SECONDS: u64 = 60;
const SECONDS_PER_DAY: u64 = 24 * 3600;
/// Three quarters of a size limit is near it; for the number of properties it is 230 of 252.
const NEAR_PROPERTIES: usize = CUSTOM_PROPERTIES_MAX - 22;
const NEAR_LIST_PERCENT: u8 = 75;
/// Entities of this size are expensive to replace.
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
    compared: Vec<Compared>,
    totals: Totals,
}

/// Totals of the writes to a table since it has been watched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) writes: u64,
    pub(crate) batched: u64,
    pub(crate) deletes: u64,
    /// Writes refused with 409, and those refused with 412.
    pub(crate) exists: u64,
    pub(crate) changed: u64,
    /// Entities of known size, with the sums and maxima of their sizes.
    pub(crate) sized: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) properties: u64,
    pub(crate) properties_max: u64,
}

stored!(Totals {
    writes,
    batched,
    deletes,
    exists,
    changed,
    sized,
    bytes,
    bytes_max,
    properties,
    properties_max,
});

impl Totals {
    fn add(&mut self, sample: &Sample<'_>) {
        self.writes += 1;
        self.batched += u64::from(sample.is_batched);
        self.deletes += u64::from(sample.verb == Verb::Delete && sample.is_ok());
        self.exists += u64::from(sample.status == 409);
        self.changed += u64::from(sample.status == 412);
        let Some(size) = &sample.size else { return };
        let (bytes, properties) = (size.entity_bytes as u64, size.properties as u64);
        self.sized += 1;
        self.bytes += bytes;
        self.bytes_max = self.bytes_max.max(bytes);
        self.properties += properties;
        self.properties_max = self.properties_max.max(properties);
    }
}

/// A large row, and its last content.
#[derive(Debug)]
struct Compared {
    row: u64,
    second: u64,
    fingerprint: Box<Fingerprint>,
}

/// Conditional writes of a row in a minute.
#[derive(Debug, Default)]
struct Row {
    writes: Within,
    conflicts: Within,
}

stored!(Row { writes, conflicts });

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The first write that was not followed by a read.
    first_write: Option<u64>,
    writes: u64,
    pub(crate) last_read: Option<u64>,
}

stored!(Index { first_write, writes, last_read });

impl Writes {
    pub(super) fn new(sizes: &Sizes) -> Self {
        Self {
            rows: Top::new(sizes.rows),
            indexes: Top::new(INDEXES_MAX),
            queried_by_time: None,
            deletions: Within::default(),
            replaces: 0,
            of_one_property: 0,
            compared: Vec::new(),
            totals: Totals::default(),
        }
    }

    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// The second in which an index was last read.
    pub(super) fn last_read_of_index(&self, name: &str) -> Option<u64> {
        self.indexes.get(name)?.last_read
    }

    /// Versions of large rows are not stored: they say nothing about values, but take many bytes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.rows.write(out);
        self.indexes.write(out);
        self.queried_by_time.write(out);
        self.deletions.write(out);
        self.replaces.write(out);
        self.of_one_property.write(out);
        self.totals.write(out);
    }

    pub(super) fn read(&mut self, from: &mut &[u8]) -> Option<()> {
        self.rows.read(from)?;
        self.indexes.read(from)?;
        self.queried_by_time = Stored::read(from)?;
        self.deletions = Stored::read(from)?;
        self.replaces = Stored::read(from)?;
        self.of_one_property = Stored::read(from)?;
        self.totals = Stored::read(from)?;
        Some(())
    }

    pub(super) fn observe(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        if let Some(name) = sample.index {
            self.index(name, sample, thresholds, findings);
        }
        if let Some(query) = &sample.query
            && query.is_on_time
        {
            self.queried_by_time = Some(sample.second() / 3600);
        }
        if !sample.verb.is_write() {
            return;
        }
        self.totals.add(sample);
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

    /// ADV-12: a read of an index, or a write that updates it.
    pub(super) fn index(
        &mut self,
        name: &str,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let Some(index) = self.indexes.count(name) else { return };
        let now = sample.second();
        if !sample.verb.is_write() {
            *index = Index { last_read: Some(now), ..Index::default() };
            return;
        }
        index.writes += 1;
        let days = now.saturating_sub(*index.first_write.get_or_insert(now)) / SECONDS_PER_DAY;
        if days >= thresholds.index_days {
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
        let changed = match sample.fingerprint {
            Some(fingerprint) if sample.is_ok() => self.compare(sample, fingerprint),
            _ => sample.changed_properties,
        };
        let (true, Some(changed), true) =
            (matches!(sample.verb, Verb::Replace | Verb::Upsert), changed, is_large)
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

    /// How many properties a write changed, if the previous version is known. A compared row keeps its place as long
    /// as it is written every minute.
    fn compare(&mut self, sample: &Sample<'_>, fingerprint: &Fingerprint) -> Option<u32> {
        let (partition, row) = (sample.partition?, sample.row?);
        let row = fnv1a(row.as_bytes()) ^ fnv1a(partition.as_bytes()).rotate_left(1);
        let second = sample.second();
        if let Some(known) = self.compared.iter_mut().find(|known| known.row == row) {
            let pairs = known.fingerprint.iter().zip(fingerprint);
            let changed = pairs.filter(|(old, new)| old != new).count() as u32;
            (*known.fingerprint, known.second) = (*fingerprint, second);
            return Some(changed);
        }
        let new = Compared { row, second, fingerprint: Box::new(*fingerprint) };
        if self.compared.len() < COMPARED_MAX {
            self.compared.push(new);
        } else if let Some(oldest) = self.compared.iter_mut().min_by_key(|known| known.second)
            && oldest.second + COMPARED_SECONDS < second
        {
            *oldest = new;
        }
        None
    }

    pub(super) fn bytes(&self) -> usize {
        let compared = size_of::<Compared>() + FINGERPRINT_PLACES * size_of::<u32>();
        self.rows.bytes() + self.indexes.bytes() + self.compared.capacity() * compared
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
