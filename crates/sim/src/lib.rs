//! Concurrent histories and simulated faults, checked against a model of the service.
//!
//! - [`history`] says what clients asked and were told, [`model`] what a table ought to answer, and
//!   [`checker`] whether the one can be explained by the other.
//! - [`workload`] has what clients do; [`record`] lets them do it over HTTP on a running server, and
//!   [`simulation`] on the service itself, on one thread, with faults and a clock of its own, where
//!   one number repeats a run to the last step.

pub mod checker;
pub mod history;
mod http;
pub mod model;
pub mod record;
pub mod simulation;
pub mod workload;
