//! Statistics of a table.

use crate::Class;
use crate::detect::{Shape, TableWatch, Totals};
use lazuli_model::Timestamp;

/// The statistics of a table since it has been watched.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableSummary<'a> {
    /// Its name.
    pub table: &'a str,
    /// When traffic on it was first and last seen.
    pub since: Timestamp,
    /// See `since`.
    pub last: Timestamp,
    /// The number of reads by class.
    pub reads: Vec<(Class, u64)>,
    /// The most frequent filters, in descending order.
    pub shapes: Vec<ShapeSummary<'a>>,
    /// The busiest partitions with their requests, in descending order. The number of one that was added late may be
    /// too high, never too low.
    pub partitions: Vec<(&'a str, u64)>,
    /// Inserts, and those beyond the greatest key at the time.
    pub inserts: u64,
    /// See `inserts`.
    pub appends: u64,
    /// Writes of all kinds, and those in batches.
    pub writes: u64,
    /// See `writes`.
    pub batched: u64,
    /// Entities deleted.
    pub deletes: u64,
    /// Writes refused with 409, and those refused with 412.
    pub exists: u64,
    /// See `exists`.
    pub changed: u64,
    /// Size of written entities: the mean and the maximum.
    pub entity_bytes: (u64, u64),
    /// Their number of properties: the mean and the maximum.
    pub properties: (u64, u64),
}

/// Queries whose filters differ only in their literals; counted from zero after a day without one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ShapeSummary<'a> {
    /// The filter, with `?` for each literal.
    pub filter: &'a str,
    /// Queries, and those among them that read partitions or the table.
    pub queries: u64,
    /// See `queries`.
    pub scans: u64,
    /// Entities examined for them, and returned.
    pub examined: u64,
    /// See `examined`.
    pub returned: u64,
    /// A property that they compare with `eq`: an index on it would serve them.
    pub lookup: Option<&'a str>,
}

impl<'a> ShapeSummary<'a> {
    fn new((filter, shape): (&'a str, &'a Shape)) -> Self {
        let Shape { queries, scans, examined, returned, ref lookup, .. } = *shape;
        Self { filter, queries, scans, examined, returned, lookup: lookup.as_deref() }
    }
}

impl<'a> TableSummary<'a> {
    pub(crate) fn new(table: &'a str, watch: &'a TableWatch) -> Self {
        let mut shapes: Vec<_> = watch.shapes().map(ShapeSummary::new).collect();
        shapes.sort_by_key(|shape| std::cmp::Reverse(shape.queries));
        let mut partitions: Vec<_> = watch.busiest().collect();
        partitions.sort_by_key(|(_, requests)| std::cmp::Reverse(*requests));
        let (inserts, appends) = watch.growth();
        let totals: Totals = watch.totals();
        let mean = |sum: u64| sum / totals.sized.max(1);
        Self {
            table,
            since: Timestamp::from_unix_seconds(watch.since()),
            last: Timestamp::from_unix_seconds(watch.last()),
            reads: Class::ALL.iter().copied().zip(watch.by_class().iter().copied()).collect(),
            shapes,
            partitions,
            inserts,
            appends,
            writes: totals.writes,
            batched: totals.batched,
            deletes: totals.deletes,
            exists: totals.exists,
            changed: totals.changed,
            entity_bytes: (mean(totals.bytes), totals.bytes_max),
            properties: (mean(totals.properties), totals.properties_max),
        }
    }
}
