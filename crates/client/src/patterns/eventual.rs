//! Indexes in other partitions, kept by a protocol (P-2).
//!
//! No transaction spans partitions. A write leaves a note in a queue, claims unique values, writes the
//! entity, brings its copies after it, and deletes the note. Who dies on the way leaves the note, and a
//! worker does the rest.

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
