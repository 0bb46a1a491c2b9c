//! The table service: tables, entities, queries and entity group transactions.
//!
//! A typed interface: no HTTP, no JSON, no status. [`TableService`] turns each verb into one view
//! or one conditional commit of the engine; `lazuli-layout` defines the stored bytes.
//!
//! # Invariants
//!
//! - A catalog record is never rewritten while its table exists, and every commit that writes an
//!   entity has the revision of that record as its guard. So a write that races with the drop of
//!   its table either happens before the drop is acknowledged or finds the table gone; it is never
//!   acknowledged and lost.
//! - A query reads one view per page, including the catalog.
//! - Memory does not grow with the data: entities are passed to the caller one at a time, in place.

mod batch;
mod error;
mod known_tables;
mod list;
mod metrics;
mod mutate;
mod plan;
mod query;
mod scan;
mod service;
mod tables;

pub use batch::Batch;
pub use error::{BatchFailure, TableError};
pub use lazuli_engine::Reclaimed;
pub use lazuli_layout::EntityRecord;
pub use list::{TableInfo, TablesEnd, TablesQuery};
pub use metrics::MetricsRows;
pub use mutate::{Mutation, MutationKind};
pub use plan::PlanKind;
pub use query::{Continuation, EntityQuery, EntityRef, KeyBounds, QueryEnd, StoredEntity};
pub use service::TableService;
