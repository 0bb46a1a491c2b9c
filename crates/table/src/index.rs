//! Secondary indexes of a table: how they are maintained, read and built.
//!
//! Entries of an index change in the commit of their entity, by a function that the engine runs
//! when it orders commits (`derive.rs`). A query reads entries instead of entities where that reads
//! less (`access.rs` decides, `read.rs` reads by `stream.rs` and `collect.rs`). Building goes through the table
//! in steps while writes continue (`build.rs`, `fill.rs`; `waits.rs` says when it may begin, `duplicate.rs` and
//! `trouble.rs` handle builds that meet duplicates or errors). `verify.rs` compares entries with entities.
//!
//! # Invariants
//!
//! - The entries of an index that is ready are exactly those of the entities. While it is being built, this
//!   holds for every entity before the builder's position.
//! - Writes learn of a new index before the builder reads its first entity: the catalog record,
//!   whose revision guards every write, holds the indexes. On a store with other writers, a write may finish
//!   under the old record for as long as a request lasts, so the builder waits.
//! - A query uses an index only if the record in its own snapshot says that it is ready.

pub(crate) mod access;
pub(crate) mod build;
pub(crate) mod collect;
pub(crate) mod derive;
mod duplicate;
pub(crate) mod fill;
pub(crate) mod meter;
pub(crate) mod read;
pub(crate) mod stream;
pub(crate) mod trouble;
pub(crate) mod verify;
pub(crate) mod waits;

use lazuli_model::IndexName;

/// A write that would give two entities the same unique values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Another entity has the same values in the unique index '{index}'")]
pub struct IndexConflict {
    pub index: IndexName,
    /// The stored key of the other entity, unless it is written by the same commit.
    pub(crate) owner: Option<Box<[u8]>>,
}

/// How a query used indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexUse {
    /// The names, in the order of the filter, without duplicates.
    pub names: Vec<IndexName>,
    pub access: IndexAccess,
    /// Entries read.
    pub entries: u64,
    /// Whether the server declared them all by itself.
    pub automatic: bool,
}

/// How entries are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexAccess {
    /// One value of one index.
    Eq,
    /// The entities that several values have in common.
    Intersect,
    /// The entities that have one of several values.
    Union,
    /// Ranges of values.
    Range,
}

impl IndexAccess {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Intersect => "intersect",
            Self::Union => "union",
            Self::Range => "range",
        }
    }
}
