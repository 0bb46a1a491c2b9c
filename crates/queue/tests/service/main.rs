//! The queue service on the memory engine and on the local engine, as one process and as one of many.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]

mod chores;
mod engines;
mod faults;
mod fixture;
mod histories;
mod losses;
mod messages;
mod naive;
mod queues;
mod races;
mod tombstones;
