//! Scans ranges of a view in bounded steps, and yields between them.

use crate::error::TableError;
use lazuli_engine::retry::give_way;
use lazuli_engine::{Direction, KeyRange, Revision, ScanEnd, View, Visit};
use lazuli_layout::CorruptRecord;
use lazuli_model::limits::QUERY_EXECUTION_MS_MAX;
use lazuli_model::{Clock, Timestamp};
use lazuli_service::{Rows, step};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Entries that a scan expects to visit when a filter rejects some.
pub(crate) const FILTERED_ROWS_EXPECTED: usize = 256;

/// Entries that a page of `top` still examines, including the one that does not fit.
pub(crate) fn rows_missing(top: u64, returned: u64) -> usize {
    usize::try_from(top.saturating_sub(returned)).map_or(usize::MAX, |rows| rows.saturating_add(1))
}

/// A tick is 100 ns.
const TICKS_PER_MICRO: u64 = 10;

/// Ends a page when its time is up.
pub(crate) struct Timer<'c> {
    clock: &'c dyn Clock,
    started: Timestamp,
    ms_max: u64,
    is_over: bool,
}

impl<'c> Timer<'c> {
    pub(crate) fn start(clock: &'c dyn Clock) -> Self {
        Self::of_ms(clock, QUERY_EXECUTION_MS_MAX)
    }

    /// The same, over after this many milliseconds.
    pub(crate) fn of_ms(clock: &'c dyn Clock, ms_max: u64) -> Self {
        Self { clock, started: clock.now(), ms_max, is_over: false }
    }

    /// Whether the time was up when the clock was last read. At first it is not, so that every page
    /// makes progress.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) fn elapsed_micros(&self) -> u64 {
        self.clock.now().ticks().saturating_sub(self.started.ticks()) / TICKS_PER_MICRO
    }

    pub(crate) fn look(&mut self) {
        let elapsed_ms = self.clock.now().millis_since(self.started);
        self.is_over = elapsed_ms >= self.ms_max;
    }
}

/// Runs both; the first is polled first.
pub(crate) async fn join<A, B>(
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> (A, B) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut one, mut other) = (None, None);
    poll_fn(|context| {
        if one.is_none()
            && let Poll::Ready(done) = first.as_mut().poll(context)
        {
            one = Some(done);
        }
        if other.is_none()
            && let Poll::Ready(done) = second.as_mut().poll(context)
        {
            other = Some(done);
        }
        match (one.take(), other.take()) {
            (Some(one), Some(other)) => Poll::Ready((one, other)),
            waiting => {
                (one, other) = waiting;
                Poll::Pending
            }
        }
    })
    .await
}

/// Collects the results of a query.
pub(crate) trait Gather: Send {
    /// Takes one stored entry, or stops before it.
    fn take(
        &mut self,
        key: &[u8],
        value: &[u8],
        revision: Revision,
    ) -> Result<Visit, CorruptRecord>;

    /// How many more entries it will probably visit, including the one it stops before.
    fn rows_expected(&self) -> usize;

    /// Called between two steps, to read the clock.
    fn pause(&mut self);
}

/// Passes the entries of `ranges` to `gather` until there are no more or it stops.
pub(crate) async fn walk(
    view: &dyn View,
    ranges: Vec<KeyRange>,
    gather: &mut impl Gather,
) -> Result<(), TableError> {
    walk_toward(view, ranges, Direction::Forward, gather).await
}

/// The same in either direction; `ranges` are sorted in that direction.
pub(crate) async fn walk_toward(
    view: &dyn View,
    ranges: Vec<KeyRange>,
    direction: Direction,
    gather: &mut impl Gather,
) -> Result<(), TableError> {
    let mut ranges = ranges.into_iter();
    let mut next = ranges.next();
    while let Some(range) = next {
        let rows_expected = gather.rows_expected();
        let mut visit = |key: &[u8], value: &[u8], at: Revision| gather.take(key, value, at);
        let rows = Rows::expecting(rows_expected).toward(direction);
        next = match step(view, range, rows, &mut visit).await? {
            ScanEnd::Done => ranges.next(),
            ScanEnd::More(rest) => Some(rest),
            ScanEnd::Stopped => None,
        };
        if next.is_some() {
            gather.pause();
            give_way().await;
        }
    }
    Ok(())
}
