//! What the services share below HTTP, and neither of them owns: committing with retries, ids that
//! are never given twice, the properties of a service, and the space of what was dropped.

mod error;
mod ids;
mod properties;
mod reclaim;
mod scan;
mod store;

pub use error::StoreError;
pub use scan::{Rows, Visitor, key_range, step};
pub use store::Store;
