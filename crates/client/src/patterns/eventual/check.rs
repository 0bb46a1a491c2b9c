//! Inconsistencies of copies in other partitions (P-0.5, P-2).

use crate::patterns::FindingKind;
use lazuli_model::EntityKey;
use std::fmt;

/// An index copy that is inconsistent with its entity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyFinding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The index: the kind of the type, a slash, and the name.
    pub index: String,
    /// The table of the copy.
    pub table: String,
    /// The key of the copy.
    pub row: EntityKey,
    /// The key of the entity.
    pub primary: EntityKey,
}

impl fmt::Display for CopyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, index, table, row, primary } = self;
        let (partition, row) = (&row.partition, &row.row);
        write!(f, "{kind:?} {index} {table} ({partition}, {row}) of ")?;
        write!(f, "({}, {})", primary.partition, primary.row)
    }
}
