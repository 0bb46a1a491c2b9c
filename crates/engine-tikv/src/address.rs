//! The address of a cluster: `tikv://pd1:2379,pd2:2379?ca=…&cert=…&key=…`.

use std::path::PathBuf;
use std::str::FromStr;

const DEFAULT_PORT: u16 = 2379;

/// Where the placement drivers of a cluster are, and the files for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TikvAddress {
    /// Host and port of each driver; at least one.
    pub(crate) drivers: Vec<String>,
    pub(crate) tls: Option<TlsFiles>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) ca: PathBuf,
    /// This process's certificate and key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// What is wrong with an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TikvAddressError {
    #[error("an address of a TiKV cluster begins with tikv://")]
    Scheme,
    #[error("'{0}' is not a host, or a host and a port")]
    Driver(String),
    #[error("TiKV takes no user and no password; use certificates (?ca=…&cert=…&key=…)")]
    Credentials,
    #[error("keyspaces (the part '/{0}') are not supported yet")]
    Keyspace(String),
    #[error("'{0}' is not an option of a TiKV address; there are ca, cert and key")]
    Option(String),
    #[error("cert and key go together, and need ca")]
    Identity,
}

impl FromStr for TikvAddress {
    type Err = TikvAddressError;

    fn from_str(text: &str) -> Result<Self, TikvAddressError> {
        let rest = text.strip_prefix("tikv://").ok_or(TikvAddressError::Scheme)?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (drivers, keyspace) = place.split_once('/').unwrap_or((place, ""));
        if drivers.contains('@') {
            return Err(TikvAddressError::Credentials);
        }
        if !keyspace.is_empty() {
            return Err(TikvAddressError::Keyspace(keyspace.to_owned()));
        }
        let drivers = drivers.split(',').map(driver).collect::<Result<_, _>>()?;
        Ok(Self { drivers, tls: tls_files(options)? })
    }
}

impl std::fmt::Display for TikvAddress {
    /// Leaves out the files: operators see it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tikv://{}", self.drivers.join(","))
    }
}

/// Host and port of a driver.
fn driver(text: &str) -> Result<String, TikvAddressError> {
    let wrong = || TikvAddressError::Driver(text.to_owned());
    let after_host = if text.starts_with('[') {
        text.split_once(']').ok_or_else(wrong)?.1
    } else {
        text.find(':').map_or("", |colon| text.get(colon..).unwrap_or_default())
    };
    let host = text.strip_suffix(after_host).unwrap_or(text);
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(wrong());
    }
    match after_host.strip_prefix(':') {
        None if after_host.is_empty() => Ok(format!("{host}:{DEFAULT_PORT}")),
        Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(text.to_owned()),
        _ => Err(wrong()),
    }
}

fn tls_files(options: &str) -> Result<Option<TlsFiles>, TikvAddressError> {
    let (mut ca, mut cert, mut key) = (None, None, None);
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let unknown = || TikvAddressError::Option(option.to_owned());
        let (name, value) = option.split_once('=').ok_or_else(unknown)?;
        let slot = match name {
            "ca" => &mut ca,
            "cert" => &mut cert,
            "key" => &mut key,
            _ => return Err(TikvAddressError::Option(name.to_owned())),
        };
        *slot = Some(PathBuf::from(value));
    }
    match (ca, cert, key) {
        (None, None, None) => Ok(None),
        (Some(ca), None, None) => Ok(Some(TlsFiles { ca, identity: None })),
        (Some(ca), Some(cert), Some(key)) => Ok(Some(TlsFiles { ca, identity: Some((cert, key)) })),
        _ => Err(TikvAddressError::Identity),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TikvAddress, TikvAddressError> {
        text.parse()
    }

    #[test]
    fn drivers_get_the_port_that_they_lack() {
        let address = parse("tikv://pd1,pd2:99,[::1]:7,[::1]").unwrap();
        assert_eq!(address.drivers, ["pd1:2379", "pd2:99", "[::1]:7", "[::1]:2379"]);
        assert_eq!(address.tls, None);
    }

    #[test]
    fn files_for_tls_are_options() {
        let address = parse("tikv://pd?ca=/a&cert=/c&key=/k").unwrap();
        let identity = Some(("/c".into(), "/k".into()));
        assert_eq!(address.tls, Some(TlsFiles { ca: "/a".into(), identity }));
        assert_eq!(address.to_string(), "tikv://pd:2379");
        assert_eq!(parse("tikv://pd?cert=/c&key=/k"), Err(TikvAddressError::Identity));
        assert_eq!(parse("tikv://pd?ca=/a&key=/k"), Err(TikvAddressError::Identity));
        assert_eq!(parse("tikv://pd?ka=/a"), Err(TikvAddressError::Option("ka".into())));
    }

    /// K-6.13, K-8.1.
    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        let driver = |text: &str| Err(TikvAddressError::Driver(text.into()));
        assert_eq!(parse("http://pd"), Err(TikvAddressError::Scheme));
        assert_eq!(parse("tikv://"), driver(""));
        assert_eq!(parse("tikv://pd1,"), driver(""));
        assert_eq!(parse("tikv://pd:port"), driver("pd:port"));
        assert_eq!(parse("tikv://pd:0"), driver("pd:0"));
        assert_eq!(parse("tikv://[::1"), driver("[::1"));
        assert_eq!(parse("tikv://user:secret@pd"), Err(TikvAddressError::Credentials));
        assert_eq!(parse("tikv://pd/space"), Err(TikvAddressError::Keyspace("space".into())));
    }
}
