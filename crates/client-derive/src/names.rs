//! Names of properties: how they are made, and which are valid (C-5.3).

use proc_macro2::Span;
use syn::{Error, LitStr, Result};

/// How names are made from identifiers.
#[derive(Clone, Copy, Default)]
pub(crate) enum Rename {
    #[default]
    AsIs,
    Pascal,
    Camel,
    Snake,
}

impl Rename {
    pub(crate) fn parse(text: &LitStr) -> Result<Self> {
        match text.value().as_str() {
            "PascalCase" => Ok(Self::Pascal),
            "camelCase" => Ok(Self::Camel),
            "snake_case" => Ok(Self::Snake),
            _ => Err(Error::new(text.span(), "expected PascalCase, camelCase or snake_case")),
        }
    }

    /// The name of an identifier in snake_case or PascalCase.
    pub(crate) fn apply(self, identifier: &str) -> String {
        let identifier = identifier.trim_start_matches("r#");
        match self {
            Self::AsIs => identifier.to_owned(),
            Self::Snake => words(identifier).join("_"),
            Self::Pascal => words(identifier).iter().map(|word| capital(word)).collect(),
            Self::Camel => {
                let words = words(identifier);
                let first = words.first().cloned().unwrap_or_default();
                first + &words.iter().skip(1).map(|word| capital(word)).collect::<String>()
            }
        }
    }
}

/// The words of an identifier, in lower case.
fn words(identifier: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut begins = true;
    for character in identifier.chars() {
        if character == '_' {
            begins = true;
            continue;
        }
        if begins || character.is_uppercase() {
            words.push(String::new());
        }
        begins = false;
        if let Some(word) = words.last_mut() {
            word.extend(character.to_lowercase());
        }
    }
    words
}

fn capital(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().map(|first| first.to_uppercase().collect::<String>());
    first.unwrap_or_default() + characters.as_str()
}

/// The name of the constant for a field.
pub(crate) fn constant(field: &str) -> String {
    words(field.trim_start_matches("r#")).join("_").to_uppercase()
}

/// Names reserved for the library (P-0.2).
const BOOKKEEPING: [&str; 8] = ["_ix", "_pk", "_rk", "_src", "_st", "_WriteIds", "_gen", "_parts"];

/// Fails for a name that the service or this library does not accept.
pub(crate) fn check(name: &str, span: Span) -> Result<()> {
    let fault = |text: String| Err(Error::new(span, text));
    let mut characters = name.chars();
    let is_first = |first: char| first.is_alphabetic() || first == '_';
    let is_more = |more: char| more.is_alphanumeric() || more == '_';
    if !characters.next().is_some_and(is_first) || !characters.all(is_more) {
        return fault(format!(
            "`{name}` is not a property name: letters, digits and `_`, no digit first"
        ));
    }
    if name.encode_utf16().count() > 255 {
        return fault(format!("`{name}` has more than 255 characters"));
    }
    if matches!(name, "PartitionKey" | "RowKey" | "Timestamp") {
        return fault(format!("`{name}` is a property that every entity has"));
    }
    if name.to_lowercase().starts_with("odata") {
        return fault(format!("`{name}` begins with `odata`, which is reserved"));
    }
    if BOOKKEEPING.contains(&name) {
        return fault(format!("`{name}` is a property that the library writes itself"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_words() {
        for (identifier, pascal, camel, snake) in [
            ("first_name", "FirstName", "firstName", "first_name"),
            ("FullTime", "FullTime", "fullTime", "full_time"),
            ("id", "Id", "id", "id"),
            ("r#type", "Type", "type", "type"),
            ("line_2", "Line2", "line2", "line_2"),
        ] {
            assert_eq!(Rename::Pascal.apply(identifier), pascal);
            assert_eq!(Rename::Camel.apply(identifier), camel);
            assert_eq!(Rename::Snake.apply(identifier), snake);
        }
        assert_eq!(constant("first_name"), "FIRST_NAME");
    }

    #[test]
    fn names_that_the_service_refuses_are_refused() {
        for good in ["Age", "_x", "H00", "größe"] {
            assert!(check(good, Span::call_site()).is_ok(), "{good}");
        }
        for bad in ["", "1a", "a-b", "PartitionKey", "odataType", "_ix", "a b"] {
            assert!(check(bad, Span::call_site()).is_err(), "{bad}");
        }
    }
}
