//! Indexes in other partitions, maintained by a protocol (P-2).
//!
//! No transaction spans partitions. A write leaves a note in a queue, claims unique values, writes the entity,
//! updates its copies, and deletes the note. A client that crashes halfway leaves the note, and a worker does the
//! rest.

pub(crate) mod check;
mod commit;
pub(crate) mod note;
pub(crate) mod protocol;
pub(crate) mod service;
pub(crate) mod store;
mod table;
mod verbs;

pub use check::CopyFinding;
pub use table::{Eventual, EventualTable, EventualWorker, EventualWritten};

#[cfg(test)]
mod model;
