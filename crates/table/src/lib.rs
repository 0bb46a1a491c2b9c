//! The table service: tables, entities, queries and entity group transactions.
//!
//! Typed in, typed out: no HTTP, no JSON, no status. [`TableService`] turns each verb into one view
//! or one conditional commit of the engine; what the stored bytes look like is `lazuli-layout`'s
//! matter.
//!
//! # What must hold
//!
//! - A catalog record is never rewritten while its table lives, and every commit that writes an entity
//!   has the revision of that record as its guard. So a write that races the drop of its table either
//!   happens before the drop was acknowledged or finds the table gone; it is never acknowledged and
//!   lost.
//! - A query reads one view per page, catalog included.
//! - Nothing here grows with the data: entities are shown to the caller one at a time, where they
//!   lie.

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
