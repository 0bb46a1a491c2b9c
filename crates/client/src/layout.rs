//! What a type declares about its keys.

use crate::entity::TableEntity;
use crate::error::Error;
use crate::index::IndexDef;
use crate::kind::Kind;

/// The form of the keys of a type, and what other types may have keys among them (P-0.4, P-6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// The template of partition keys; empty if the type writes its keys by hand.
    pub partition: &'static str,
    /// The template of row keys.
    pub row: &'static str,
    /// What all row keys begin with; empty if nothing is known.
    pub row_prefix: &'static str,
    /// How many fields of the row key must have one value before no row of another type can lie between:
    /// zero if no other type has row keys with this prefix.
    pub own_after: usize,
    /// Fields of the row key.
    pub row_fields: usize,
}

impl Layout {
    /// Nothing is known about the keys.
    pub const UNKNOWN: Self =
        Self { partition: "", row: "", row_prefix: "", own_after: usize::MAX, row_fields: 0 };

    /// Keys of two templates. Rows of other types lie among them if the row template opens with a field.
    pub const fn new(
        partition: &'static str,
        row: &'static str,
        row_prefix: &'static str,
        row_fields: usize,
    ) -> Self {
        let own_after = if row_prefix.is_empty() { usize::MAX } else { 0 };
        Self { partition, row, row_prefix, own_after, row_fields }
    }

    /// Others have keys that go on where those of this type end.
    #[must_use]
    pub const fn shared(self) -> Self {
        Self { own_after: usize::MAX, ..self }
    }

    /// Keys that go on where those of `parent` end. Checked while the program is compiled (P-6.2).
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

/// Whether rows of two types of one table can be told apart by their prefixes, or need not be (P-0.4).
pub const fn are_apart(a: &Layout, b: &Layout) -> bool {
    let is_open = a.row_prefix.is_empty() || b.row_prefix.is_empty();
    // A child lies among its parent's rows on purpose.
    let is_family = a.own_after > 0 && b.own_after > 0;
    is_open
        || is_family
        || !(begins_with(a.row_prefix, b.row_prefix) || begins_with(b.row_prefix, a.row_prefix))
}

/// What a type says about the rows it has, for [`Tables::check_layout`](crate::Tables::check_layout).
#[derive(Clone, Copy, Debug)]
pub struct TypeLayout {
    name: &'static str,
    table: Option<&'static str>,
    kind: Option<Kind>,
    layout: Layout,
    indexes: &'static [IndexDef],
}

/// Rows that one declaration makes.
struct Rows {
    what: String,
    table: Option<&'static str>,
    partition: String,
    row: String,
    /// The discriminator, if these are entities that have one.
    kind: Option<&'static str>,
    /// Whether others may have keys among these on purpose (P-6.2).
    is_family: bool,
}

impl TypeLayout {
    /// What a type says.
    pub fn of<T: TableEntity>() -> Self {
        let name = std::any::type_name::<T>();
        let name = name.rsplit("::").next().unwrap_or(name);
        Self { name, table: T::TABLE, kind: T::KIND, layout: T::LAYOUT, indexes: T::INDEXES }
    }

    /// What a type says, for rows of a table that the type does not name.
    #[must_use]
    pub fn in_table(self, table: &'static str) -> Self {
        Self { table: Some(table), ..self }
    }

    fn rows(&self) -> Vec<Rows> {
        let own = Rows {
            what: format!("the entities of {}", self.name),
            table: self.table,
            partition: literal_prefix(self.layout.partition),
            row: self.layout.row_prefix.to_owned(),
            kind: self.kind.map(|kind| kind.name),
            is_family: self.layout.own_after > 0,
        };
        let copies = self.indexes.iter().map(|def| Rows {
            what: format!("the index {} of {}", def.name, self.name),
            table: def.table.or(self.table),
            partition: literal_prefix(def.partition.unwrap_or(self.layout.partition)),
            row: def.row_prefix.to_owned(),
            kind: None,
            is_family: false,
        });
        [own].into_iter().chain(copies).collect()
    }
}

/// Checks the prefix rule over types that share tables (P-0.4): the error names the first two whose rows cannot be
/// told apart.
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
            // By the property, if a row key does not say it (C-6.2).
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

/// What all keys of a template begin with.
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
