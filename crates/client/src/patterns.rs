//! The patterns of the table design guide, each with a crash test. See `docs/patterns/`.

pub mod counter;
pub mod job;
pub mod lease;
pub mod once;
pub mod partitioned;
pub mod sequence;
pub mod stream;
pub mod view;
