//! Conditions that exist only as extensions: functions of text, `in`, and comparisons of
//! text in one case.

use super::{Operator, Property, Row};
use crate::value::{Value, ValueRef};
use std::borrow::Cow;
use std::ops::Bound;

/// A condition that Azure does not have.
#[derive(Clone, Debug, PartialEq)]
pub enum Extended {
    /// `function(term,'text')`.
    Text(TextTest),
    /// `term in (value, …)`: at least one, all of one type.
    In { term: Term, values: Vec<Value<'static>> },
    /// `tolower(property) operator 'text'`. A comparison of the unchanged property does not need
    /// this.
    Compare { term: Term, operator: Operator, text: Box<str> },
}

/// A function of a property and a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTest {
    pub function: TextFunction,
    pub term: Term,
    text: Box<str>,
    /// The first text after all that begin with `text`, if there is one.
    after: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextFunction {
    StartsWith,
    EndsWith,
    Contains,
    /// `contains` with its arguments swapped.
    SubstringOf,
}

/// A property, unchanged or converted to one case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    pub property: Property,
    pub case: Case,
}

/// The case in which a text is compared, by Unicode's simple mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Case {
    AsIs,
    Lower,
    Upper,
}

impl TextFunction {
    pub const ALL: [Self; 4] =
        [Self::StartsWith, Self::EndsWith, Self::Contains, Self::SubstringOf];

    pub const fn name(self) -> &'static str {
        match self {
            Self::StartsWith => "startswith",
            Self::EndsWith => "endswith",
            Self::Contains => "contains",
            Self::SubstringOf => "substringof",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }
}

impl TextTest {
    pub fn new(function: TextFunction, term: Term, text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        let after = match function {
            TextFunction::StartsWith => after_prefix(&text).map(Into::into),
            _ => None,
        };
        Self { function, term, text, after }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The bounds, by UTF-16 code unit, between which all matching texts lie; `None` if they may
    /// lie anywhere.
    pub fn interval(&self) -> Option<(Bound<&str>, Bound<&str>)> {
        let is_range = self.function == TextFunction::StartsWith && self.term.case == Case::AsIs;
        let high = || self.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        is_range.then(|| (Bound::Included(&*self.text), high()))
    }

    fn holds(&self, found: &str) -> bool {
        match self.function {
            TextFunction::StartsWith => found.starts_with(&*self.text),
            TextFunction::EndsWith => found.ends_with(&*self.text),
            TextFunction::Contains | TextFunction::SubstringOf => found.contains(&*self.text),
        }
    }
}

impl Term {
    pub fn new(property: Property, case: Case) -> Self {
        Self { property, case }
    }

    /// The text of the property, in the case of the term; `None` if it is missing or not text.
    fn text<'r>(&self, row: &'r impl Row) -> Option<Cow<'r, str>> {
        match row.value(&self.property)? {
            ValueRef::String(text) => Some(self.case.fold(text)),
            _ => None,
        }
    }
}

impl Case {
    fn fold(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::AsIs => Cow::Borrowed(text),
            Self::Lower => Cow::Owned(text.chars().map(lower).collect()),
            Self::Upper => Cow::Owned(text.chars().map(upper).collect()),
        }
    }
}

impl Extended {
    pub fn term(&self) -> &Term {
        match self {
            Self::Text(test) => &test.term,
            Self::In { term, .. } | Self::Compare { term, .. } => term,
        }
    }

    /// Its name among the extensions that a response used.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let condition = match self {
            Self::Text(test) => Some(test.function.name()),
            Self::In { .. } => Some("in"),
            Self::Compare { .. } => None,
        };
        let case = match self.term().case {
            Case::AsIs => None,
            Case::Lower => Some("tolower"),
            Case::Upper => Some("toupper"),
        };
        condition.into_iter().chain(case)
    }

    /// Whether `row` satisfies it: never if the property is missing, and for a function never if it
    /// is not text.
    pub fn matches(&self, row: &impl Row) -> bool {
        match self {
            Self::Text(test) => test.term.text(row).is_some_and(|found| test.holds(&found)),
            Self::Compare { term, operator, text } => {
                let holds = |found: Cow<'_, str>| {
                    operator.holds(ValueRef::String(&found), ValueRef::String(text))
                };
                term.text(row).is_some_and(holds)
            }
            Self::In { term, values } if term.case == Case::AsIs => row
                .value(&term.property)
                .is_some_and(|found| values.iter().any(|value| found.equals(value.as_ref()))),
            Self::In { term, values } => term.text(row).is_some_and(|found| {
                values.iter().any(|value| ValueRef::String(&found).equals(value.as_ref()))
            }),
        }
    }
}

/// The first text, by UTF-16 code unit, after all that begin with `prefix`.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = next_by_utf16(last) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// The next character in the order of UTF-16 code units, in which surrogates lie below U+E000.
fn next_by_utf16(c: char) -> Option<char> {
    match c {
        '\u{D7FF}' => Some('\u{10000}'),
        '\u{10FFFF}' => Some('\u{E000}'),
        '\u{FFFF}' => None,
        c => char::from_u32(u32::from(c) + 1),
    }
}

/// The lower case of a character if it is one character, as in Unicode's simple mapping.
fn lower(c: char) -> char {
    match c {
        // The only character whose full mapping is longer.
        '\u{130}' => 'i',
        c => only(c.to_lowercase(), c),
    }
}

fn upper(c: char) -> char {
    match c {
        // Greek letters with iota subscript: several characters in the full mapping, one in the simple.
        '\u{1F80}'..='\u{1F87}' | '\u{1F90}'..='\u{1F97}' | '\u{1FA0}'..='\u{1FA7}' => {
            char::from_u32(u32::from(c) + 8).unwrap_or(c)
        }
        '\u{1FB3}' | '\u{1FC3}' | '\u{1FF3}' => char::from_u32(u32::from(c) + 9).unwrap_or(c),
        c => only(c.to_uppercase(), c),
    }
}

/// The only character of a mapping, or `c` if there are more.
fn only(mut mapped: impl Iterator<Item = char>, c: char) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::compare;
    use crate::time::Timestamp;
    use std::cmp::Ordering;

    struct Named(Option<ValueRef<'static>>);

    impl Row for Named {
        fn partition_key(&self) -> &str {
            "Part"
        }
        fn row_key(&self) -> &str {
            "Row"
        }
        fn timestamp(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
        fn custom(&self, name: &str) -> Option<ValueRef<'_>> {
            self.0.filter(|_| name == "Name")
        }
    }

    fn term(case: Case) -> Term {
        Term::new(Property::from_name("Name"), case)
    }

    fn test(function: TextFunction, case: Case, text: &str) -> Extended {
        Extended::Text(TextTest::new(function, term(case), text))
    }

    ///
    #[test]
    fn functions_see_text_only() {
        use TextFunction::{Contains, EndsWith, StartsWith, SubstringOf};
        let ann = Named(Some(ValueRef::String("Anna Ö")));
        for (function, text, expect) in [
            (StartsWith, "Ann", true),
            (StartsWith, "ann", false),
            (StartsWith, "", true),
            (EndsWith, "Ö", true),
            (EndsWith, "Anna", false),
            (Contains, "nna", true),
            (SubstringOf, "nna", true),
            (SubstringOf, "x", false),
        ] {
            let found = test(function, Case::AsIs, text).matches(&ann);
            assert_eq!(found, expect, "{function:?} {text}");
        }
        assert!(test(StartsWith, Case::Lower, "ann").matches(&ann));
        assert!(test(EndsWith, Case::Lower, "ö").matches(&ann));
        assert!(test(Contains, Case::Upper, "NNA").matches(&ann));
        for other in [None, Some(ValueRef::Int32(1)), Some(ValueRef::Boolean(true))] {
            assert!(!test(StartsWith, Case::AsIs, "").matches(&Named(other)), "{other:?}");
        }
    }

    ///
    #[test]
    fn comparisons_in_one_case_see_text_only() {
        let compare = |operator, text: &str| Extended::Compare {
            term: term(Case::Lower),
            operator,
            text: text.into(),
        };
        let ann = Named(Some(ValueRef::String("ANN")));
        assert!(compare(Operator::Eq, "ann").matches(&ann));
        assert!(compare(Operator::Ne, "ANN").matches(&ann));
        assert!(compare(Operator::Lt, "b").matches(&ann));
        for other in [None, Some(ValueRef::Int32(1))] {
            assert!(!compare(Operator::Ne, "ann").matches(&Named(other)), "{other:?}");
        }
    }

    /// `in` is an `or` of `eq`.
    #[test]
    fn in_finds_what_equals() {
        let found = |values: &[Value<'static>], row: Option<ValueRef<'static>>| {
            let values = values.to_vec();
            Extended::In { term: term(Case::AsIs), values }.matches(&Named(row))
        };
        let one = Some(ValueRef::Int64(1));
        assert!(found(&[Value::Int32(2), Value::Int32(1)], one));
        assert!(!found(&[Value::Int32(2)], one));
        assert!(!found(&["1".into()], one));
        assert!(!found(&[Value::Int32(1)], None));
        let lower = Extended::In { term: term(Case::Lower), values: vec!["a".into()] };
        assert!(lower.matches(&Named(Some(ValueRef::String("A")))));
        assert!(!lower.matches(&Named(one)));
    }

    #[test]
    fn case_is_mapped_character_by_character() {
        let fold = |case: Case, text: &str| case.fold(text).into_owned();
        assert_eq!(fold(Case::Lower, "ÄSSE İ Σ"), "ässe i σ");
        assert_eq!(fold(Case::Upper, "straße ǆ ᾳ ᾀ"), "STRAßE Ǆ ᾼ ᾈ");
        for c in '\0'..=char::MAX {
            assert!(lower(c).to_lowercase().count() == 1 && lower(lower(c)) == lower(c), "{c:?}");
            assert_eq!(upper(upper(c)), upper(c), "{c:?}");
        }
    }

    #[test]
    fn a_prefix_is_an_interval() {
        for (prefix, after) in [
            ("ab", Some("ac")),
            ("a\u{FFFF}", Some("b")),
            ("\u{D7FF}", Some("\u{10000}")),
            ("🦀", Some("🦁")),
            ("\u{10FFFF}", Some("\u{E000}")),
            ("\u{FFFF}", None),
            ("", None),
        ] {
            let found = after_prefix(prefix);
            assert_eq!(found.as_deref(), after, "{prefix:?}");
            if let Some(after) = found {
                assert_eq!(compare(&format!("{prefix}\u{FFFF}\u{FFFF}"), &after), Ordering::Less);
            }
        }
    }
}
