//! Concurrent clients of a whole server, over HTTP and the local engine: what they see must be what
//! some order of their requests explains, and a race has one winner.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod gateways;
mod histories;
mod races;
mod server;
