//! JSON in answers that this library does not take apart.

use crate::error::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;

/// JSON as a server gave it. Its text is what `Display` writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerJson(serde_json::Value);

impl ServerJson {
    /// The value as a type that serde can put together.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(&self.0).map_err(Error::protocol)
    }

    /// The text of a member; `None` if there is none, or it is no text.
    pub fn text(&self, member: &str) -> Option<&str> {
        self.0.get(member)?.as_str()
    }
}

impl fmt::Display for ServerJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_text_a_type_and_its_members() {
        let text = r#"{"Age":34,"Name":"Kwok"}"#;
        let value: ServerJson = serde_json::from_str(text).unwrap();
        assert_eq!(value.to_string(), text);
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        assert_eq!(
            (value.text("Name"), value.text("Age"), value.text("x")),
            (Some("Kwok"), None, None)
        );
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Employee {
            age: i32,
        }
        assert_eq!(value.parse::<Employee>().unwrap().age, 34);
        assert!(value.parse::<Vec<i32>>().is_err());
    }
}
