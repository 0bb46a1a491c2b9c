//! The Queue service seen from outside: recorded traffic of the live service, and the conformance
//! vectors.

mod golden;
mod harness;
mod vectors;
