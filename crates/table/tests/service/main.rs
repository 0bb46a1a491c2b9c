//! The table service on the memory engine, promise by promise.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]

mod batches;
mod copies;
mod expiry;
mod feeds;
mod fetches;
mod fixture;
mod hints;
mod indexes;
mod mutations;
mod queries;
mod races;
mod tables;
