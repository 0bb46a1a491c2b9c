//! Secondary indexes: copies of an entity under other keys, written with it (P-1).
//!
//! An index is declared on the type. Every write of [`Table`](crate::Table) then updates the copies in the same
//! transaction as the entity.

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
pub(crate) use write::{Indexing, blind, may_be_indexed, operation, send};

/// An index of a type.
///
/// What a type declares can be read, for tools and tests:
///
/// ```
/// use lazuli_client::prelude::*;
/// use lazuli_client::{IndexProjection, TypeLayout};
///
/// #[derive(TableEntity, Clone)]
/// #[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// #[index(email, row = "email_{email}", unique)]
/// #[index(age, partition = "age_{age:03}", row = "{department}_{id:06}", keys)]
/// struct Employee { department: String, id: u32, email: String, age: u32 }
///
/// let [email, age] = Employee::INDEXES else { panic!() };
/// assert!(email.is_unique && email.is_local());
/// assert_eq!((age.partition, age.projection), (Some("age_{age:03}"), IndexProjection::Keys));
/// assert_eq!(Employee::COST.bytes_factor(), 2);
/// let layout = TypeLayout::of::<Employee>().in_table("Staff");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexDef {
    /// The name of the index.
    pub name: &'static str,
    /// The value of `_ix` in its copies: the kind of the type and the name (P-0.2).
    pub mark: &'static str,
    /// Whether each value belongs to at most one entity.
    pub is_unique: bool,
    /// The template of the copies' partition keys; `None` if they are in the entity's partition (P-1).
    pub partition: Option<&'static str>,
    /// The table of the copies; `None` if it is the entity's own.
    pub table: Option<&'static str>,
    /// The template of the copies' row keys.
    pub row: &'static str,
    /// The prefix of the copies' row keys.
    pub row_prefix: &'static str,
    /// The fields of its keys.
    pub fields: &'static [&'static str],
    /// What its copies contain.
    pub projection: IndexProjection,
}

/// What the copies of an index contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexProjection {
    /// The whole entity: a lookup takes one read.
    All,
    /// These fields, and those of the index.
    Fields(&'static [&'static str]),
    /// Only the key of the entity.
    Keys,
}

impl IndexDef {
    /// An index whose copies are in the entity's partition and contain the whole entity.
    #[doc(hidden)]
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

    /// Makes values unique: each belongs to at most one entity.
    #[doc(hidden)]
    #[must_use]
    pub const fn unique(self) -> Self {
        Self { is_unique: true, ..self }
    }

    /// Puts the copies into other partitions, and optionally into another table (P-2).
    #[doc(hidden)]
    #[must_use]
    pub const fn elsewhere(self, partition: &'static str, table: Option<&'static str>) -> Self {
        Self { partition: Some(partition), table, ..self }
    }

    /// Sets what the copies contain.
    #[doc(hidden)]
    #[must_use]
    pub const fn projecting(self, projection: IndexProjection) -> Self {
        Self { projection, ..self }
    }

    /// Whether one transaction writes the entity and its copy (P-1).
    pub const fn is_local(&self) -> bool {
        self.partition.is_none() && self.table.is_none()
    }
}

/// Checks the prefix rule within a type (P-0.4): the row keys of a type and of its indexes in one partition begin
/// with literals, none of which is a prefix of another.
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
