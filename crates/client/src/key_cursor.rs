//! Keys read back field by field: what derived code is made of (C-4.4, C-4.5).

use lazuli_model::key_text::split_escaped;

/// What is left of a key.
pub struct KeyCursor<'a>(&'a str);

impl<'a> KeyCursor<'a> {
    /// A key that has not been read.
    pub fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// Takes a literal.
    pub fn literal(&mut self, literal: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(literal)?;
        Some(())
    }

    /// Takes a field of `width` characters; or, without one, all but the `after` characters before
    /// `separator` or the end.
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

    /// Nothing must be left.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Widths of the fields that follow one.
pub const fn width_or_zero(width: Option<usize>) -> usize {
    match width {
        Some(width) => width,
        None => 0,
    }
}
