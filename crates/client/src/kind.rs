//! Distinguishes the entities of several types in one table (C-6).

use crate::filter::{Filter, property};
use lazuli_model::Operator;
use std::borrow::Cow;

/// The discriminator of a type, and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The property that stores it, `EntityType` unless the type says otherwise.
    pub property: &'static str,
    /// The name of the kind.
    pub name: &'static str,
    /// The version of the type that this program knows, from 1.
    pub version: u32,
}

impl Kind {
    /// The default property.
    pub const PROPERTY: &'static str = "EntityType";

    /// The stored text: `Employee`, from version 2 on `Employee.2` (C-6.4).
    pub fn text(self) -> Cow<'static, str> {
        text_of(self.name, self.version)
    }

    /// The version in a stored text, if it is of this kind.
    pub fn version_of(self, text: &str) -> Option<u32> {
        version_of(self.name, text)
    }

    /// The entities of this kind, in all versions that this program knows.
    pub(crate) fn filter(self) -> Filter {
        let of = |version| {
            let value = lazuli_model::Value::String(text_of(self.name, version));
            Filter::compare(property(self.property), Operator::Eq, Ok(value))
        };
        (2..=self.version).fold(of(1), |filter, version| filter.or(of(version)))
    }
}

/// The version in a stored text, if it is of the kind `name`.
pub(crate) fn version_of(name: &str, text: &str) -> Option<u32> {
    match text.strip_prefix(name)? {
        "" => Some(1),
        suffix => {
            let version = suffix.strip_prefix('.')?.parse().ok()?;
            (version > 1 && text_of(name, version) == text).then_some(version)
        }
    }
}

fn text_of(name: &str, version: u32) -> Cow<'_, str> {
    match version {
        0 | 1 => Cow::Borrowed(name),
        later => Cow::Owned(format!("{name}.{later}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_kind_holds_its_version_from_the_second_on() {
        // C-6.4.
        let kind = |version| Kind { property: Kind::PROPERTY, name: "Employee", version };
        assert_eq!((kind(1).text().as_ref(), kind(2).text().as_ref()), ("Employee", "Employee.2"));
        for (text, version) in [
            ("Employee", Some(1)),
            ("Employee.2", Some(2)),
            ("Employee.17", Some(17)),
            ("Employee.1", None),
            ("Employee.02", None),
            ("Employee.x", None),
            ("Employees", None),
            ("employee", None),
        ] {
            assert_eq!(kind(1).version_of(text), version, "{text}");
        }
        assert_eq!(kind(1).filter().to_string(), "EntityType eq 'Employee'");
        assert_eq!(
            kind(2).filter().to_string(),
            "EntityType eq 'Employee' or EntityType eq 'Employee.2'"
        );
    }
}
