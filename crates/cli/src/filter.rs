//! Filters as text, checked before anything is sent (O-9.6).

use crate::failure::usage;
use anyhow::Result;
use lazuli_client::Filter;
use lazuli_wire::odata::filter::{FilterError, parse as parse_text};
use unicode_width::UnicodeWidthStr;

const COMPARISONS: &str = "comparisons such as \"PartitionKey eq 'Sales' and Age ge 30\", with eq, ne, \
                           gt, ge, lt, le, joined by and, or, not; a Lazuli server also has \
                           startswith(P,'a'), endswith, contains, tolower(P), P in ('a','b')";

/// A filter, and whether it uses the extended language of a Lazuli server.
pub(crate) struct Parsed {
    pub(crate) filter: Filter,
    pub(crate) is_extended: bool,
}

/// Parses a filter, in the language of the service if possible.
pub(crate) fn parse(text: &str) -> Result<Parsed> {
    use lazuli_wire::odata::filter::parse_extended as parse_larger;
    let (parsed, is_extended) = match parse_text(text) {
        Ok(filter) => (Ok(filter), false),
        Err(_) => (parse_larger(text), true),
    };
    match parsed {
        Ok(filter) => Ok(Parsed { filter: Filter::from(filter), is_extended }),
        Err(error) => Err(usage(describe(text, error), COMPARISONS)),
    }
}

/// Parses a filter in the extended language of a Lazuli server.
pub(crate) fn parse_extended(text: &str) -> Result<Filter> {
    lazuli_wire::odata::filter::parse_extended(text).map(Filter::from).map_err(|error| {
        let advice = "comparisons, startswith(P,'a'), endswith, contains, tolower(P), P in ('a','b'), \
                      joined by and, or, not";
        usage(describe(text, error), advice)
    })
}

/// Describes an error, with a caret below its position.
fn describe(text: &str, error: FilterError) -> String {
    let problem = format!("the filter is wrong: {}", uncapitalized(&error.to_string()));
    let position = match error {
        _ if text.is_empty() => return problem,
        FilterError::Syntax { position } | FilterError::Misused { position, .. } => {
            position.saturating_sub(1)
        }
        FilterError::InvalidCharacter { position, .. }
        | FilterError::UnterminatedString { position } => position,
        _ => return problem,
    };
    let shown = crate::output::printable(text);
    format!("{problem}\n  {shown}\n  {}^", " ".repeat(columns_before(text, position)))
}

/// A sentence of the service, to be used as the end of another.
fn uncapitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// The width in a terminal of the text before `position`, which counts UTF-16 code units as the service does: some
/// characters take two columns, some none.
fn columns_before(text: &str, position: usize) -> usize {
    let mut units = 0;
    let before = text.chars().take_while(|c| {
        units += c.len_utf16();
        units <= position
    });
    crate::output::printable(&before.collect::<String>()).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let problem = parse(text).err().unwrap().to_string();
        let lines: Vec<&str> = problem.lines().skip(1).collect();
        assert_eq!(lines.join("\n"), expect, "{problem}");
    }

    #[test]
    fn a_caret_shows_the_place() {
        check("Age gtt 3", "  Age gtt 3\n        ^");
        check("Name eq 'O'Neill'", "  Name eq 'O'Neill'\n                 ^");
        check("Age ge 3 and $", "  Age ge 3 and $\n               ^");
        check("Ä eq '日本' x", "  Ä eq '日本' x\n              ^");
        check("'😀' eqq 1", "  '😀' eqq 1\n         ^");
        check("", "");
    }

    ///
    #[test]
    fn a_caret_shows_the_place_in_the_larger_language() {
        let problem = parse_extended("startswith(Name,5)").unwrap_err().to_string();
        assert!(problem.ends_with("\n  startswith(Name,5)\n                  ^"), "{problem}");
        assert!(parse_extended("startswith(Name,'5') and Age in (1,2)").is_ok());
    }

    #[test]
    fn a_good_filter_is_what_is_sent() {
        let sent = |text: &str| {
            let Parsed { filter, is_extended } = parse(text).unwrap();
            (filter.to_string(), is_extended)
        };
        assert_eq!(sent("( Age  ge 3 )"), ("Age ge 3".to_owned(), false));
        assert_eq!(sent("not Active"), ("not (Active)".to_owned(), false));
        assert_eq!(sent("Age in (1,2)"), ("Age in (1,2)".to_owned(), true));
    }
}
