//! The patterns of the table design guide, each with a crash test. See `docs/patterns/`.

pub mod advisor;
pub mod blob_log;
pub mod counter;
pub mod eventual;
mod finding;
pub mod job;
pub mod jobs;
pub mod large;
pub mod lease;
pub mod lists;
pub mod log_tail;
mod maintenance;
mod notes;
pub mod once;
#[cfg(test)]
mod orders;
pub mod partitioned;
pub mod periodic;
pub mod relations;
#[cfg(test)]
mod schedule;
mod search;
pub mod sequence;
pub mod series;
pub mod spread;
pub mod stream;
pub mod summary;
pub(crate) mod upkeep;
mod verify;
pub mod view;
pub mod wide;

pub use crate::index::IndexLayout;
pub use finding::{Finding, FindingKind};
pub use maintenance::{IndexMaintenance, IndexPage, IndexPages, IndexToken};
pub use search::{SearchPage, SearchToken};
pub use verify::{Findings, Repair, Verify};

use lazuli_model::Timestamp;
use std::time::Duration;

/// A duration in ticks of 100 ns.
fn ticks(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos() / 100).unwrap_or(u64::MAX)
}

/// The time that is `duration` after `time`, to the tick; at most the last one that there is.
fn after(time: Timestamp, duration: Duration) -> Timestamp {
    let ticks = time.ticks().saturating_add(ticks(duration));
    Timestamp::from_ticks(ticks).unwrap_or(Timestamp::MAX)
}

/// Bookkeeping properties (P-0.2).
pub(crate) mod property {
    /// The Timestamp, in ticks, of the row that a row was made from.
    pub(crate) const SOURCE: &str = "_src";
    /// The state of a row whose write is not finished.
    pub(crate) const STATE: &str = "_st";
    /// The key of another row.
    pub(crate) const PRIMARY_PARTITION: &str = "_pk";
    pub(crate) const PRIMARY_ROW: &str = "_rk";
    /// A random number shared by rows that belong together.
    pub(crate) const GENERATION: &str = "_gen";
}
