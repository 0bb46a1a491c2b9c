//! What pages of queries have read so far, by table and kind of plan: the estimates of plans that
//! have not run. Bounded, and lost at a restart.

use crate::plan::PlanKind;
use lazuli_layout::TableId;
use lazuli_meter::Counter;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Kinds of plans that are remembered, for all tables together; one more, and all are forgotten.
const KINDS_MAX: usize = 4096;

/// What pages of one kind have read. Counted without a lock, so an estimate may miss part of a page
/// that is being counted.
#[derive(Debug, Default)]
struct Pages {
    pages: Counter,
    examined: Counter,
    returned: Counter,
}

impl Pages {
    fn add(&self, examined: u64, returned: u64) {
        self.pages.increment();
        self.examined.add(examined);
        self.returned.add(returned);
    }
}

/// What a page of a query is likely to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub examined: u64,
    pub returned: u64,
    /// The number of pages averaged; `None` if the plan names the keys.
    pub pages: Option<u64>,
}

impl Estimate {
    /// The estimate of a plan that names its keys.
    pub(crate) const fn of_keys(keys: u64) -> Self {
        Self { examined: keys, returned: keys, pages: None }
    }
}

/// Locked for writing only when the first page of a kind is read.
#[derive(Debug, Default)]
pub(crate) struct Statistics(RwLock<BTreeMap<(TableId, PlanKind), Pages>>);

impl Statistics {
    /// Notes a page that was read.
    pub(crate) fn note(&self, table: TableId, kind: PlanKind, examined: u64, returned: u64) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(pages) = known.get(&(table, kind)) {
            return pages.add(examined, returned);
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KINDS_MAX {
            known.clear();
        }
        known.entry((table, kind)).or_default().add(examined, returned);
    }

    /// The mean of the pages of this kind; `None` if there were none yet.
    pub(crate) fn estimate(&self, table: TableId, kind: PlanKind) -> Option<Estimate> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Pages { pages, examined, returned } = known.get(&(table, kind))?;
        let pages = pages.value();
        let mean = |sum: &Counter| sum.value().div_ceil(pages.max(1));
        Some(Estimate { examined: mean(examined), returned: mean(returned), pages: Some(pages) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_the_mean_of_pages_of_its_kind() {
        let statistics = Statistics::default();
        let (table, kind) = (TableId(1), PlanKind::Partition);
        assert_eq!(statistics.estimate(table, kind), None);
        statistics.note(table, kind, 100, 10);
        statistics.note(table, kind, 300, 0);
        statistics.note(table, PlanKind::Table, 9000, 1);
        let expect = Estimate { examined: 200, returned: 5, pages: Some(2) };
        assert_eq!(statistics.estimate(table, kind), Some(expect));
        assert_eq!(statistics.estimate(TableId(2), kind), None);
    }

    #[test]
    fn the_number_of_kinds_is_bounded() {
        let statistics = Statistics::default();
        for id in 0..3 * KINDS_MAX as u64 {
            statistics.note(TableId(id), PlanKind::Table, 1, 1);
        }
        assert!(statistics.0.read().unwrap().len() <= KINDS_MAX);
    }
}
