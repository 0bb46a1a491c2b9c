//! The operator's view of the real binary: metrics, access lines, the lines of start and stop.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access_log;
mod harness;
mod lifecycle;
mod metrics;
mod secrets;
