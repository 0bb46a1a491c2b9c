//! The operator's listener: `/healthz`, `/readyz` and `/metrics`, separate from the service ports.
//!
//! It has its own thread and limits, so that it responds while the services are saturated or still
//! starting ([`Admin`]). Other components supply what it reports: they set [`Readiness`] when
//! requests would fail, and [`Metrics`] collects from every registered
//! [`Source`](lazuli_meter::Source).
//!
//! A request passes `guard` (which checks `Host` and origin), then `routes`.

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
