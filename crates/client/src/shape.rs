//! What a type requires of every write of its values, and a union of those of each variant (C-6, C-9.5, C-15.2).

use crate::encryption::declares_secrets;
use crate::entity::{Entity, TableEntity};
use crate::error::Error;
use crate::index::IndexDef;
use crate::kind::Kind;
use crate::large::has_large;
use crate::layout::Layout;
use crate::property::PropertyDef;

/// The declarations of one type. A value of a union has the shape of its variant: encryption, indexes, lists and
/// blobs are determined from the value, so that no kind of write can miss them.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub(crate) name: fn() -> &'static str,
    pub(crate) table: Option<&'static str>,
    pub(crate) layout: Layout,
    pub(crate) properties: &'static [PropertyDef],
    pub(crate) kind: Option<Kind>,
    pub(crate) indexes: &'static [IndexDef],
    pub(crate) write_ids: usize,
    /// Rows of a wide entity; 0 if it is one row.
    pub(crate) parts: usize,
    pub(crate) is_dynamic: bool,
    pub(crate) has_secrets: bool,
    pub(crate) has_large: bool,
    pub(crate) has_lists: bool,
}

impl Shape {
    /// The shape of a type.
    pub const fn of<T: TableEntity>() -> Self {
        Self {
            name: std::any::type_name::<T>,
            table: T::TABLE,
            layout: T::LAYOUT,
            properties: T::PROPERTIES,
            kind: T::KIND,
            indexes: T::INDEXES,
            write_ids: T::WRITE_IDS,
            parts: T::PARTS,
            is_dynamic: T::IS_DYNAMIC,
            has_secrets: declares_secrets(T::PROPERTIES),
            has_large: has_large(T::PROPERTIES),
            has_lists: !T::LISTS.is_empty(),
        }
    }

    /// Whether a value takes more than one row.
    pub const fn is_wide(&self) -> bool {
        self.parts > 0
    }
}

/// Concatenates slices. `N` is the sum of their lengths.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
pub const fn concat<T: Copy, const N: usize>(parts: &[&[T]], filler: T) -> [T; N] {
    let mut all = [filler; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut item = 0;
        while item < parts[part].len() {
            all[at] = parts[part][item];
            (at, item) = (at + 1, item + 1);
        }
        part += 1;
    }
    all
}

const fn any_indexed(mut shapes: &[Shape]) -> bool {
    while let [first, rest @ ..] = shapes {
        if !first.indexes.is_empty() {
            return true;
        }
        shapes = rest;
    }
    false
}

const fn any_listed(mut shapes: &[Shape]) -> bool {
    while let [first, rest @ ..] = shapes {
        if first.has_lists {
            return true;
        }
        shapes = rest;
    }
    false
}

const fn any_versioned(mut shapes: &[Shape]) -> bool {
    while let [first, rest @ ..] = shapes {
        if let Some(kind) = first.kind
            && kind.version > 1
        {
            return true;
        }
        shapes = rest;
    }
    false
}

/// The indexes of a type; of a union those of all its types.
#[cfg(feature = "patterns")]
pub(crate) fn indexes_of<T: TableEntity>() -> impl Iterator<Item = &'static IndexDef> {
    T::SHAPES.iter().flat_map(|shape| shape.indexes)
}

/// Whether values of a type may have copies that an index keeps.
pub(crate) const fn is_indexed<T: TableEntity>() -> bool {
    any_indexed(T::SHAPES)
}

/// Whether there may be rows of older versions of a type.
pub(crate) const fn has_versions<T: TableEntity>() -> bool {
    any_versioned(T::SHAPES)
}

/// Whether values of a type may be in lists.
pub(crate) const fn is_listed<T: TableEntity>() -> bool {
    any_listed(T::SHAPES)
}

/// What the type of a table requires of writes of untyped entities (C-9.5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    is_indexed: bool,
    is_listed: bool,
    is_model: bool,
    /// The properties that its types declare, if some are secret.
    pub(crate) secrets: Option<&'static [PropertyDef]>,
}

impl Rule {
    pub(crate) const fn of<T: TableEntity>() -> Self {
        if T::IS_DYNAMIC {
            return Self { is_indexed: false, is_listed: false, is_model: false, secrets: None };
        }
        let secrets = if declares_secrets(T::PROPERTIES) { Some(T::PROPERTIES) } else { None };
        let (is_indexed, is_listed) = (is_indexed::<T>(), is_listed::<T>());
        Self { is_indexed, is_listed, is_model: T::IS_MODEL, secrets }
    }

    /// Fails if a write would leave counts as they are, whatever it writes.
    pub(crate) fn check_counts(self) -> Result<(), Error> {
        if self.is_model { Err(uncounted()) } else { Ok(()) }
    }

    /// Fails if a write of an untyped entity would leave copies or lists out of date: only a retyped table has
    /// such writes.
    pub(crate) fn check(self) -> Result<(), Error> {
        self.check_counts()?;
        if self.is_listed {
            return Err(unlisted());
        }
        if self.is_indexed {
            let error = Error::config("an entity of a type with indexes is written by a typed key");
            return Err(error.with(|context| {
                context.hint = Some("use the type's key(..), or table.retyped::<Entity>()".into());
            }));
        }
        Ok(())
    }
}

/// The error of a write that would leave what the types of a model keep of each other (P-5.2e).
pub(crate) fn uncounted() -> Error {
    let error = Error::config("the types of a model are written by a ModelTable");
    error.with(|context| {
        context.hint = Some("see Tables::model; table.retyped() writes past it".into());
    })
}

/// The error of a write that would leave lists as they are (C-9.5).
pub(crate) fn unlisted() -> Error {
    let error = Error::config("a type with lists is written by a ListTable");
    error.with(|context| context.hint = Some("see Account::lists".into()))
}

/// The declarations for the rows of a table.
#[derive(Clone, Copy)]
pub(crate) struct Declared {
    /// Those of all types that rows may have.
    pub(crate) all: &'static [PropertyDef],
    of_row: fn(&Entity) -> &'static [PropertyDef],
}

impl Declared {
    pub(crate) const fn by<T: TableEntity>() -> Self {
        Self { all: T::PROPERTIES, of_row: |entity| T::shape_of(entity).properties }
    }

    pub(crate) fn of(self, row: &Entity) -> &'static [PropertyDef] {
        (self.of_row)(row)
    }
}
