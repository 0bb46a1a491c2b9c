//! What the services share below HTTP: commits with retries, ids that are never reused, service
//! properties, reclaiming the space of dropped data, what gateways of a shared store leave for
//! each other, and copying from one engine to another.

mod error;
mod gateways;
mod ids;
mod lease;
mod properties;
mod reclaim;
mod scan;
mod store;
pub mod transfer;

pub use error::StoreError;
pub use gateways::Gateway;
pub use lease::{ChoreLease, Turn};
pub use reclaim::SettledMark;
pub use scan::{Rows, Visitor, key_range, step};
pub use store::Store;
