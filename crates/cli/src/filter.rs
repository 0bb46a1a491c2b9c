//! Filters as text, checked before anything is sent (O-9.6).

use crate::failure::usage;
use anyhow::Result;
use lazuli_client::Filter;
use lazuli_wire::odata::filter::{FilterError, parse as parse_text};

/// The filter that `text` spells.
pub(crate) fn parse(text: &str) -> Result<Filter> {
    parse_text(text).map(Filter::from).map_err(|error| {
        let advice = "comparisons such as \"PartitionKey eq 'Sales' and Age ge 30\", with eq, ne, gt, \
                      ge, lt, le, joined by and, or, not";
        usage(describe(text, error), advice)
    })
}

/// The same in the larger language of a Lazuli server.
pub(crate) fn parse_extended(text: &str) -> Result<Filter> {
    lazuli_wire::odata::filter::parse_extended(text).map(Filter::from).map_err(|error| {
        let advice = "comparisons, startswith(P,'a'), endswith, contains, tolower(P), P in ('a','b'), \
                      joined by and, or, not";
        usage(describe(text, error), advice)
    })
}

/// What is wrong, with a caret below the place.
fn describe(text: &str, error: FilterError) -> String {
    let problem = format!("the filter is wrong: {error}");
    let position = match error {
        _ if text.is_empty() => return problem,
        FilterError::Syntax { position } | FilterError::Misused { position, .. } => {
            position.saturating_sub(1)
        }
        FilterError::InvalidCharacter { position, .. }
        | FilterError::UnterminatedString { position } => position,
        _ => return problem,
    };
    // The service counts UTF-16 code units; a caret stands below a character.
    let units = |index: usize| text.chars().take(index).map(char::len_utf16).sum::<usize>();
    let column = (0..=text.chars().count()).take_while(|index| units(*index) <= position).count();
    let shown = crate::output::printable(text);
    format!("{problem}\n  {shown}\n  {}^", " ".repeat(column.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let problem = parse(text).unwrap_err().to_string();
        let lines: Vec<&str> = problem.lines().skip(1).collect();
        assert_eq!(lines.join("\n"), expect, "{problem}");
    }

    #[test]
    fn a_caret_shows_the_place() {
        check("Age gtt 3", "  Age gtt 3\n        ^");
        check("Name eq 'O'Neill'", "  Name eq 'O'Neill'\n                 ^");
        check("Age ge 3 and $", "  Age ge 3 and $\n               ^");
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
        assert_eq!(parse("( Age  ge 3 )").unwrap().to_string(), "Age ge 3");
        assert_eq!(parse("not Active").unwrap().to_string(), "not (Active)");
    }
}
