//! The services that can be served, by name.

use std::fmt;
use std::str::FromStr;

/// A service that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceName {
    Table,
    Queue,
}

impl ServiceName {
    const ALL: [Self; 2] = [Self::Table, Self::Queue];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Queue => "queue",
        }
    }
}

/// The services to serve: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceList(Vec<ServiceName>);

impl ServiceList {
    pub(crate) fn iter(&self) -> impl Iterator<Item = ServiceName> {
        self.0.iter().copied()
    }

    pub(crate) fn serves(&self, name: ServiceName) -> bool {
        self.0.contains(&name)
    }
}

impl Default for ServiceList {
    fn default() -> Self {
        Self(ServiceName::ALL.to_vec())
    }
}

impl FromStr for ServiceList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |word: &str| ServiceName::ALL.into_iter().find(|name| name.as_str() == word);
        let named: Option<Vec<_>> = text.split(',').map(|word| parse(word.trim())).collect();
        let named = named.ok_or("expected `table`, `queue` or `table,queue`")?;
        Ok(Self(ServiceName::ALL.into_iter().filter(|name| named.contains(name)).collect()))
    }
}

impl fmt::Display for ServiceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_named_in_any_order() {
        for (text, shown) in
            [("queue", "queue"), ("queue, table", "table,queue"), ("table,table", "table")]
        {
            assert_eq!(text.parse::<ServiceList>().unwrap().to_string(), shown);
        }
        assert_eq!(ServiceList::default().to_string(), "table,queue");
        for bad in ["", "blob", "table,", "table;queue"] {
            assert!(bad.parse::<ServiceList>().is_err(), "{bad}");
        }
    }
}
