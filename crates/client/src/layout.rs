//! A type's declarations about its keys.

use crate::entity::TableEntity;
use crate::error::Error;
use crate::shape::Shape;

/// The form of a type's keys, and whether other types may have keys among them (P-0.4, P-6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// The template of partition keys; empty if the type has hand-written keys.
    pub partition: &'static str,
    /// The template of row keys.
    pub row: &'static str,
    /// The common prefix of all row keys; may be empty.
    pub row_prefix: &'static str,
    /// How many fields of the row key must be fixed until no row of another type can lie between: zero if no other
    /// type has row keys with this prefix.
    pub own_after: usize,
    /// The number of row key fields.
    pub row_fields: usize,
}

impl Layout {
    /// Nothing is known about the keys.
    pub const UNKNOWN: Self =
        Self { partition: "", row: "", row_prefix: "", own_after: usize::MAX, row_fields: 0 };

    /// Keys of two templates. Rows of other types may lie among them if the row template starts with a field.
    pub const fn new(
        partition: &'static str,
        row: &'static str,
        row_prefix: &'static str,
        row_fields: usize,
    ) -> Self {
        let own_after = if row_prefix.is_empty() { usize::MAX } else { 0 };
        Self { partition, row, row_prefix, own_after, row_fields }
    }

    /// Other types may have keys that extend those of this type.
    #[doc(hidden)]
    #[must_use]
    pub const fn shared(self) -> Self {
        Self { own_after: usize::MAX, ..self }
    }

    /// Keys that extend those of `parent`. Checked at compile time (P-6.2).
    #[must_use]
    pub const fn child_of(self, parent: &Self) -> Self {
        assert!(
            begins_with(self.row, parent.row) && same(self.partition, parent.partition),
            "the key templates of a child begin with those of its parent"
        );
        assert!(parent.own_after == usize::MAX, "the parent of a child is `shared_prefix`");
        Self { own_after: parent.row_fields, ..self }
    }
}

/// Whether a text begins with another, at compile time.
pub const fn begins_with(text: &str, prefix: &str) -> bool {
    let (mut text, mut prefix) = (text.as_bytes(), prefix.as_bytes());
    while let [want, want_rest @ ..] = prefix {
        let [found, found_rest @ ..] = text else { return false };
        if *found != *want {
            return false;
        }
        (text, prefix) = (found_rest, want_rest);
    }
    true
}

/// Whether two texts are equal, at compile time.
pub const fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && begins_with(a, b)
}

/// Whether rows of two types of one table can be distinguished by their prefixes, or need not be (P-0.4).
pub const fn are_apart(a: &Layout, b: &Layout) -> bool {
    let is_open = a.row_prefix.is_empty() || b.row_prefix.is_empty();
    // A child's rows lie among its parent's rows on purpose.
    let is_family = a.own_after > 0 && b.own_after > 0;
    is_open
        || is_family
        || !(begins_with(a.row_prefix, b.row_prefix) || begins_with(b.row_prefix, a.row_prefix))
}

/// A type's declarations about its rows, for [`Tables::check_layout`](crate::Tables::check_layout); of a union those of
/// all its types.
#[derive(Clone, Copy, Debug)]
pub struct TypeLayout {
    types: &'static [Shape],
    table: Option<&'static str>,
}

/// The rows of one declaration.
struct Rows {
    what: String,
    table: Option<&'static str>,
    partition: String,
    row: String,
    /// The discriminator, if these are entities with one.
    kind: Option<&'static str>,
    /// Whether other types may have keys among these on purpose (P-6.2).
    is_family: bool,
}

impl TypeLayout {
    /// The layout of a type.
    pub fn of<T: TableEntity>() -> Self {
        Self { types: T::SHAPES, table: None }
    }

    /// Sets the table, for a type that does not name one.
    #[must_use]
    pub fn in_table(self, table: &'static str) -> Self {
        Self { table: Some(table), ..self }
    }

    /// Untyped entities of a union may have any key, and are left out.
    fn rows(&self) -> impl Iterator<Item = Rows> {
        let declared = self.types.iter().filter(|shape| !shape.is_dynamic);
        declared.flat_map(|shape| rows_of(shape, self.table.or(shape.table)))
    }
}

fn rows_of(shape: &Shape, table: Option<&'static str>) -> Vec<Rows> {
    let Shape { layout, kind, .. } = shape;
    let name = (shape.name)();
    let name = name.rsplit("::").next().unwrap_or(name);
    let own = Rows {
        what: format!("the entities of {name}"),
        table,
        partition: literal_prefix(layout.partition),
        row: layout.row_prefix.to_owned(),
        kind: kind.map(|kind| kind.name),
        is_family: layout.own_after > 0,
    };
    let copies = shape.indexes.iter().map(|def| Rows {
        what: format!("the index {} of {name}", def.name),
        table: def.table.or(table),
        partition: literal_prefix(def.partition.unwrap_or(layout.partition)),
        row: def.row_prefix.to_owned(),
        kind: None,
        is_family: false,
    });
    [own].into_iter().chain(copies).collect()
}

/// Checks the prefix rule for types that share tables (P-0.4): the error names the first two whose rows cannot be
/// distinguished.
pub(crate) fn check(layouts: &[TypeLayout]) -> Result<(), Error> {
    let rows: Vec<Rows> = layouts.iter().flat_map(TypeLayout::rows).collect();
    for (at, first) in rows.iter().enumerate() {
        if let Some(other) = rows.iter().skip(at + 1).find(|other| !first.is_apart(other)) {
            let problem = format!("{} and {} have keys that begin alike", first.what, other.what);
            return Err(Error::config(problem).with(|context| {
                let hint = "begin their row or partition templates with different literals";
                context.hint = Some(hint.into());
            }));
        }
    }
    Ok(())
}

impl Rows {
    fn is_apart(&self, other: &Self) -> bool {
        let is_elsewhere = match (self.table, other.table) {
            (Some(a), Some(b)) => !a.eq_ignore_ascii_case(b),
            _ => false,
        };
        let differ = |a: &str, b: &str| !begins_with(a, b) && !begins_with(b, a);
        let are_told = match (self.kind, other.kind) {
            // By the property, if a row key does not show it (C-6.2).
            (Some(a), Some(b)) => a != b && (self.row.is_empty() || other.row.is_empty()),
            _ => false,
        };
        is_elsewhere
            || differ(&self.row, &other.row)
            || differ(&self.partition, &other.partition)
            || are_told
            || (self.is_family && other.is_family && self.kind != other.kind)
    }
}

/// The literal prefix of all keys of a template.
fn literal_prefix(template: &str) -> String {
    let mut prefix = String::new();
    let mut rest = template.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '{' | '}' if rest.peek() == Some(&character) => {
                rest.next();
                prefix.push(character);
            }
            '{' => break,
            other => prefix.push(other),
        }
    }
    prefix
}
