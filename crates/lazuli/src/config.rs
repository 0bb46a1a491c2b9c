//! Where options meet: the command line and the environment win over the file, the file over the
//! defaults. Settings that exist do not contradict each other.

use crate::auth::AuthArguments;
use crate::cli::{DurabilityName, ServeOptions};
use crate::failure::with_hint;
use crate::logging::{LOG_QUEUE_LINES, LogSettings};
use crate::simulate::SimulateArguments;
use anyhow::Result;
use lazuli_engine_local::Durability;
use lazuli_server::{
    Account, Accounts, AccountsError, Profile, VersionCheck, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY,
};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

const DATA: &str = "lazuli-data";
const HOST: &str = "127.0.0.1";
const TABLE_PORT: u16 = 10002;
const DURABILITY: DurabilityName = DurabilityName(Durability::Sync);
const CONNECTIONS_MAX: u32 = 16 * 1024;
const CACHE_MIB: u32 = 128;
const LOG: &str = "info";
const LOG_SILENT: &str = "error";

/// All that the server is told.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) data: PathBuf,
    /// An address or a name.
    pub(crate) host: String,
    pub(crate) table_port: u16,
    /// Those beside the ones that are always taken.
    pub(crate) host_suffixes: Vec<String>,
    pub(crate) tls: TlsChoice,
    pub(crate) accounts: AccountsChoice,
    pub(crate) durability: DurabilityName,
    pub(crate) in_memory: bool,
    pub(crate) version_check: VersionCheck,
    pub(crate) profile: Profile,
    pub(crate) connections_max: u32,
    pub(crate) cache_mib: u32,
    /// `None`: what the engine thinks best.
    pub(crate) memtable_kib: Option<u32>,
    pub(crate) port_file: Option<PathBuf>,
    pub(crate) log: LogSettings,
    pub(crate) silent: bool,
    pub(crate) simulate: SimulateArguments,
    pub(crate) auth: AuthArguments,
}

/// Whether HTTPS is spoken, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TlsChoice {
    Off,
    SelfSigned,
    Files { certificate: PathBuf, key: PathBuf },
}

/// Which accounts are served.
#[derive(Debug)]
pub(crate) enum AccountsChoice {
    /// The one that every emulator has, whose key is public.
    WellKnown,
    Given(Vec<Account>),
}

impl AccountsChoice {
    pub(crate) fn list(&self) -> Result<Vec<Account>, AccountsError> {
        match self {
            Self::WellKnown => Accounts::parse(&format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}")),
            Self::Given(accounts) => Ok(accounts.clone()),
        }
    }
}

impl Settings {
    /// Reads the files that `given` names and fills in what is not said.
    pub(crate) fn load(given: ServeOptions) -> Result<Self> {
        let file = match &given.config {
            Some(path) => read(path)?,
            None => ServeOptions::default(),
        };
        let tls = tls(&given, &file)?;
        let accounts = match accounts(&given)? {
            Some(accounts) => Some(accounts),
            None => accounts(&file)?,
        };
        let given = given.or(file);
        Ok(Self {
            log: log(&given),
            tls,
            accounts: accounts.map_or(AccountsChoice::WellKnown, AccountsChoice::Given),
            version_check: version_check(&given)?,
            profile: given.profile.map_or(Profile::default(), Into::into),
            host_suffixes: host_suffixes(given.host_suffix.unwrap_or_default())?,
            data: given.data.unwrap_or_else(|| DATA.into()),
            host: given.host.unwrap_or_else(|| HOST.to_owned()),
            table_port: given.table_port.unwrap_or(TABLE_PORT),
            durability: given.durability.unwrap_or(DURABILITY),
            in_memory: given.in_memory.unwrap_or(false),
            connections_max: given.connections_max.map_or(CONNECTIONS_MAX, Into::into),
            cache_mib: given.cache_mib.unwrap_or(CACHE_MIB),
            memtable_kib: given.memtable_kib,
            port_file: given.port_file,
            silent: given.silent.unwrap_or(false),
            simulate: given.simulate,
            auth: given.auth,
        })
    }
}

impl ServeOptions {
    /// What is said here wins over what `file` says.
    fn or(self, file: Self) -> Self {
        Self {
            config: self.config,
            data: self.data.or(file.data),
            host: self.host.or(file.host),
            table_port: self.table_port.or(file.table_port),
            host_suffix: self.host_suffix.or(file.host_suffix),
            tls: self.tls.or(file.tls),
            tls_cert: self.tls_cert.or(file.tls_cert),
            tls_key: self.tls_key.or(file.tls_key),
            accounts: self.accounts.or(file.accounts),
            accounts_file: self.accounts_file.or(file.accounts_file),
            durability: self.durability.or(file.durability),
            in_memory: self.in_memory.or(file.in_memory),
            strict_versions: self.strict_versions.or(file.strict_versions),
            skip_api_version_check: self.skip_api_version_check.or(file.skip_api_version_check),
            profile: self.profile.or(file.profile),
            connections_max: self.connections_max.or(file.connections_max),
            cache_mib: self.cache_mib.or(file.cache_mib),
            memtable_kib: self.memtable_kib.or(file.memtable_kib),
            port_file: self.port_file.or(file.port_file),
            log: self.log.or(file.log),
            log_file: self.log_file.or(file.log_file),
            log_format: self.log_format.or(file.log_format),
            log_queue_lines: self.log_queue_lines.or(file.log_queue_lines),
            silent: self.silent.or(file.silent),
            simulate: self.simulate.or(file.simulate),
            auth: self.auth.or(file.auth),
        }
    }

    /// Paths of a file are relative to where the file is, wherever the server is started.
    fn relative_to(mut self, directory: &Path) -> Self {
        let paths = [
            &mut self.data,
            &mut self.tls_cert,
            &mut self.tls_key,
            &mut self.accounts_file,
            &mut self.port_file,
            &mut self.log_file,
        ];
        for path in paths.into_iter().flatten() {
            *path = directory.join(&path);
        }
        self.auth = self.auth.relative_to(directory);
        self
    }
}

/// Reads a configuration file.
fn read(path: &Path) -> Result<ServeOptions> {
    let text = read_text(path, "--config")?;
    let options = parse(&text).map_err(|problem| {
        let advice = "docs/configuration.md shows every option";
        with_hint(format!("{}, {problem}", path.display()), advice)
    })?;
    Ok(options.relative_to(path.parent().unwrap_or(Path::new(""))))
}

/// Parses the text of a configuration file. What is wrong is told by its line.
fn parse(text: &str) -> Result<ServeOptions, String> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        format!("line {}: {}", before.split('\n').count(), without_quoted(error.message()))
    })
}

/// A message without what it quotes of the file, which may be a key.
fn without_quoted(message: &str) -> String {
    match (message.split_once('"'), message.rsplit_once('"')) {
        (Some((before, _)), Some((_, after))) => format!("{before}…{after}"),
        _ => message.to_owned(),
    }
}

fn read_text(path: &Path, flag: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => format!("check the path given with {flag}"),
            io::ErrorKind::InvalidData => "it must be text in UTF-8".to_owned(),
            _ => "check that this user may read it".to_owned(),
        };
        with_hint(format!("cannot read {}: {error}", path.display()), advice)
    })
}

/// The accounts that one source names, directly or in a file.
fn accounts(source: &ServeOptions) -> Result<Option<Vec<Account>>> {
    let (from, list) = match (&source.accounts, &source.accounts_file) {
        (None, None) => return Ok(None),
        (Some(list), None) => ("account list".to_owned(), list.0.clone()),
        (None, Some(path)) => {
            let text = read_text(path, "--accounts-file")?;
            (path.display().to_string(), Accounts::parse(&text))
        }
        (Some(_), Some(_)) => {
            return Err(with_hint(
                "accounts are given twice: as a list and as a file",
                "keep one of accounts and accounts-file",
            ));
        }
    };
    let checked = list.and_then(|list| Accounts::new(list.clone()).map(|_| list));
    let accounts = checked.map_err(|error| {
        with_hint(
            format!("bad {from}: {error}"),
            "an account is name:key1 or name:key1:key2, with keys in base64",
        )
    })?;
    Ok(Some(accounts))
}

fn log(given: &ServeOptions) -> LogSettings {
    let level = given.log.as_deref().unwrap_or(LOG);
    let level = if given.silent == Some(true) { LOG_SILENT } else { level };
    LogSettings {
        filter: level.to_owned(),
        file: given.log_file.clone(),
        format: given.log_format,
        queue_lines: given.log_queue_lines.map_or(LOG_QUEUE_LINES, |lines| {
            NonZeroUsize::try_from(lines).unwrap_or(NonZeroUsize::MAX)
        }),
    }
}

/// A certificate given by hand wins over the switch, unless that is turned off by the same source
/// or by a stronger one.
fn tls(given: &ServeOptions, file: &ServeOptions) -> Result<TlsChoice> {
    let has_files = given.tls_cert.is_some() || given.tls_key.is_some();
    let off = match given.tls {
        Some(on) => !on,
        None => file.tls == Some(false) && !has_files,
    };
    if off {
        return Ok(TlsChoice::Off);
    }
    let certificate = given.tls_cert.as_ref().or(file.tls_cert.as_ref());
    let key = given.tls_key.as_ref().or(file.tls_key.as_ref());
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            Ok(TlsChoice::Files { certificate: certificate.clone(), key: key.clone() })
        }
        (Some(_), None) => Err(with_hint(
            "a certificate is given without its private key",
            "give the key's PEM file with --tls-key, or use --tls alone for a generated pair",
        )),
        (None, Some(_)) => Err(with_hint(
            "a private key is given without its certificate",
            "give the certificate's PEM file with --tls-cert, or use --tls alone for a generated pair",
        )),
        (None, None) if given.tls.or(file.tls) == Some(true) => Ok(TlsChoice::SelfSigned),
        (None, None) => Ok(TlsChoice::Off),
    }
}

fn version_check(options: &ServeOptions) -> Result<VersionCheck> {
    match (options.strict_versions == Some(true), options.skip_api_version_check == Some(true)) {
        (true, true) => Err(with_hint(
            "--strict-versions and --skip-api-version-check contradict each other",
            "keep one; --strict-versions=false turns off what a file says",
        )),
        (true, false) => Ok(VersionCheck::Strict),
        (false, true) => Ok(VersionCheck::Skip),
        (false, false) => Ok(VersionCheck::WellFormed),
    }
}

/// Suffixes without a leading dot, in lower case.
fn host_suffixes(given: Vec<String>) -> Result<Vec<String>> {
    let parse = |text: String| {
        let suffix = text.trim_start_matches('.').to_ascii_lowercase();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        match !suffix.is_empty() && suffix.bytes().all(plain) {
            true => Ok(suffix),
            false => Err(with_hint(
                format!("host suffix '{text}' is not part of a host name"),
                "give what follows the account's label, such as --host-suffix table.example.org",
            )),
        }
    };
    given.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests;
