//! The table service on the memory engine, promise by promise.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]

mod batches;
mod fixture;
mod hints;
mod mutations;
mod queries;
mod races;
mod tables;
