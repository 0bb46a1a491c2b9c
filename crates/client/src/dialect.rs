//! Services that speak the protocol differ in what they promise (C-19.6).

/// A service that speaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// Azure Table Storage.
    Azure,
    /// Cosmos DB for Table: it does not sort, and has limits of its own.
    Cosmos,
    /// Azurite, or Lazuli on the same ports: what holds for Azure holds for both.
    Local,
}

impl Dialect {
    /// Told by the host of an endpoint.
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
}
