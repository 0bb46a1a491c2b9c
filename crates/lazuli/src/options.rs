//! Every option of the server, declared once: flag, help, type and default.
//!
//! The other names follow from the flag: `--cache-mib` is `LAZULI_CACHE_MIB` in the environment and
//! `cache-mib` in a configuration file. To add an option, add a field here and use it: `names.rs`
//! derives its names, `file.rs` reads it from a file, and a test adds it to
//! `docs/configuration.md`.

mod bounds;
mod engine;
mod file;
mod names;
mod services;
mod values;

pub(crate) use bounds::{Bounds, MIB, MemorySize};
pub(crate) use engine::{EngineArguments, EngineText};
pub(crate) use file::Defaults;
pub(crate) use names::{command, with_variable, with_variables};
pub(crate) use services::{ServiceList, ServiceName};
pub(crate) use values::{
    AccessLinesName, AccountList, AdminChoice, DurabilityName, ExtensionsName, ProfileName,
    host_name, host_suffix, read_text, web_address,
};

use crate::auth::AuthArguments;
use crate::logging::{LogFilter, LogFormat};
use crate::simulate::SimulateArguments;
use clap::{ArgAction, Args};
use lazuli_engine_local::Durability;
use std::path::PathBuf;

/// The options of the server. A switch can be turned off again: `--tls=false`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeOptions {
    /// Read options from a TOML file; flags and the environment override it. Its accounts are
    /// reloaded on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Directory that holds the data; created if it does not exist
    #[arg(
        short = 'l',
        long,
        value_name = "DIR",
        alias = "location",
        default_value = "lazuli-data"
    )]
    pub(crate) data: PathBuf,

    /// Address or name to listen on; 0.0.0.0 opens the services to the network
    #[arg(
        long,
        value_name = "HOST",
        aliases = ["tableHost", "queueHost"],
        default_value = "127.0.0.1"
    )]
    pub(crate) host: String,

    /// Services to run: `table`, `queue`, or `table,queue`
    #[arg(long, value_name = "LIST", default_value_t)]
    pub(crate) services: ServiceList,

    /// Port of the Table service; 0 picks a free one
    #[arg(long, value_name = "PORT", alias = "tablePort", default_value_t = 10002)]
    pub(crate) table_port: u16,

    /// Port of the Queue service; 0 picks a free one
    #[arg(long, value_name = "PORT", alias = "queuePort", default_value_t = 10001)]
    pub(crate) queue_port: u16,

    /// Where to serve health, readiness and metrics: ADDRESS:PORT, `off`, or `auto`:
    /// 127.0.0.1:10003 if that port is free, else off
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub(crate) admin: AdminChoice,

    /// Allow --admin on a non-loopback address without HTTPS
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub(crate) admin_insecure: bool,

    /// Accept this host name on the admin listener too; may be repeated
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub(crate) admin_name: Vec<String>,

    /// File with the admin token, required for `/metrics` unless --admin is on loopback. By default
    /// `admin-token` in the data directory, created at the first start. Reloaded on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// File with a second token, valid for `/metrics` only. Reloaded on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_token_file: Option<PathBuf>,

    /// Take the account from hosts of the form `account.SUFFIX`; may be repeated.
    /// `table.localhost`, `table.core.windows.net` and the same names with `queue` always work
    #[arg(long, value_name = "SUFFIX", value_parser = host_suffix)]
    pub(crate) host_suffix: Vec<String>,

    /// Serve HTTPS with a self-signed certificate, generated once and kept in the data directory
    #[arg(long)]
    pub(crate) tls: Option<bool>,

    /// Serve HTTPS with the certificate and chain in this PEM file; needs --tls-key. Both are
    /// reloaded on SIGHUP
    #[arg(long, value_name = "FILE", alias = "cert")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert: a PEM file without a password
    #[arg(long, value_name = "FILE", alias = "key")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Accounts as `name:key1[:key2];…` instead of the well-known development account
    #[arg(long, value_name = "LIST", value_parser = AccountList::parse)]
    pub(crate) accounts: Option<AccountList>,

    /// File of accounts, one `name:key1[:key2]` per line. Reloaded on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) accounts_file: Option<PathBuf>,

    /// When to acknowledge a write: `sync` (after fsync), `interval=<ms>` (fsync within <ms>; a
    /// power failure can lose that much), `memory` (no fsync; the operating system decides)
    #[arg(long, value_name = "WHEN", default_value_t = DurabilityName(Durability::Sync))]
    pub(crate) durability: DurabilityName,

    /// Store the data in a temporary directory and delete it on exit
    #[arg(long, alias = "inMemoryPersistence", action = ArgAction::Set, default_value_t)]
    pub(crate) in_memory: bool,

    /// Refuse unknown `x-ms-version` values, as Azure does, instead of serving them as the nearest
    /// known version
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub(crate) strict_versions: bool,

    /// Accept any text as `x-ms-version`
    #[arg(long, alias = "skipApiVersionCheck", action = ArgAction::Set, default_value_t)]
    pub(crate) skip_api_version_check: bool,

    /// Which rules to enforce: `azure`, or `lenient`, which accepts what emulators accept and adds
    /// the header `x-lazuli-would-fail` to each such response
    #[arg(long, value_name = "PROFILE", hide_possible_values = true, default_value = "azure")]
    pub(crate) profile: ProfileName,

    /// Which requests may use extensions: `asked` (those with the header `x-lazuli-extensions: on`),
    /// `always` (all) or `never` (none)
    #[arg(long, value_name = "WHEN", hide_possible_values = true, default_value = "asked")]
    pub(crate) extensions: ExtensionsName,

    /// Write the listening addresses to FILE, as JSON, once the server accepts requests
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,

    /// What to log: error, warn, info, debug, trace, or a filter such as `lazuli_server=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log: LogFilter,

    /// Append the log to FILE instead of standard error. Reopened on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,

    /// Log format: `human` or `json` [default: human on a terminal, else json]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) log_format: Option<LogFormat>,

    /// Which requests to log: `off`, `errors` (5xx, throttled, cut, unreadable, slower than
    /// --slow-ms) or `all`
    #[arg(long, value_name = "WHICH", hide_possible_values = true, default_value = "errors")]
    pub(crate) access_log: AccessLinesName,

    /// Requests slower than this are logged under --access-log errors
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub(crate) slow_ms: u32,

    /// Log query pages that take this many milliseconds or more, with their plan and the shape of their
    /// filter; 0 logs none
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) slow_query_ms: u32,

    /// Log query pages that examine at least this many entities for each one they return; 0 logs none
    #[arg(long, value_name = "RATIO", default_value_t = 0)]
    pub(crate) waste_ratio: u32,

    /// Include the literals of filters when slow and wasteful queries are logged
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub(crate) log_literals: bool,

    /// Maximum snapshots that clients may hold at a time
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) snapshots_max: usize,

    /// End a snapshot after this many minutes without use
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub(crate) snapshot_minutes: u64,

    /// Declare up to N indexes per table automatically, for filters that scan many entities and return
    /// few; 0 declares none
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=16))]
    pub(crate) auto_index: u16,

    /// TOML file with Azure's prices, for explained queries; crates/server/prices.toml is an example
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    /// Log query strings too; signatures are masked
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub(crate) log_query: bool,

    /// Print nothing, and log errors only
    #[arg(short = 's', long, action = ArgAction::Set, default_value_t)]
    pub(crate) silent: bool,

    #[command(flatten)]
    pub(crate) engine: EngineArguments,

    #[command(flatten)]
    pub(crate) bounds: Bounds,

    #[command(flatten)]
    pub(crate) simulate: SimulateArguments,

    #[command(flatten)]
    pub(crate) auth: AuthArguments,
}

#[cfg(test)]
mod tests;
