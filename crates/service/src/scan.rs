//! Bounded steps of scans.

use crate::error::StoreError;
use lazuli_engine::{Direction, KeyRange, Revision, Scan, ScanEnd, View, Visit};
use lazuli_layout::CorruptRecord;
use std::ops::Range;

/// Maximum entries per step.
const STEP_ROWS_MAX: usize = 1024;
/// Maximum bytes per step.
const STEP_BYTES_MAX: usize = 1024 * 1024;

/// Receives the entries of a step; an error ends it.
pub type Visitor<'v> =
    dyn FnMut(&[u8], &[u8], Revision) -> Result<Visit, CorruptRecord> + Send + 'v;

/// How many entries a step shows.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    max: usize,
    expected: usize,
    direction: Direction,
}

impl Rows {
    /// At most this many, usually all of them.
    pub fn at_most(rows: usize) -> Self {
        let max = rows.clamp(1, STEP_ROWS_MAX);
        Self { max, expected: max, direction: Direction::Forward }
    }

    /// A full step, though the visitor will probably stop after this many.
    pub fn expecting(expected: usize) -> Self {
        Self { max: STEP_ROWS_MAX, expected, direction: Direction::Forward }
    }

    /// The same, from the end of the range.
    pub fn toward(self, direction: Direction) -> Self {
        Self { direction, ..self }
    }
}

/// A range of the layout, for an engine.
pub fn key_range(range: Range<Vec<u8>>) -> KeyRange {
    KeyRange::new(range.start, range.end)
}

/// Shows a bounded number of entries from the beginning of `range`, or from its end.
pub async fn step(
    view: &dyn View,
    range: KeyRange,
    rows: Rows,
    visit: &mut Visitor<'_>,
) -> Result<ScanEnd, StoreError> {
    let scan = Scan {
        range,
        direction: rows.direction,
        rows_max: rows.max,
        bytes_max: STEP_BYTES_MAX,
        rows_expected: rows.expected,
    };
    let mut corrupt = None;
    let mut visitor = |key: &[u8], value: &[u8], revision: Revision| {
        visit(key, value, revision).unwrap_or_else(|error| {
            corrupt = Some(error);
            Visit::StopBefore
        })
    };
    let end = view.scan(scan, &mut visitor).await?;
    match corrupt {
        Some(error) => Err(error.into()),
        None => Ok(end),
    }
}
