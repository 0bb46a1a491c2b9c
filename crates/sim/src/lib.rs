//! Concurrent histories and simulated faults, checked against a model of the service.
//!
//! - [`history`] holds requests and responses, [`model`] says how a table should respond, and
//!   [`checker`] decides whether the model explains the history.
//! - [`queue`] is the same for a queue and its messages.
//! - [`workload`] is what clients do; [`record`] runs it over HTTP on a running server, and
//!   [`simulation`] on the service itself or on the whole HTTP front, on one thread, with faults and
//!   its own clock, where one seed reproduces a run exactly.

pub mod checker;
pub mod gateways;
pub mod history;
mod http;
pub mod model;
pub mod queue;
pub mod record;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod workload;
