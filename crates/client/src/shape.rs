//! What a type asks of every write of its values, and a union for each of its variants (C-6, C-9.5, C-15.2).

use crate::encryption::declares_secrets;
use crate::entity::{Entity, TableEntity};
use crate::error::Error;
use crate::index::IndexDef;
use crate::kind::Kind;
use crate::large::has_large;
use crate::property::PropertyDef;

/// What one type declares. The values of a union have the shapes of their variants: what is encrypted, indexed,
/// listed or put into blobs is asked of the value, so that no way to write it can miss it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
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
    /// What a type declares.
    pub const fn of<T: TableEntity>() -> Self {
        Self {
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

    /// Whether a value is more rows than one.
    pub const fn is_wide(&self) -> bool {
        self.parts > 0
    }
}

/// What several slices hold, one after the other. `N` is the sum of their lengths.
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

/// Whether values of a type may have copies that an index keeps.
pub(crate) const fn is_indexed<T: TableEntity>() -> bool {
    any_indexed(T::SHAPES)
}

/// Whether values of a type may be in lists.
pub(crate) const fn is_listed<T: TableEntity>() -> bool {
    any_listed(T::SHAPES)
}

/// What the type of a table asks of entities of any shape that are written there (C-9.5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    is_indexed: bool,
    is_listed: bool,
    /// The properties that its types declare, if some are secret.
    pub(crate) secrets: Option<&'static [PropertyDef]>,
}

impl Rule {
    pub(crate) const fn of<T: TableEntity>() -> Self {
        if T::IS_DYNAMIC {
            return Self { is_indexed: false, is_listed: false, secrets: None };
        }
        let secrets = if declares_secrets(T::PROPERTIES) { Some(T::PROPERTIES) } else { None };
        Self { is_indexed: is_indexed::<T>(), is_listed: is_listed::<T>(), secrets }
    }

    /// Fails if a write of an entity of any shape would leave copies or lists as they are: only a table that is
    /// retyped has such writes.
    pub(crate) fn check(self) -> Result<(), Error> {
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

/// The error of a write that would leave lists as they are (C-9.5).
pub(crate) fn unlisted() -> Error {
    let error = Error::config("a type with lists is written by a ListTable");
    error.with(|context| context.hint = Some("see Account::lists".into()))
}

/// What the rows of a table declare: all of it, and that of one row.
#[derive(Clone, Copy)]
pub(crate) struct Declared {
    /// Of all types that rows may have.
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
