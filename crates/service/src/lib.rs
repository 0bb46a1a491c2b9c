//! What the services share below HTTP: commits with retries, ids that are never reused, service
//! properties, and reclaiming the space of dropped data.

mod error;
mod ids;
mod properties;
mod reclaim;
mod scan;
mod store;

pub use error::StoreError;
pub use scan::{Rows, Visitor, key_range, step};
pub use store::Store;
