//! Every stored key and value, versioned: a change here is a change of the format.
//!
//! `docs/format.md` draws each of them to the byte, and a test holds code and document together.
//! Keys preserve order and never change their form; values open with a version byte. This crate
//! knows the words of the model and nothing of engines.

pub mod entity;
pub mod key;
pub mod queue;
pub mod table;

mod codec;
#[cfg(test)]
mod format_test;

pub use entity::EntityRecord;
pub use key::TableId;
pub use key::queue::{Generation, Position, QueueId};

/// Stored bytes that no version of this code has written: a person must look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored {0} is corrupt")]
pub struct CorruptRecord(pub &'static str);
