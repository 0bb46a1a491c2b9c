//! Keys parsed field by field, for derived code (C-4.4, C-4.5).

use lazuli_model::key_text::split_escaped;

/// The unread rest of a key.
pub struct KeyCursor<'a>(&'a str);

impl<'a> KeyCursor<'a> {
    /// The beginning of a key.
    pub fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// Takes a literal.
    pub fn literal(&mut self, literal: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(literal)?;
        Some(())
    }

    /// Takes a field of `width` characters; without a width, all except the `after` characters before `separator`
    /// or the end.
    pub fn field(
        &mut self,
        width: Option<usize>,
        separator: Option<char>,
        after: usize,
    ) -> Option<&'a str> {
        let end = match (width, separator) {
            (Some(width), _) => width,
            (None, Some(separator)) => {
                split_escaped(self.0, separator)?.0.len().checked_sub(after)?
            }
            (None, None) => self.0.len().checked_sub(after)?,
        };
        let (field, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        Some(field)
    }

    /// Checks that nothing is left.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// The width of a field, or 0 if it is not fixed.
pub const fn width_or_zero(width: Option<usize>) -> usize {
    match width {
        Some(width) => width,
        None => 0,
    }
}
