//! The table service: tables, entities, queries and entity group transactions.
//!
//! A typed interface: no HTTP, no JSON, no status. [`TableService`] turns each verb into one view
//! or one conditional commit of the engine; `lazuli-layout` defines the stored bytes.
//!
//! # Invariants
//!
//! - A catalog record is rewritten only when the settings of its table change, and every commit
//!   that writes an entity has the revision of that record as its guard. So a write that races with
//!   the drop of its table either happens before the drop is acknowledged or finds the table gone;
//!   it is never acknowledged and lost.
//! - A query reads one view per page, including the catalog.
//! - An expired entity does not exist for any read or condition, whether it is stored or not.
//! - Memory does not grow with the data: entities are passed to the caller one at a time, in place.

mod advice;
mod batch;
mod delete_where;
mod derive;
mod error;
mod expiry;
mod explain;
mod feed;
mod index;
mod known_tables;
mod list;
mod metrics;
mod mutate;
mod page;
mod plan;
mod query;
mod scan;
mod service;
mod settings;
mod snapshot;
mod statistics;
mod tables;
mod transaction;

pub use batch::Batch;
pub use delete_where::{DeleteWhere, Deleted};
pub use error::{BatchFailure, TableError};
pub use explain::{KeyInterval, PlanReport, ReadKeys};
pub use feed::{
    After, ChangeImage, ChangeListener, ChangesPage, EntityChange, FeedStatus, FeedToken,
    StoredChange,
};
pub use index::trouble::BuildTrouble;
pub use index::verify::{Disagreement, DisagreementKind, EXPIRY, FEED, VerifyPage, VerifyPlace};
pub use index::{IndexAccess, IndexConflict, IndexUse};
pub use lazuli_engine::Reclaimed;
pub use lazuli_layout::EntityRecord;
pub use lazuli_layout::TableId;
pub use lazuli_layout::settings::IndexState;
pub use list::{TableInfo, TablesEnd, TablesQuery};
pub use metrics::MetricsRows;
pub use mutate::{Mutation, MutationKind};
pub use plan::PlanKind;
pub use query::{Continuation, EntityQuery, EntityRef, KeyBounds, QueryEnd, StoredEntity};
pub use service::TableService;
pub use settings::IndexStatus;
pub use snapshot::{Snapshot, SnapshotLimits};
pub use statistics::Estimate;
pub use transaction::{Companion, CompanionCommit};
