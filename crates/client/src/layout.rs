//! What a type declares about its keys.

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
