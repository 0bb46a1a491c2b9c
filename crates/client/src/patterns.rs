//! The patterns of the table design guide, each with a crash test. See `docs/patterns/`.

pub mod advisor;
pub mod counter;
pub mod eventual;
mod finding;
pub mod job;
pub mod jobs;
pub mod lease;
pub mod log_tail;
pub mod once;
pub mod partitioned;
pub mod sequence;
pub mod stream;
mod verify;
pub mod view;

pub use finding::{Finding, FindingKind};
pub use verify::{Findings, Repair, Verify};

/// Bookkeeping properties (P-0.2).
pub(crate) mod property {
    /// Ticks of the Timestamp of what a row was made from.
    pub(crate) const SOURCE: &str = "_src";
    /// The state of a row whose write is not finished.
    pub(crate) const STATE: &str = "_st";
}
