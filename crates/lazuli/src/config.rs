//! The settings of a server: its options from all sources, checked against each other. A `Settings`
//! value holds no contradictions.

use crate::cli::Cli;
use crate::engine_choice::{EngineChoice, Given};
use crate::logging::{LogFilter, LogSettings};
use crate::memory::Budget;
use crate::options::{self, Defaults, ServeOptions, read_text};
use anyhow::{Context, Result};
use clap::parser::ValueSource;
use lazuli_cli::failure::usage;
use lazuli_server::{
    Account, Accounts, AccountsError, Prices, VersionCheck, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY,
};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Everything the server is configured with.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) options: ServeOptions,
    pub(crate) log: LogSettings,
    pub(crate) tls: TlsChoice,
    pub(crate) accounts: AccountsChoice,
    pub(crate) version_check: VersionCheck,
    pub(crate) engine: EngineChoice,
    /// What the memory pools share; `None` when each has its own default.
    pub(crate) memory: Option<Budget>,
    pub(crate) prices: Prices,
}

/// Whether to serve HTTPS, and with which certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TlsChoice {
    Off,
    SelfSigned,
    Files { certificate: PathBuf, key: PathBuf },
}

/// Which accounts to serve.
#[derive(Debug)]
pub(crate) enum AccountsChoice {
    /// The emulator account, whose key is public.
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
    /// Reads the command line, the environment and the files they name. The memory pools get shares of `--memory`, or
    /// of `cgroup_bytes` if that is small.
    pub(crate) fn load(arguments: &[OsString], cgroup_bytes: Option<u64>) -> Result<Self> {
        let mut defaults = file_below(&serve_options(arguments, &Defaults::default())?)?;
        let mut options = serve_options(arguments, &defaults)?;
        let memory = Budget::find(options.bounds.memory, cgroup_bytes);
        if let Some(budget) = memory {
            for (option, mib) in budget.shares() {
                defaults.fill(option, mib.to_string());
            }
            options = serve_options(arguments, &defaults)?;
        }
        Ok(Self {
            log: log(&options),
            tls: tls(&options)?,
            accounts: accounts(&options)?.map_or(AccountsChoice::WellKnown, AccountsChoice::Given),
            version_check: version_check(&options)?,
            engine: EngineChoice::of(&options, given(arguments, &defaults)?)?,
            memory,
            prices: prices(&options)?,
            options,
        })
    }

    /// Whether the data directory lasts only as long as the process. A gateway keeps no data: a
    /// certificate or token that it generates is there.
    pub(crate) fn has_temporary_data(&self) -> bool {
        self.options.in_memory || !self.engine.is_local()
    }
}

fn serve_options(arguments: &[OsString], defaults: &Defaults) -> Result<ServeOptions> {
    let cli = Cli::read(arguments, defaults)?;
    cli.into_serve().context("this command does not serve")
}

/// The given options that `--engine` excludes.
fn given(arguments: &[OsString], defaults: &Defaults) -> Result<Given> {
    let matches = options::command(defaults).try_get_matches_from(arguments)?;
    let matches = matches.subcommand_matches("serve").unwrap_or(&matches);
    let source = |option: &str| matches.value_source(option);
    let is_given = |option: &str| {
        matches!(source(option), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
            || !defaults.of(option).is_empty()
    };
    Ok(Given {
        data: is_given("data"),
        durability: is_given("durability"),
        engine_by_flag: source("engine") == Some(ValueSource::CommandLine),
    })
}

/// The values of the configuration file that `given` does not override.
fn file_below(given: &ServeOptions) -> Result<Defaults> {
    let Some(path) = &given.config else { return Ok(Defaults::default()) };
    let mut defaults = Defaults::read(path)?;
    // Accounts come from one source, the one with the highest precedence, as a list or as a file.
    if given.accounts.is_some() || given.accounts_file.is_some() {
        defaults.remove("accounts");
        defaults.remove("accounts-file");
    }
    // A certificate given by flag wins over a file that turns HTTPS off.
    if given.tls_cert.is_some() || given.tls_key.is_some() {
        defaults.remove("tls");
    }
    Ok(defaults)
}

fn log(options: &ServeOptions) -> LogSettings {
    let filter = if options.silent { LogFilter::errors() } else { options.log.clone() };
    let queue_lines = NonZeroUsize::try_from(options.bounds.log_queue_lines);
    LogSettings {
        filter,
        file: options.log_file.clone(),
        format: options.log_format,
        queue_lines: queue_lines.unwrap_or(NonZeroUsize::MAX),
    }
}

/// The configured accounts, from the list or from the file.
fn accounts(options: &ServeOptions) -> Result<Option<Vec<Account>>> {
    let (from, list) = match (&options.accounts, &options.accounts_file) {
        (None, None) => return Ok(None),
        (Some(list), None) => ("--accounts".to_owned(), list.0.clone()),
        (None, Some(path)) => {
            let text = read_text(path, "--accounts-file")?;
            (format!("--accounts-file {}", path.display()), Accounts::parse(&text))
        }
        (Some(_), Some(_)) => {
            return Err(usage(
                "accounts are given twice: as a list and as a file",
                "use either --accounts or --accounts-file",
            ));
        }
    };
    let checked = list.and_then(|list| Accounts::new(list.clone()).map(|_| list));
    let accounts = checked.map_err(|error| {
        usage(
            format!("{from}: {error}"),
            "an account is name:key1 or name:key1:key2, with keys in base64",
        )
    })?;
    Ok(Some(accounts))
}

/// A given certificate overrides `--tls`, but not `--tls=false`.
fn tls(options: &ServeOptions) -> Result<TlsChoice> {
    match (options.tls, &options.tls_cert, &options.tls_key) {
        (Some(false), ..) | (None, None, None) => Ok(TlsChoice::Off),
        (Some(true), None, None) => Ok(TlsChoice::SelfSigned),
        (_, Some(certificate), Some(key)) => {
            Ok(TlsChoice::Files { certificate: certificate.clone(), key: key.clone() })
        }
        (_, Some(_), None) => Err(usage(
            "--tls-cert gives a certificate without its private key",
            "give the key's PEM file with --tls-key, or use --tls alone for a generated pair",
        )),
        (_, None, Some(_)) => Err(usage(
            "--tls-key gives a private key without its certificate",
            "give the certificate's PEM file with --tls-cert, or use --tls alone for a generated pair",
        )),
    }
}

/// The price table of the release, or of a file.
fn prices(options: &ServeOptions) -> Result<Prices> {
    let Some(path) = &options.prices else { return Ok(Prices::default()) };
    Prices::parse(&read_text(path, "--prices")?).map_err(|error| {
        usage(
            format!("--prices {}: {error}", path.display()),
            "begin with crates/server/prices.toml, which names every member",
        )
    })
}

fn version_check(options: &ServeOptions) -> Result<VersionCheck> {
    match (options.strict_versions, options.skip_api_version_check) {
        (true, true) => Err(usage(
            "--strict-versions and --skip-api-version-check contradict each other",
            "use one; --strict-versions=false overrides a file that turns it on",
        )),
        (true, false) => Ok(VersionCheck::Strict),
        (false, true) => Ok(VersionCheck::Skip),
        (false, false) => Ok(VersionCheck::WellFormed),
    }
}

#[cfg(test)]
mod tests;
