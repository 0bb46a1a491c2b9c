//! The log of slow and wasteful queries: shapes of filters, not their literals, and a bounded
//! number of lines.

use crate::http::request::RequestContext;
use lazuli_model::{Filter, TableName, Timestamp};
use lazuli_table::QueryEnd;
use lazuli_wire::odata::filter::{print, print_shape};
use std::sync::{Mutex, PoisonError};

/// Maximum lines per second; the next line says how many were left out.
const LINES_PER_SECOND: u32 = 10;

/// Maximum bytes of a filter in a line.
const FILTER_BYTES_MAX: usize = 1024;

/// Which queries are logged, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryLogOptions {
    /// Log pages that take at least this many milliseconds.
    pub slow_ms: Option<u32>,
    /// Log pages that examine at least this many entities per entity returned.
    pub waste_ratio: Option<u32>,
    /// Whether filters are logged with their literals.
    pub literals: bool,
}

/// Logs queries.
#[derive(Debug, Default)]
pub(crate) struct QueryLog {
    options: QueryLogOptions,
    pace: Mutex<Pace>,
}

/// The lines of the current second.
#[derive(Debug, Default)]
struct Pace {
    second: u64,
    lines: u32,
    left_out: u64,
}

impl QueryLog {
    pub(crate) fn new(options: QueryLogOptions) -> Self {
        Self { options, pace: Mutex::default() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.options.slow_ms.is_some() || self.options.waste_ratio.is_some()
    }

    /// Logs a page if it was slow or wasteful.
    pub(crate) fn note(
        &self,
        context: &RequestContext<'_>,
        table: &TableName,
        filter: Option<&Filter>,
        end: &QueryEnd,
    ) {
        let micros = end.report.as_ref().map_or(0, |report| report.micros);
        let Some(reason) = self.reason(micros, end) else { return };
        let Some(left_out) = self.admit(context.now) else { return };
        let text = match (filter, self.options.literals) {
            (None, _) => String::new(),
            (Some(filter), true) => print(filter),
            (Some(filter), false) => print_shape(filter),
        };
        let length = (0..=FILTER_BYTES_MAX.min(text.len())).rev();
        let cut = length.into_iter().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        tracing::warn!(
            request = context.id.as_str(),
            account = context.account.name.as_str(),
            table = table.as_str(),
            filter = text.get(..cut).unwrap_or_default(),
            plan = end.plan.name(),
            examined = end.rows_read,
            returned = end.rows_returned,
            us = micros,
            left_out,
            "{reason} query"
        );
    }

    fn reason(&self, micros: u64, end: &QueryEnd) -> Option<&'static str> {
        let QueryLogOptions { slow_ms, waste_ratio, .. } = self.options;
        if slow_ms.is_some_and(|ms| micros >= u64::from(ms) * 1000) {
            return Some("slow");
        }
        let limit = |ratio: u32| u64::from(ratio).saturating_mul(end.rows_returned.max(1));
        waste_ratio.filter(|ratio| end.rows_read >= limit(*ratio)).map(|_| "wasteful")
    }

    /// How many lines were left out before this one; `None` if this one is over the limit too.
    fn admit(&self, now: Timestamp) -> Option<u64> {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let second = now.unix_seconds();
        if pace.second != second {
            (pace.second, pace.lines) = (second, 0);
        }
        if pace.lines == LINES_PER_SECOND {
            pace.left_out += 1;
            return None;
        }
        pace.lines += 1;
        Some(std::mem::take(&mut pace.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_table::PlanKind;

    fn end(rows_read: u64, rows_returned: u64) -> QueryEnd {
        QueryEnd {
            next: None,
            plan: PlanKind::Table,
            index: None,
            rows_read,
            rows_returned,
            rows_skipped: 0,
            report: None,
        }
    }

    fn log(slow_ms: Option<u32>, waste_ratio: Option<u32>) -> QueryLog {
        QueryLog::new(QueryLogOptions { slow_ms, waste_ratio, literals: false })
    }

    ///
    #[test]
    fn slow_and_wasteful_pages_are_logged() {
        let both = log(Some(5), Some(10));
        assert_eq!(both.reason(4999, &end(9, 1)), None);
        assert_eq!(both.reason(5000, &end(9, 1)), Some("slow"));
        assert_eq!(both.reason(0, &end(10, 1)), Some("wasteful"));
        assert_eq!(both.reason(0, &end(10, 0)), Some("wasteful"));
        assert_eq!(both.reason(0, &end(19, 2)), None);
        assert!(!log(None, None).is_on());
        assert_eq!(log(Some(5), None).reason(0, &end(1_000_000, 0)), None);
    }

    #[test]
    fn lines_are_bounded_and_counted() {
        let log = log(Some(0), None);
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let admitted = (0..15).filter(|_| log.admit(now).is_some()).count();
        assert_eq!(admitted, LINES_PER_SECOND as usize);
        assert_eq!(log.admit(now.plus_seconds(1)), Some(5));
        assert_eq!(log.admit(now.plus_seconds(1)), Some(0));
    }
}
