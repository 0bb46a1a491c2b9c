//! The command line: commands, flags, and the spellings that Azurite's users know.
//!
//! [`ServeOptions`] is also what a configuration file may say: a flag without its dashes is a key of
//! the file, in the table `auth` for [`AuthArguments`] and `simulate` for [`SimulateArguments`]. Nothing is filled in here; defaults are given in `config`, where the sources meet.

use crate::auth::AuthArguments;
use crate::logging::LogFormat;
use crate::simulate::SimulateArguments;
use clap::{Args, Parser, Subcommand, ValueEnum};
use lazuli_engine_local::Durability;
use lazuli_server::{Account, Accounts, AccountsError, Profile};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use std::convert::Infallible;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Azure Table Storage on your own machine: any Azure SDK connects and notices nothing.
///
/// Without a command, `lazuli` serves: it listens on port 10002 with the well-known development
/// account, keeps its data in ./lazuli-data, and prints a ready connection string.
#[derive(Debug, Parser)]
#[command(
    name = "lazuli",
    version,
    args_conflicts_with_subcommands = true,
    // Of a flag given twice the last counts, so that a script's flags can be followed by others.
    args_override_self = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the Table API (what `lazuli` does without a command)
    Serve(Box<ServeOptions>),
    /// Print the versions of the program, the protocol and the data format
    Version,
}

/// What the server can be told, by one source. A switch may be turned off again: `--tls=false`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ServeOptions {
    /// Read options from a TOML file; flags and the environment win over it. SIGHUP reads its
    /// accounts again
    #[arg(long, value_name = "FILE", env = "LAZULI_CONFIG")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,

    /// Directory that holds the data; made when absent [default: lazuli-data]
    #[arg(short = 'l', long, value_name = "DIR", env = "LAZULI_DATA", alias = "location")]
    pub(crate) data: Option<PathBuf>,

    /// Address or name to listen on; 0.0.0.0 opens the service to the network [default: 127.0.0.1]
    #[arg(long, value_name = "HOST", env = "LAZULI_HOST", alias = "tableHost")]
    pub(crate) host: Option<String>,

    /// Port of the Table service; 0 takes a free one [default: 10002]
    #[arg(long, value_name = "PORT", env = "LAZULI_TABLE_PORT", alias = "tablePort")]
    pub(crate) table_port: Option<u16>,

    /// Take `account.SUFFIX` as a host that names the account; may be repeated. `table.localhost`
    /// and `table.core.windows.net` are always taken
    #[arg(long, value_name = "SUFFIX")]
    pub(crate) host_suffix: Option<Vec<String>>,

    /// Speak HTTPS, with a self-signed certificate that is made once and kept with the data
    #[arg(
        long,
        value_name = "BOOL",
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) tls: Option<bool>,

    /// Speak HTTPS with the certificate in this PEM file, its chain after it; needs --tls-key.
    /// SIGHUP reads both again
    #[arg(long, value_name = "FILE", env = "LAZULI_TLS_CERT", alias = "cert")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert, a PEM file without a password
    #[arg(long, value_name = "FILE", env = "LAZULI_TLS_KEY", alias = "key")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Accounts as `name:key1[:key2];…` instead of the well-known development account
    #[arg(
        long,
        value_name = "LIST",
        env = "LAZULI_ACCOUNTS",
        hide_env_values = true,
        value_parser = AccountList::parse
    )]
    pub(crate) accounts: Option<AccountList>,

    /// File of accounts, `name:key1[:key2]` line by line; SIGHUP reads it again
    #[arg(long, value_name = "FILE", env = "LAZULI_ACCOUNTS_FILE")]
    pub(crate) accounts_file: Option<PathBuf>,

    /// When a write counts as done: `sync` (on disk), `interval=<ms>` (a crash of the machine may
    /// lose that much), `memory` (the system writes when it likes) [default: sync]
    #[arg(long, value_name = "WHEN", env = "LAZULI_DURABILITY")]
    pub(crate) durability: Option<DurabilityName>,

    /// Keep nothing: use a temporary directory and remove it at the end
    #[arg(
        long,
        alias = "inMemoryPersistence",
        value_name = "BOOL",
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) in_memory: Option<bool>,

    /// Refuse `x-ms-version` values this program does not know, as the cloud does, instead of
    /// serving them with the nearest known behaviour
    #[arg(
        long,
        value_name = "BOOL",
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) strict_versions: Option<bool>,

    /// Accept any text as `x-ms-version`
    #[arg(
        long,
        alias = "skipApiVersionCheck",
        value_name = "BOOL",
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) skip_api_version_check: Option<bool>,

    /// Whose rules requests must keep: `azure`, or `lenient`, which takes what emulators take and
    /// marks each such answer with `x-lazuli-would-fail` [default: azure]
    #[arg(long, value_name = "PROFILE", env = "LAZULI_PROFILE")]
    pub(crate) profile: Option<ProfileName>,

    /// Connections served at once; more are answered ServerBusy [default: 16384]
    #[arg(long, value_name = "N")]
    pub(crate) connections_max: Option<NonZeroU32>,

    /// Memory for stored blocks that reads share, in MiB [default: 128]
    #[arg(long, value_name = "MIB", env = "LAZULI_CACHE_MIB")]
    pub(crate) cache_mib: Option<u32>,

    /// For tests: flush write buffers of this size, in KiB
    #[arg(long, value_name = "KIB", hide = true)]
    #[serde(skip)]
    pub(crate) memtable_kib: Option<u32>,

    /// Write the addresses served to FILE, as JSON, once requests are taken
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,

    /// What to log: error, warn, info, debug, trace, or a filter such as `lazuli_server=debug`
    /// [default: info]
    #[arg(long, value_name = "LEVEL", env = "LAZULI_LOG")]
    pub(crate) log: Option<String>,

    /// Append the log to FILE instead of standard error; SIGHUP opens it again
    #[arg(long, value_name = "FILE", env = "LAZULI_LOG_FILE")]
    pub(crate) log_file: Option<PathBuf>,

    /// How the log is written [default: human on a terminal, json otherwise]
    #[arg(long, value_name = "FORMAT", env = "LAZULI_LOG_FORMAT")]
    pub(crate) log_format: Option<LogFormat>,

    /// Lines of the log that may wait to be written; more are dropped and counted [default: 8192]
    #[arg(long, value_name = "N")]
    pub(crate) log_queue_lines: Option<NonZeroU32>,

    /// Print and log nothing but errors
    #[arg(
        short = 's',
        long,
        value_name = "BOOL",
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) silent: Option<bool>,

    #[command(flatten)]
    pub(crate) simulate: SimulateArguments,

    #[command(flatten)]
    pub(crate) auth: AuthArguments,
}

/// A profile by its name: see docs/portability.md.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProfileName {
    Azure,
    Lenient,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Azure => Self::Azure,
            ProfileName::Lenient => Self::Lenient,
        }
    }
}

/// A durability by its name: `sync`, `interval=<ms>` or `memory`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
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
                Some(_) => Err("an interval is 1 to 60000 milliseconds".to_owned()),
                None => Err(EXPECTED.to_owned()),
            },
        }
    }
}

impl TryFrom<String> for DurabilityName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
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

/// A list of accounts, or why it is none: `name:key1[:key2];…`, and in a file also a list of tables
/// with `name`, `key1` and `key2`.
///
/// Reading it never fails, since the message of a failure would show its text, and with it keys.
#[derive(Clone, Debug)]
pub(crate) struct AccountList(pub(crate) Result<Vec<Account>, AccountsError>);

impl AccountList {
    fn parse(text: &str) -> Result<Self, Infallible> {
        Ok(Self(Accounts::parse(text)))
    }
}

impl<'de> Deserialize<'de> for AccountList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherForm;

        impl<'de> Visitor<'de> for EitherForm {
            type Value = AccountList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("accounts, each with name, key1 and key2")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AccountList, E> {
                Ok(AccountList(Accounts::parse(text)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<AccountList, A::Error> {
                let mut accounts = Vec::new();
                while let Some(entry) = list.next_element::<AccountEntry>()? {
                    accounts.push(entry.parse(accounts.len() + 1));
                }
                Ok(AccountList(accounts.into_iter().collect()))
            }
        }

        deserializer.deserialize_any(EitherForm)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountEntry {
    name: String,
    key1: String,
    key2: Option<String>,
}

impl AccountEntry {
    fn parse(&self, place: usize) -> Result<Account, AccountsError> {
        let keys = std::iter::once(self.key1.as_str()).chain(self.key2.as_deref());
        Account::parse(place, &self.name, keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn serve(line: &str) -> ServeOptions {
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        match cli.command {
            Some(Command::Serve(options)) => *options,
            Some(Command::Version) => panic!("not serve"),
            None => cli.serve,
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn lazuli_is_lazuli_serve() {
        assert_eq!(serve("lazuli --table-port 1").table_port, Some(1));
        assert_eq!(serve("lazuli serve --table-port 1").table_port, Some(1));
    }

    #[test]
    fn azurite_spellings_work() {
        let options = serve(
            "lazuli --location /d --tableHost 0.0.0.0 --tablePort 7 --inMemoryPersistence \
             --skipApiVersionCheck --silent --cert c.pem --key k.pem",
        );
        assert_eq!(options.data, Some(PathBuf::from("/d")));
        assert_eq!(options.host.as_deref(), Some("0.0.0.0"));
        assert_eq!(options.table_port, Some(7));
        let switches = [options.in_memory, options.skip_api_version_check, options.silent];
        assert_eq!(switches, [Some(true); 3]);
        assert_eq!(options.tls_cert, Some(PathBuf::from("c.pem")));
        assert_eq!(options.tls_key, Some(PathBuf::from("k.pem")));
    }

    #[test]
    fn switches_turn_on_and_off_and_take_no_next_word() {
        assert_eq!(serve("lazuli --tls -s").silent, Some(true));
        assert_eq!(serve("lazuli --tls=false").tls, Some(false));
        assert_eq!(serve("lazuli").tls, None);
        assert!(Cli::try_parse_from(["lazuli", "--tls", "false"]).is_err());
    }

    #[test]
    fn the_last_flag_counts_and_suffixes_add_up() {
        assert_eq!(serve("lazuli --table-port 1 --table-port 2").table_port, Some(2));
        assert_eq!(serve("lazuli serve --host a --host b").host.as_deref(), Some("b"));
        let suffixes = serve("lazuli --host-suffix a.b --host-suffix c").host_suffix;
        assert_eq!(suffixes, Some(vec!["a.b".to_owned(), "c".to_owned()]));
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

    #[test]
    fn keys_are_not_shown() {
        let options = serve("lazuli --accounts abc:c2VjcmV0");
        assert!(!format!("{options:?}").contains("c2VjcmV0"));
        let options = serve("lazuli --accounts abc:c2VjcmV0!");
        assert!(options.accounts.unwrap().0.is_err());
    }
}
