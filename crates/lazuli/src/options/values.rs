//! The types of option values that have their own syntax.

use anyhow::Result;
use clap::ValueEnum;
use lazuli_cli::failure::usage;
use lazuli_engine_local::Durability;
use lazuli_server::{AccessLines, Account, Accounts, AccountsError, ExtensionsMode, Profile};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// A profile by its name: see docs/portability.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileName {
    Azure,
    Lenient,
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Azure => "azure",
            Self::Lenient => "lenient",
        })
    }
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Azure => Self::Azure,
            ProfileName::Lenient => Self::Lenient,
        }
    }
}

/// Which requests may use extensions: see docs/extensions.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExtensionsName {
    Asked,
    Always,
    Never,
}

impl fmt::Display for ExtensionsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "asked",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}

impl From<ExtensionsName> for ExtensionsMode {
    fn from(name: ExtensionsName) -> Self {
        match name {
            ExtensionsName::Asked => Self::Asked,
            ExtensionsName::Always => Self::Always,
            ExtensionsName::Never => Self::Never,
        }
    }
}

/// Which requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessLinesName {
    Off,
    Errors,
    All,
}

impl From<AccessLinesName> for AccessLines {
    fn from(name: AccessLinesName) -> Self {
        match name {
            AccessLinesName::Off => Self::Off,
            AccessLinesName::Errors => Self::Errors,
            AccessLinesName::All => Self::All,
        }
    }
}

/// Where the admin listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminChoice {
    Off,
    /// The default address, if it is free.
    Auto,
    At {
        host: String,
        port: u16,
    },
}

impl AdminChoice {
    pub(crate) const PORT: u16 = 10003;
}

impl FromStr for AdminChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => return Ok(Self::Off),
            "auto" => return Ok(Self::Auto),
            _ => {}
        }
        let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        match parts.map(|(host, port)| (host, port.parse())) {
            Some((host, Ok(port))) => Ok(Self::At { host: host.to_owned(), port }),
            _ => Err("expected ADDRESS:PORT, `auto` or `off`".to_owned()),
        }
    }
}

/// A durability by its name: `sync`, `interval=<ms>` or `memory`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurabilityName(pub(crate) Durability);

impl FromStr for DurabilityName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected `sync`, `interval=<milliseconds>` or `memory`";
        match text {
            "sync" => Ok(Self(Durability::Sync)),
            "memory" => Ok(Self(Durability::Memory)),
            other => match other.strip_prefix("interval=").and_then(|ms| ms.parse().ok()) {
                Some(ms @ 1..=60_000) => Ok(Self(Durability::Interval(Duration::from_millis(ms)))),
                Some(_) => Err("the interval must be 1 to 60000 milliseconds".to_owned()),
                None => Err(EXPECTED.to_owned()),
            },
        }
    }
}

impl fmt::Display for DurabilityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Durability::Sync => f.write_str("sync"),
            Durability::Interval(interval) => write!(f, "interval={}", interval.as_millis()),
            Durability::Memory => f.write_str("memory"),
        }
    }
}

/// A list of accounts, `name:key1[:key2];…`, or why it cannot be used.
///
/// Parsing never fails, because clap's error message would show the text and thus the keys.
#[derive(Clone, Debug)]
pub(crate) struct AccountList(pub(crate) Result<Vec<Account>, AccountsError>);

impl AccountList {
    pub(crate) fn parse(text: &str) -> Result<Self, Infallible> {
        Ok(Self(Accounts::parse(text)))
    }
}

/// A host name, such as `db.example.org`, in lower case.
pub(crate) fn host_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("expected a host name, such as db.example.org".to_owned()),
    }
}

/// The part of a host name after its first label, with or without the dot between them.
pub(crate) fn host_suffix(text: &str) -> Result<String, String> {
    host_name(text.trim_start_matches('.')).map_err(|_| {
        "expected what follows the account in a host name, such as table.example.org".to_owned()
    })
}

/// An address that a browser can open.
pub(crate) fn web_address(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|},".contains(&byte);
    match rest {
        Some(rest) if !rest.is_empty() && rest.bytes().all(is_plain) => Ok(text.to_owned()),
        _ => Err("expected an http or https URL".to_owned()),
    }
}

/// Reads a text file that the option `flag` names.
pub(crate) fn read_text(path: &Path, flag: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => format!("check the path given with {flag}"),
            io::ErrorKind::InvalidData => "it must be text in UTF-8".to_owned(),
            _ => "check that this user may read it".to_owned(),
        };
        usage(format!("cannot read {}: {error}", path.display()), advice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_listener_has_an_address_and_a_port() {
        let at = |host: &str, port| Ok(AdminChoice::At { host: host.to_owned(), port });
        assert_eq!("127.0.0.1:10003".parse(), at("127.0.0.1", 10003));
        assert_eq!("[::1]:0".parse(), at("[::1]", 0));
        assert_eq!("off".parse(), Ok(AdminChoice::Off));
        for bad in ["", "on", "10003", ":10003", "127.0.0.1", "127.0.0.1:70000", "[::1]"] {
            assert!(bad.parse::<AdminChoice>().is_err(), "{bad}");
        }
    }

    #[test]
    fn durability_is_one_of_three() {
        for text in ["sync", "interval=50", "memory"] {
            assert_eq!(DurabilityName::from_str(text).unwrap().to_string(), text);
        }
        for bad in ["", "fast", "interval", "interval=", "interval=0", "interval=-1"] {
            assert!(DurabilityName::from_str(bad).is_err(), "{bad}");
        }
    }
}
