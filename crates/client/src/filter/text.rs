//! Filters from text, with bound values (C-7.1).

use super::Filter;
use crate::error::Error;
use crate::value::{EncodeError, TableValue, Value};
use lazuli_model::Property;
use lazuli_wire::odata::filter::is_name;
use std::collections::HashMap;

/// Marks a placeholder until its value is bound. No filter may contain it.
const MARK: char = '\u{1}';

impl Filter {
    /// A filter in the protocol's own syntax, in which `@name` stands for a value:
    ///
    /// ```
    /// # use lazuli_client::Filter;
    /// let filter = Filter::parse("Name eq @name and Age gt @age", [
    ///     ("name", "x' or true or Name eq '".into()),
    ///     ("age", 30.into()),
    /// ])?;
    /// assert_eq!(filter.to_string(), "Name eq 'x'' or true or Name eq ''' and Age gt 30");
    /// # Ok::<(), lazuli_client::Error>(())
    /// ```
    pub fn parse<'n>(
        text: &str,
        values: impl IntoIterator<Item = (&'n str, Value)>,
    ) -> Result<Self, Error> {
        let values: HashMap<&str, Value> = values.into_iter().collect();
        let marked = marked(text)?;
        let mut filter = lazuli_wire::odata::filter::parse(&marked)
            .map_err(|error| Error::config(format!("{text:?} is not a filter: {error}")))?;
        let mut used = 0;
        bind(&mut filter, &mut |name| {
            used += 1;
            values.get(name).cloned().ok_or_else(|| Error::config(format!("@{name} has no value")))
        })?;
        if used < values.len() {
            return Err(Error::config(format!("{text:?} does not name every value")));
        }
        Ok(Self(filter, None))
    }

    /// A filter that is sent unchanged. **Never include user input**: the text is not checked, so that user input could
    /// change what the query asks for.
    pub fn raw(text: impl Into<Box<str>>) -> Self {
        Self(lazuli_model::Filter::IsTrue(Property::Custom(text.into())), None)
    }

    /// The tree, in parentheses if it is raw text. A bare tree that is not a valid name is raw text: names were
    /// checked, and raw text within a larger filter has its parentheses already.
    pub(super) fn enclosed(self) -> lazuli_model::Filter {
        match self.0 {
            lazuli_model::Filter::IsTrue(Property::Custom(text)) if !is_name(&text) => {
                let text = format!("({text})");
                lazuli_model::Filter::IsTrue(Property::Custom(text.into()))
            }
            tree => tree,
        }
    }
}

/// A property of the tree whose name is invalid in a filter.
pub(super) fn strange_name(tree: &lazuli_model::Filter) -> Option<&str> {
    use lazuli_model::Filter as F;
    let strange = |property: &'_ Property| !is_name(property.name());
    match tree {
        F::Constant(_) => None,
        F::Compare { property, .. } | F::IsTrue(property) => {
            strange(property).then(|| property.name())
        }
        F::Extended(extended) => {
            let property = &extended.term().property;
            strange(property).then(|| property.name())
        }
        F::Not(inner) => strange_name(inner),
        F::And(parts) | F::Or(parts) => parts.iter().find_map(strange_name),
    }
}

/// The text with a marked literal for each `@name` outside of literals.
fn marked(text: &str) -> Result<String, Error> {
    if text.contains(MARK) {
        return Err(Error::config("a filter may not hold U+0001"));
    }
    let mut out = String::with_capacity(text.len());
    let (mut in_literal, mut rest) = (false, text.chars().peekable());
    while let Some(character) = rest.next() {
        match character {
            '\'' => {
                in_literal = !in_literal;
                out.push(character);
            }
            '@' if !in_literal => {
                out.extend(['\'', MARK]);
                while let Some(part) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    out.push(part);
                }
                out.push('\'');
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

/// Replaces the marks by values.
fn bind(
    filter: &mut lazuli_model::Filter,
    value_of: &mut impl FnMut(&str) -> Result<Value, Error>,
) -> Result<(), Error> {
    use lazuli_model::Filter as F;
    match filter {
        F::Compare { value, .. } => {
            let name = match value {
                Value::String(text) => text.strip_prefix(MARK).map(str::to_owned),
                _ => None,
            };
            if let Some(name) = name {
                *value = value_of(&name)?;
            }
            Ok(())
        }
        F::Not(inner) => bind(inner, value_of),
        F::And(parts) | F::Or(parts) => parts.iter_mut().try_for_each(|part| bind(part, value_of)),
        F::Constant(_) | F::IsTrue(_) | F::Extended(_) => Ok(()),
    }
}

/// What `filter!` can bind: any stored type, by reference.
pub trait FilterValue {
    /// The value to compare with.
    fn filter_value(&self) -> Result<Value, EncodeError>;
}

impl<T: TableValue> FilterValue for T {
    fn filter_value(&self) -> Result<Value, EncodeError> {
        self.to_value()
    }
}

impl FilterValue for &str {
    fn filter_value(&self) -> Result<Value, EncodeError> {
        (*self).to_owned().to_value()
    }
}

impl FilterValue for str {
    fn filter_value(&self) -> Result<Value, EncodeError> {
        self.to_owned().to_value()
    }
}

/// A filter that `filter!` has checked at compile time, with its values.
pub fn checked_filter<const N: usize>(
    text: &str,
    values: [(&str, Result<Value, EncodeError>); N],
) -> Filter {
    let values = values.into_iter().map(|(name, value)| Ok((name, value?)));
    let filter = values.collect::<Result<Vec<_>, EncodeError>>().and_then(|values| {
        // The macro has parsed it: only an impossible date can still be wrong.
        Filter::parse(text, values).map_err(|error| EncodeError::Filter(error.to_string()))
    });
    filter.unwrap_or_else(|fault| Filter(lazuli_model::Filter::Constant(false), Some(fault)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{col, partition};

    #[test]
    fn values_are_bound_by_name_and_stay_values() {
        // C-7.1.
        let filter = Filter::parse("Age gt @a or Mail eq '@b'", [("a", 30.into())]).unwrap();
        assert_eq!(filter.to_string(), "Age gt 30 or Mail eq '@b'");
        assert!(Filter::parse("Age gt @a", []).is_err(), "no value");
        assert!(Filter::parse("Age gt 1", [("a", 30.into())]).is_err(), "a value too many");
        assert!(Filter::parse("Age >", []).is_err());
    }

    #[test]
    fn raw_text_is_sent_as_it_is_and_stays_one_condition() {
        let raw = Filter::raw("A eq 1 or B eq 2");
        assert_eq!(raw.to_string(), "A eq 1 or B eq 2");
        let both = partition("p").and(raw.clone());
        assert_eq!(both.to_string(), "PartitionKey eq 'p' and (A eq 1 or B eq 2)");
        assert_eq!((!raw).to_string(), "not ((A eq 1 or B eq 2))");
        // Parentheses at both ends need not match each other.
        let two = Filter::raw("(A eq 1) or (B eq 2)");
        let both = partition("p").and(two.clone());
        assert_eq!(both.to_string(), "PartitionKey eq 'p' and ((A eq 1) or (B eq 2))");
        assert_eq!(
            (two | partition("q")).to_string(),
            "((A eq 1) or (B eq 2)) or PartitionKey eq 'q'"
        );
        let once = partition("p").and(Filter::raw("(A eq 1)")).and(partition("q"));
        assert_eq!(once.to_string(), "PartitionKey eq 'p' and ((A eq 1)) and PartitionKey eq 'q'");
        assert_eq!((!col("Active").is_true()).to_string(), "not (Active)");
    }

    #[test]
    fn raw_text_is_not_logged() {
        // C-18.2: raw text may contain values.
        let filter = partition("p").and(Filter::raw("Ssn eq '078-05-1120'"));
        let shown = lazuli_wire::odata::filter::print_shape(&filter.0);
        assert_eq!(shown, "PartitionKey eq ? and ?");
    }
}
