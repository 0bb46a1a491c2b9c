//! Connection strings: `Name=Value` pairs with the endpoints and credentials of an account (C-2.2,
//! C-2.3).

use crate::shared_key::{InvalidKey, SigningKey};
use crate::uri::SECONDARY;
use std::fmt;

/// The account of the development services (T-1.1). Its key is public.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const SUFFIX: &str = "core.windows.net";

/// The services that a connection string can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageService {
    Blob,
    Queue,
    Table,
}

impl StorageService {
    pub const ALL: [Self; 3] = [Self::Blob, Self::Queue, Self::Table];

    /// The name, as host names have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Queue => "queue",
            Self::Table => "table",
        }
    }

    /// Where the development services listen.
    const fn development_port(self) -> u16 {
        match self {
            Self::Blob => 10000,
            Self::Queue => 10001,
            Self::Table => 10002,
        }
    }
}

/// A parsed connection string.
#[derive(Clone)]
pub struct ConnectionString {
    /// `None` if only the endpoints name it, or nothing does.
    pub account: Option<String>,
    pub credential: ConnectionCredential,
    endpoints: [Option<Endpoint>; 3],
    /// Unknown names.
    pub ignored: Vec<String>,
}

/// The endpoint of a service: `https://host[:port][/account]`, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub primary: String,
    pub secondary: String,
}

impl Endpoint {
    /// The endpoint at an address, and its usual secondary; `None` if the text is not an http or https
    /// address, or has more than a host and a path.
    pub fn parse(address: &str) -> Option<Self> {
        let primary = checked_address(address)?;
        Some(Self { secondary: secondary_of(&primary), primary })
    }
}

/// The credential. `Debug` does not show it.
#[derive(Clone)]
pub enum ConnectionCredential {
    Key(Box<SigningKey>),
    /// The token without a question mark.
    Sas(String),
    Anonymous,
}

impl fmt::Debug for ConnectionCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key(..)",
            Self::Sas(_) => "Sas(..)",
            Self::Anonymous => "Anonymous",
        })
    }
}

impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionString")
            .field("account", &self.account)
            .field("credential", &self.credential)
            .field("endpoints", &self.endpoints)
            .field("ignored", &self.ignored)
            .finish()
    }
}

/// Why a text is not a connection string. The message names the part, never its value (C-2.10).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionStringError {
    #[error("part {index} of the connection string has no `=`")]
    NoValue { index: usize },
    #[error("{name} is given twice in the connection string")]
    Duplicate { name: String },
    #[error("{name} in the connection string is empty")]
    Empty { name: &'static str },
    #[error("{name} in the connection string is not an http or https address")]
    NotAnAddress { name: String },
    #[error("DefaultEndpointsProtocol in the connection string is neither http nor https")]
    Protocol,
    #[error("UseDevelopmentStorage in the connection string must be true")]
    DevelopmentStorage,
    #[error("DevelopmentStorageProxyUri in the connection string must not have a port or a path")]
    ProxyHasPort,
    #[error("AccountKey in the connection string: {0}")]
    Key(#[from] InvalidKey),
    #[error("the connection string has an AccountKey but no AccountName")]
    KeyWithoutAccount,
    #[error("the connection string has both an AccountKey and a SharedAccessSignature")]
    TwoCredentials,
    #[error("the connection string names neither an AccountName nor an endpoint")]
    NoEndpoint,
}

impl ConnectionString {
    pub fn parse(text: &str) -> Result<Self, ConnectionStringError> {
        let mut settings = Settings::parse(text)?;
        let parsed = match settings.take("UseDevelopmentStorage") {
            Some(value) if value.eq_ignore_ascii_case("true") => development(&mut settings)?,
            Some(_) => return Err(ConnectionStringError::DevelopmentStorage),
            None => account(&mut settings)?,
        };
        let ignored = settings.0.into_iter().map(|(name, _)| name.to_owned()).collect();
        Ok(Self { ignored, ..parsed })
    }

    /// The endpoint of `service`; `None` if the text names neither it nor the account.
    pub fn endpoint(&self, service: StorageService) -> Option<&Endpoint> {
        self.endpoints.get(service as usize)?.as_ref()
    }
}

/// The pairs not consumed yet.
struct Settings<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Settings<'a> {
    fn parse(text: &'a str) -> Result<Self, ConnectionStringError> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for (index, part) in text.split(';').map(str::trim).enumerate() {
            if part.is_empty() {
                continue;
            }
            // Keys end in equals signs.
            let (name, value) =
                part.split_once('=').ok_or(ConnectionStringError::NoValue { index })?;
            let (name, value) = (name.trim(), value.trim());
            if pairs.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                return Err(ConnectionStringError::Duplicate { name: name.to_owned() });
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    fn take(&mut self, name: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(self.0.remove(at).1)
    }

    fn take_filled(
        &mut self,
        name: &'static str,
    ) -> Result<Option<&'a str>, ConnectionStringError> {
        match self.take(name) {
            Some("") => Err(ConnectionStringError::Empty { name }),
            value => Ok(value),
        }
    }
}

fn development(settings: &mut Settings<'_>) -> Result<ConnectionString, ConnectionStringError> {
    let base = match settings.take_filled("DevelopmentStorageProxyUri")? {
        Some(uri) => {
            let base = address("DevelopmentStorageProxyUri", uri)?;
            let (_, host) = base.split_once("://").unwrap_or_default();
            if after_literal(host).contains([':', '/']) {
                return Err(ConnectionStringError::ProxyHasPort);
            }
            base
        }
        None => "http://127.0.0.1".to_owned(),
    };
    let endpoint = |service: StorageService| {
        let primary = format!("{base}:{}/{DEVELOPMENT_ACCOUNT}", service.development_port());
        Some(Endpoint { secondary: format!("{primary}{SECONDARY}"), primary })
    };
    Ok(ConnectionString {
        account: Some(DEVELOPMENT_ACCOUNT.to_owned()),
        credential: ConnectionCredential::Key(SigningKey::from_base64(DEVELOPMENT_KEY)?.into()),
        endpoints: StorageService::ALL.map(endpoint),
        ignored: Vec::new(),
    })
}

fn account(settings: &mut Settings<'_>) -> Result<ConnectionString, ConnectionStringError> {
    let protocol = match settings.take("DefaultEndpointsProtocol") {
        None => "https",
        Some(text) if text.eq_ignore_ascii_case("https") => "https",
        Some(text) if text.eq_ignore_ascii_case("http") => "http",
        Some(_) => return Err(ConnectionStringError::Protocol),
    };
    let suffix = settings.take_filled("EndpointSuffix")?.unwrap_or(SUFFIX);
    let account = settings.take_filled("AccountName")?;
    let key = settings.take_filled("AccountKey")?;
    let sas = settings.take_filled("SharedAccessSignature")?;

    let mut endpoints = [None, None, None];
    for (service, slot) in StorageService::ALL.into_iter().zip(&mut endpoints) {
        let mut named = |kind: &str| {
            let name = format!("{}{kind}", capitalized(service.name()));
            settings.take(&name).map(|value| address(&name, value)).transpose()
        };
        let (primary, secondary) = (named("Endpoint")?, named("SecondaryEndpoint")?);
        let derived =
            || account.map(|account| format!("{protocol}://{account}.{}.{suffix}", service.name()));
        *slot = primary.or_else(derived).map(|primary| Endpoint {
            secondary: secondary.unwrap_or_else(|| secondary_of(&primary)),
            primary,
        });
    }
    if endpoints.iter().all(Option::is_none) {
        return Err(ConnectionStringError::NoEndpoint);
    }

    let credential = match (key, sas) {
        (Some(_), Some(_)) => return Err(ConnectionStringError::TwoCredentials),
        (Some(_), None) if account.is_none() => {
            return Err(ConnectionStringError::KeyWithoutAccount);
        }
        (Some(key), None) => ConnectionCredential::Key(SigningKey::from_base64(key)?.into()),
        (None, Some(sas)) => {
            ConnectionCredential::Sas(sas.strip_prefix('?').unwrap_or(sas).to_owned())
        }
        (None, None) => ConnectionCredential::Anonymous,
    };
    let account = account.map(str::to_owned);
    Ok(ConnectionString { account, credential, endpoints, ignored: Vec::new() })
}

/// The address that a setting names.
fn address(name: &str, value: &str) -> Result<String, ConnectionStringError> {
    checked_address(value)
        .ok_or_else(|| ConnectionStringError::NotAnAddress { name: name.to_owned() })
}

/// Checks an address and removes trailing slashes.
fn checked_address(value: &str) -> Option<String> {
    let (scheme, rest) = value.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let rest = rest.trim_end_matches('/');
    let host = rest.split('/').next().unwrap_or_default();
    let port = after_literal(host).split_once(':').map(|(_, port)| port);
    let is_address = matches!(&*scheme, "http" | "https")
        && !host.is_empty()
        && port.is_none_or(|port| port.parse::<u16>().is_ok())
        && !rest.contains(['?', '#', '@', '\\', ' '])
        && rest.is_ascii();
    is_address.then(|| format!("{scheme}://{rest}"))
}

/// What follows the IPv6 literal of a host, or all of it: the colons of a literal are in brackets.
fn after_literal(host: &str) -> &str {
    host.rsplit_once(']').map_or(host, |(_, after)| after)
}

/// The secondary location of an account: marked in the path if the address has one, else in the
/// first label of the host.
fn secondary_of(primary: &str) -> String {
    let host_at = primary.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = primary.split_at(host_at);
    if rest.contains('/') {
        return format!("{primary}{SECONDARY}");
    }
    match rest.split_once('.') {
        Some((label, others)) => format!("{scheme}{label}{SECONDARY}.{others}"),
        None => primary.to_owned(),
    }
}

fn capitalized(name: &str) -> String {
    let mut characters = name.chars();
    let first = characters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

#[cfg(test)]
mod tests;
