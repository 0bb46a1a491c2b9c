//! Tables for people: aligned, truncated to the terminal's width, never wrapped (O-9.4).

use super::Paint;
use comfy_table::{CellAlignment, ContentArrangement, Row, Table, presets};

/// Spaces between two columns.
const GAP: u16 = 2;
/// No column is made narrower than this: other columns are left out instead.
const COLUMN_WIDTH_MIN: u16 = 6;

/// A table: a heading and rows of texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Columns of numbers.
    right: Vec<usize>,
}

impl Grid {
    pub(crate) fn new<H: Into<String>>(heading: impl IntoIterator<Item = H>) -> Self {
        let heading = heading.into_iter().map(Into::into).collect();
        Self { heading, ..Self::default() }
    }

    /// A table of names and values, without a heading.
    pub(crate) fn pairs<N: Into<String>, V: Into<String>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let rows = pairs.into_iter().map(|(name, value)| vec![name.into(), value.into()]);
        Self { rows: rows.collect(), ..Self::default() }
    }

    /// Aligns a column to the right.
    #[must_use]
    pub(crate) fn numbers_in(mut self, column: usize) -> Self {
        self.right.push(column);
        self
    }

    pub(crate) fn row<V: Into<String>>(&mut self, values: impl IntoIterator<Item = V>) {
        self.rows.push(values.into_iter().map(Into::into).collect());
    }

    /// The table as text that ends with a line feed; empty if there is nothing to show.
    pub(crate) fn text(&self, width: Option<u16>, paint: Paint) -> String {
        let columns = self.rows.first().map_or(0, Vec::len).max(self.heading.len());
        if columns == 0 || (self.rows.is_empty() && self.heading.is_empty()) {
            return String::new();
        }
        let room = width.map(|width| usize::from(width / (COLUMN_WIDTH_MIN + GAP)).max(1));
        let shown = room.map_or(columns, |room| room.min(columns));
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_truncation_indicator("…");
        match width {
            Some(width) => {
                table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width)
            }
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        let has_heading = !self.heading.is_empty();
        if has_heading {
            table.add_row(line(&self.heading, shown, columns));
        }
        for row in &self.rows {
            table.add_row(line(row, shown, columns));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, GAP));
            if self.right.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = String::new();
        for (index, line) in table.lines().enumerate() {
            let line = line.trim_end();
            match index == 0 && has_heading {
                true => text.push_str(&paint.bold(line)),
                false => text.push_str(line),
            }
            text.push('\n');
        }
        text
    }
}

/// The first `shown` of all columns. The last cell says how many are left out.
fn line(values: &[String], shown: usize, columns: usize) -> Row {
    let mut cells: Vec<String> = values.iter().take(shown).map(|value| printable(value)).collect();
    if shown < columns
        && let Some(last) = cells.last_mut()
    {
        "…".clone_into(last);
    }
    let mut row = Row::from(cells);
    row.max_height(1);
    row
}

/// The text without characters that would move the cursor or change the terminal.
pub(crate) fn printable(text: &str) -> String {
    if !text.chars().any(is_control) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match is_control(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

/// Control characters, and those that reorder text.
fn is_control(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people() -> Grid {
        let mut grid = Grid::new(["NAME", "AGE"]).numbers_in(1);
        grid.row(["Don", "34"]);
        grid.row(["A name that is rather long", "7"]);
        grid
    }

    #[test]
    fn columns_are_aligned() {
        let expect = "\
NAME                        AGE
Don                          34
A name that is rather long    7
";
        assert_eq!(people().text(None, Paint::OFF), expect);
    }

    #[test]
    fn a_narrow_terminal_cuts_and_never_wraps() {
        let text = people().text(Some(20), Paint::OFF);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 20), "{text}");
        assert!(text.contains('…') && text.contains("34"), "{text}");
    }

    #[test]
    fn columns_without_room_are_left_out() {
        let mut grid = Grid::new((0..50).map(|index| format!("C{index}")));
        grid.row((0..50).map(|index| format!("value {index}")));
        let text = grid.text(Some(40), Paint::OFF);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("C0") && !text.contains("C49"), "{text}");
    }

    #[test]
    fn the_heading_alone_is_bold() {
        let text = people().text(None, Paint(true));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("\x1b[1mNAME") && !lines[1].contains('\x1b'), "{text}");
    }

    #[test]
    fn nothing_in_a_cell_reaches_the_terminal_as_a_command() {
        assert_eq!(printable("a\x1b[31mb\nc\u{202E}d"), "a\\u{1b}[31mb\\nc\\u{202e}d");
        assert_eq!(printable("Zoë 🦀"), "Zoë 🦀");
    }

    #[test]
    fn nothing_to_show_is_nothing() {
        assert_eq!(Grid::default().text(Some(80), Paint::OFF), "");
        assert_eq!(Grid::new(["NAME"]).text(None, Paint::OFF), "NAME\n");
        assert_eq!(Grid::pairs([("a", "b")]).text(None, Paint::OFF), "a  b\n");
    }
}
