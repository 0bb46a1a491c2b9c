//! The operator's listener: `/healthz`, `/readyz` and `/metrics`, apart from the service ports.
//!
//! It has a thread and limits of its own, so that it answers while the services are saturated or
//! still starting ([`Admin`]). What it reports is handed in: [`Readiness`] is set by whoever knows
//! why requests would fail, [`Metrics`] asks every registered [`Source`](lazuli_meter::Source).
//!
//! A request passes `guard` (is the `Host` ours, is the page that sent it?), then `routes`.

mod exposition;
mod guard;
mod listen;
mod metrics;
mod process;
mod readiness;
mod routes;
mod token;

pub use listen::{Admin, AdminOptions};
pub use metrics::Metrics;
pub use process::ProcessMeter;
pub use readiness::{Readiness, Reason};
pub use token::Tokens;
