//! Secondary indexes: copies of an entity under other keys, written with it (P-1).
//!
//! An index is declared on the type. Every write verb of [`Table`](crate::Table) then keeps the copies, in
//! the one transaction that writes the entity itself.

mod copies;
mod cost;
#[cfg(feature = "patterns")]
mod declared;
mod lookup;
#[cfg(feature = "patterns")]
mod template;
mod write;

pub(crate) use copies::{CopyMark, CopyRow, changes, copies, fold, in_partition, violation};
#[cfg(feature = "patterns")]
pub(crate) use copies::{MOVING, is_moving};
pub use cost::{Cost, Costs};
#[cfg(feature = "patterns")]
pub(crate) use declared::DeclaredCopy;
#[cfg(feature = "patterns")]
pub use declared::IndexLayout;
#[cfg(feature = "patterns")]
pub(crate) use lookup::read as read_copy;
pub use lookup::{GetBy, Index, IndexKey, IndexQuery, Indexed};
#[cfg(feature = "patterns")]
pub(crate) use write::as_lone;
pub(crate) use write::{Indexing, blind, operation, send};

/// An index of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexDef {
    /// The name of the index.
    pub name: &'static str,
    /// What its copies carry in `_ix`: the kind of the type and the name (P-0.2).
    pub mark: &'static str,
    /// Whether a value has at most one holder.
    pub is_unique: bool,
    /// The template of the copies' partition keys; `None` if they lie beside the entity (P-1).
    pub partition: Option<&'static str>,
    /// The table of the copies; `None` if it is the entity's own.
    pub table: Option<&'static str>,
    /// The template of the copies' row keys.
    pub row: &'static str,
    /// What the copies' row keys begin with.
    pub row_prefix: &'static str,
    /// The fields of its keys.
    pub fields: &'static [&'static str],
    /// What its copies hold.
    pub projection: IndexProjection,
}

/// What the copies of an index hold of the entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexProjection {
    /// All of it: one read finds everything.
    All,
    /// These fields, and those of the index itself.
    Fields(&'static [&'static str]),
    /// The key of the entity alone.
    Keys,
}

impl IndexDef {
    /// An index whose copies lie beside the entity and hold all of it.
    pub const fn new(
        name: &'static str,
        mark: &'static str,
        row: &'static str,
        row_prefix: &'static str,
        fields: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            mark,
            is_unique: false,
            partition: None,
            table: None,
            row,
            row_prefix,
            fields,
            projection: IndexProjection::All,
        }
    }

    /// At most one entity holds a value.
    #[must_use]
    pub const fn unique(self) -> Self {
        Self { is_unique: true, ..self }
    }

    /// The copies lie in other partitions, and perhaps in another table (P-2).
    #[must_use]
    pub const fn elsewhere(self, partition: &'static str, table: Option<&'static str>) -> Self {
        Self { partition: Some(partition), table, ..self }
    }

    /// The copies hold less.
    #[must_use]
    pub const fn projecting(self, projection: IndexProjection) -> Self {
        Self { projection, ..self }
    }

    /// Whether one transaction writes the entity and its copy (P-1).
    pub const fn is_local(&self) -> bool {
        self.partition.is_none() && self.table.is_none()
    }
}

/// Checks the prefix rule within a type (P-0.4): rows of a type and of its indexes in one partition begin with
/// literals none of which begins with another.
pub const fn check_prefixes(layout: &crate::Layout, indexes: &[IndexDef]) {
    let mut rest = indexes;
    while let [first, others @ ..] = rest {
        if first.is_local() {
            assert!(
                !first.row_prefix.is_empty(),
                "the row template of an index begins with a literal"
            );
            assert!(
                !layout.row_prefix.is_empty(),
                "the row template of a type with indexes begins with a literal"
            );
            assert!(
                is_apart(first.row_prefix, layout.row_prefix),
                "row keys of the type and of an index begin alike"
            );
            let mut others_left = others;
            while let [other, more @ ..] = others_left {
                assert!(
                    !other.is_local() || is_apart(first.row_prefix, other.row_prefix),
                    "row keys of two indexes begin alike"
                );
                others_left = more;
            }
        }
        rest = others;
    }
}

const fn is_apart(a: &str, b: &str) -> bool {
    !crate::layout::begins_with(a, b) && !crate::layout::begins_with(b, a)
}
