//! The server seen from outside: bytes over a socket in, bytes out, all of them asserted.
//!
//! `traps` has a test for each behaviour that emulators get wrong, `vectors` one for each
//! conformance vector, `rules` covers the rest of the specification, `golden` replays recorded traffic of
//! the live service, and `portability` tests the lenient profile. `queues` does the same for the Queue
//! service.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod compat;
mod extensions;
mod golden;
mod harness;
mod portability;
mod queues;
mod rules;
mod traps;
mod vectors;
