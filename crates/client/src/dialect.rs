//! Services that speak the protocol differ in their guarantees and limits (C-19.6).

use crate::entity::Properties;
use crate::error::{Error, ErrorKind};
use lazuli_model::EntityKey;
use lazuli_model::limits::REQUEST_BODY_BYTES_MAX;

/// A service that speaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// Azure Table Storage.
    Azure,
    /// Cosmos DB for Table: it does not sort, and has its own limits.
    Cosmos,
    /// Azurite, or Lazuli on the same ports: what holds for Azure holds for both.
    Local,
}

/// Property names that Cosmos reserves.
const COSMOS_NAMES: [&str; 4] = ["id", "rid", "etag", "ResourceId"];
/// The longest row key that Cosmos accepts.
const COSMOS_ROW_KEY_BYTES_MAX: usize = 255;
/// The largest transaction that Cosmos accepts.
const COSMOS_BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

impl Dialect {
    /// Whether entities are returned in key order.
    pub const fn sorts(self) -> bool {
        !matches!(self, Self::Cosmos)
    }

    /// The largest body of a transaction.
    pub(crate) const fn batch_bytes_max(self) -> usize {
        match self {
            Self::Cosmos => COSMOS_BATCH_BYTES_MAX,
            Self::Azure | Self::Local => REQUEST_BODY_BYTES_MAX,
        }
    }

    /// Checks the limits that all services have, and those of this one. A local service may accept more, but a program
    /// tested with it will run elsewhere later.
    pub(crate) fn check(self, key: &EntityKey, properties: &Properties) -> Result<(), Error> {
        properties.check(key)?;
        if self != Self::Cosmos {
            return Ok(());
        }
        let bytes = key.row.as_str().len();
        if bytes > COSMOS_ROW_KEY_BYTES_MAX {
            let bytes_max = COSMOS_ROW_KEY_BYTES_MAX as u64;
            return Err(Error::new(ErrorKind::TooLarge { bytes: bytes as u64, bytes_max }).with(
                |context| context.hint = Some("Cosmos DB has row keys of 255 bytes".into()),
            ));
        }
        match COSMOS_NAMES.into_iter().find(|name| properties.has(name)) {
            Some(name) => {
                Err(Error::new(ErrorKind::Name(name.to_owned(), "property in Cosmos DB")))
            }
            None => Ok(()),
        }
    }

    /// Recognized by the host of an endpoint.
    pub(crate) fn of(endpoint: &str) -> Self {
        let uri: Option<http::Uri> = endpoint.parse().ok();
        let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
        if host.contains(".table.cosmos.") || host.contains(".table.cosmosdb.") {
            Self::Cosmos
        } else if host.contains(".table.core.") {
            Self::Azure
        } else {
            Self::Local
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::IntoValue;

    #[test]
    fn the_host_tells() {
        for (endpoint, dialect) in [
            ("https://a.table.core.windows.net", Dialect::Azure),
            ("https://a.table.core.chinacloudapi.cn", Dialect::Azure),
            ("https://a.table.cosmos.azure.com:443", Dialect::Cosmos),
            ("https://a.table.cosmosdb.azure.com", Dialect::Cosmos),
            ("http://127.0.0.1:10002/devstoreaccount1", Dialect::Local),
            ("http://[::1]:10002/a", Dialect::Local),
            ("", Dialect::Local),
        ] {
            assert_eq!(Dialect::of(endpoint), dialect, "{endpoint}");
        }
    }

    #[test]
    fn cosmos_has_limits_of_its_own() {
        // C-19.6.
        let entity = |row: &str, name: &'static str| {
            let mut properties = Properties::default();
            properties.push(name, 1.into_value());
            (EntityKey::parse("p", row).unwrap(), properties)
        };
        let long = "r".repeat(256);
        for (row, name, fits) in [
            ("r", "Age", true),
            (&long[..255], "Age", true),
            (&long, "Age", false),
            ("r", "id", false),
            ("r", "rid", false),
            ("r", "etag", false),
            ("r", "ResourceId", false),
            ("r", "Id", true),
        ] {
            let (key, properties) = entity(row, name);
            assert_eq!(Dialect::Cosmos.check(&key, &properties).is_ok(), fits, "{name} {row}");
            assert!(Dialect::Azure.check(&key, &properties).is_ok());
        }
        assert!(!Dialect::Cosmos.sorts() && Dialect::Local.sorts());
        assert_eq!(Dialect::Cosmos.batch_bytes_max() * 2, Dialect::Azure.batch_bytes_max());
    }
}
