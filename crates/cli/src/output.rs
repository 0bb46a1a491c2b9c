//! What a command prints: a table for people or JSON for programs, on standard output; everything else on
//! standard error (O-9.4, O-9.5).

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

mod grid;

pub(crate) use grid::{Grid, printable};

/// How a command prints.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputArguments {
    /// Print JSON: one document, or one object per line
    #[arg(id = "output-json", long = "json", global = true, help_heading = "Output")]
    json: bool,

    /// Print no progress and no remarks
    #[arg(
        id = "output-quiet",
        short = 'q',
        long = "quiet",
        global = true,
        help_heading = "Output"
    )]
    quiet: bool,

    /// Use colour: on a terminal unless NO_COLOR is set, always, or never
    #[arg(
        id = "output-color",
        long = "color",
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Output"
    )]
    color: ColorChoice,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColorChoice {
    Auto,
    Always,
    Never,
}

impl ColorChoice {
    fn paint(self, is_terminal: bool) -> Paint {
        match self {
            Self::Auto => Paint::automatic(is_terminal),
            Self::Always => Paint(true),
            Self::Never => Paint::OFF,
        }
    }
}

/// Colours words, or leaves them plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint(bool);

impl Paint {
    pub(crate) const OFF: Self = Self(false);

    /// On a terminal, unless `NO_COLOR` is set.
    pub(crate) fn automatic(is_terminal: bool) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self(is_terminal && !is_set("NO_COLOR") && !is_dumb)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Where a command prints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    is_json: bool,
    is_quiet: bool,
    paint: Paint,
    paint_errors: Paint,
}

impl Default for Output {
    /// Data for people, without colour.
    fn default() -> Self {
        Self { is_json: false, is_quiet: false, paint: Paint::OFF, paint_errors: Paint::OFF }
    }
}

impl Output {
    pub(crate) fn new(arguments: OutputArguments) -> Self {
        let OutputArguments { json, quiet, color } = arguments;
        Self {
            is_json: json,
            is_quiet: quiet,
            paint: color.paint(io::stdout().is_terminal()),
            paint_errors: color.paint(io::stderr().is_terminal()),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    pub(crate) fn paint_errors(&self) -> Paint {
        self.paint_errors
    }

    /// Prints one JSON document on one line.
    pub(crate) fn document(&self, document: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(document).context("write JSON")?;
        line.push(b'\n');
        self.bytes(&line)
    }

    /// Prints a table.
    pub(crate) fn grid(&self, grid: &Grid) -> Result<()> {
        self.bytes(grid.text(width(), self.paint).as_bytes())
    }

    /// Prints a table without cutting anything, for what will be gone.
    pub(crate) fn whole_grid(&self, grid: &Grid) -> Result<()> {
        self.bytes(grid.text(None, self.paint).as_bytes())
    }

    /// Prints data unchanged.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).context("write to standard output")
    }

    /// Prints one document for programs, or a table for people.
    pub(crate) fn either(
        &self,
        document: &impl Serialize,
        grid: impl FnOnce() -> Grid,
    ) -> Result<()> {
        if self.is_json { self.document(document) } else { self.grid(&grid()) }
    }

    /// Prints one document for programs, or a remark for people.
    pub(crate) fn done(&self, document: &impl Serialize, remark: impl Display) -> Result<()> {
        if self.is_json {
            return self.document(document);
        }
        self.remark(remark);
        Ok(())
    }

    /// Prints a message for people that is not data.
    pub(crate) fn remark(&self, text: impl Display) {
        if !self.is_quiet {
            to_stderr(&format!("{text}\n"));
        }
    }

    /// Prints a warning, even if quiet.
    pub(crate) fn warn(&self, text: impl Display) {
        to_stderr(&format!("{} {text}\n", self.paint_errors.bold("warning:")));
    }
}

/// Ignores errors: a closed standard error does not stop a command.
pub(crate) fn to_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// The width of the terminal; `None` if nothing is truncated. `COLUMNS` overrides it.
fn width() -> Option<u16> {
    let given = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let given = given.filter(|columns: &u16| *columns > 0);
    let terminal = || io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    given.or_else(|| terminal().map(|(width, _)| width.0))
}

/// A number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 entity`, `2 entities`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let text = [0, 7, 999, 1000, 1_204_551, u64::MAX].map(grouped).join(" ");
        assert_eq!(text, "0 7 999 1,000 1,204,551 18,446,744,073,709,551,615");
        assert_eq!(counted(1, "entity", "entities"), "1 entity");
        assert_eq!(counted(1200, "entity", "entities"), "1,200 entities");
    }

    #[test]
    fn colour_is_asked_for_or_on_a_terminal() {
        assert_eq!(ColorChoice::Always.paint(false).bold("a"), "\x1b[1ma\x1b[0m");
        assert_eq!(ColorChoice::Never.paint(true).bold("a"), "a");
        assert_eq!(ColorChoice::Auto.paint(false).bad("a"), "a");
    }
}
