//! Accounts by name: `~/.config/lazuli/profiles.toml` (O-9.2).
//!
//! ```toml
//! [production]
//! connection-string = "DefaultEndpointsProtocol=https;AccountName=…;AccountKey=…"
//!
//! [reports]
//! endpoint = "https://reports.table.core.windows.net"
//! sas = "sv=…&sig=…"
//! ```
//!
//! A table has options of the command line by name. Messages never quote the file, because it contains
//! secrets.

use crate::connect::Parts;
use crate::failure::{usage, with_hint};
use crate::output::Output;
use anyhow::Result;
use lazuli_client::Secret;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

const KEYS: &str = "connection-string, endpoint, account, key, sas and token";

/// Reads the account of profile `name`.
pub(crate) fn read(name: &str, out: &Output) -> Result<Parts> {
    let path = path().ok_or_else(|| {
        with_hint("the home directory is unknown", "set HOME or XDG_CONFIG_HOME, or use -c")
    })?;
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let problem = format!("profile {name:?}: cannot read {}: {error}", path.display());
        usage(problem, format!("a profile is a table [{name}] with {KEYS}"))
    })?;
    if others_can_read(&path) {
        out.warn(format_args!("others can read {}: chmod 600 hides its keys", path.display()));
    }
    parse(&text, name).map_err(|problem| {
        let advice = format!("a profile is a table [{name}] with {KEYS}");
        usage(format!("{}: {problem}", path.display()), advice)
    })
}

fn path() -> Option<PathBuf> {
    let directory = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let configuration = directory("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || directory("HOME").map(|home| Path::new(&home).join(".config"));
    Some(configuration.or_else(home)?.join("lazuli").join("profiles.toml"))
}

#[cfg(unix)]
fn others_can_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn others_can_read(_path: &Path) -> bool {
    false
}

fn parse(text: &str, name: &str) -> Result<Parts, String> {
    let document = DeTable::parse(text).map_err(|_| "it is not TOML".to_owned())?;
    let profile = document.get_ref().get(name).ok_or_else(|| {
        let names: Vec<&str> = document.get_ref().keys().map(|key| &**key.get_ref()).collect();
        format!("there is no profile {name:?}; it has {}", names.join(", "))
    })?;
    let DeValue::Table(table) = profile.get_ref() else {
        return Err(format!("{name} is not a table"));
    };
    let mut parts = Parts::default();
    for (key, value) in table {
        let DeValue::String(value) = value.get_ref() else {
            return Err(format!("{name}.{}: expected a string", key.get_ref()));
        };
        let secret = || Some(Secret::new(&**value));
        match &**key.get_ref() {
            "connection-string" => parts.connection_string = secret(),
            "endpoint" => parts.endpoint = Some(value.to_string()),
            "account" => parts.account = Some(value.to_string()),
            "key" => parts.key = secret(),
            "sas" => parts.sas = secret(),
            "token" => parts.token = secret(),
            other => return Err(format!("{name}.{other}: unknown key")),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
        [production]
        connection-string = 'AccountName=a;AccountKey=a2V5'
        [reports]
        endpoint = 'https://reports.example.org'
        sas = 'sig=a'
        [broken]
        colour = 'blue'
        [wrong]
        key = 7
    ";

    #[test]
    fn a_profile_is_found_by_name() {
        let parts = parse(FILE, "reports").unwrap();
        assert_eq!(parts.endpoint.as_deref(), Some("https://reports.example.org"));
        assert_eq!(parts.sas.unwrap().expose(), "sig=a");
        assert!(parse(FILE, "production").unwrap().connection_string.is_some());
    }

    #[test]
    fn what_is_wrong_is_named_and_no_secret_is_quoted() {
        let problem = |name| parse(FILE, name).unwrap_err();
        assert!(problem("nobody").contains("production, reports"), "{}", problem("nobody"));
        assert!(problem("broken").contains("broken.colour"));
        assert!(problem("wrong").contains("wrong.key: expected a string"));
        let torn = parse("[a]\nkey = 'c2VjcmV0", "a").unwrap_err();
        assert!(!torn.contains("c2VjcmV0"), "{torn}");
    }
}
