//! Every stored key and value, versioned: a change here is a change of the format.
//!
//! `docs/format.md` describes each of them byte by byte, and a test keeps code and document in
//! agreement. Keys preserve order and their format never changes; values start with a version byte.
//! This crate uses the types of the model and knows nothing about engines.

pub mod cluster;
pub mod entity;
pub mod feed;
pub mod key;
pub mod queue;
pub mod settings;
pub mod table;

mod codec;
#[cfg(test)]
mod format_test;

pub use entity::EntityRecord;
pub use key::TableId;
pub use key::feed::FeedId;
pub use key::index::IndexId;
pub use key::queue::{Generation, Position, QueueId};

/// Stored bytes that no version of this code has written: an operator must investigate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored {0} is corrupt")]
pub struct CorruptRecord(pub &'static str);
