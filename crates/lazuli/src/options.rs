//! Every option of the server, declared once: flag, help, type and default.
//!
//! The other names follow from the flag: `--cache-mib` is `LAZULI_CACHE_MIB` in the environment and
//! `cache-mib` in a configuration file. A new option is a field here and its use; `names.rs` gives
//! it its names, `file.rs` reads it from a file, and a test adds it to `docs/configuration.md`.

mod bounds;
mod file;
mod names;
mod services;
mod values;

pub(crate) use bounds::{Bounds, MIB, MemorySize};
pub(crate) use file::Defaults;
pub(crate) use names::command;
pub(crate) use services::{ServiceList, ServiceName};
pub(crate) use values::{
    AccessLinesName, AccountList, AdminChoice, DurabilityName, ProfileName, read_text,
};

use crate::auth::AuthArguments;
use crate::logging::LogFormat;
use crate::simulate::SimulateArguments;
use clap::{ArgAction, Args};
use lazuli_engine_local::Durability;
use std::path::PathBuf;

/// What the server can be asked for. A switch can be turned off again: `--tls=false`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeOptions {
    /// Read options from a TOML file; flags and the environment win over it. SIGHUP reads its
    /// accounts again
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

    /// The services to serve: `table`, `queue`, or both with a comma between them
    #[arg(long, value_name = "LIST", default_value_t)]
    pub(crate) services: ServiceList,

    /// Port of the Table service; 0 takes a free one
    #[arg(long, value_name = "PORT", alias = "tablePort", default_value_t = 10002)]
    pub(crate) table_port: u16,

    /// Port of the Queue service; 0 takes a free one
    #[arg(long, value_name = "PORT", alias = "queuePort", default_value_t = 10001)]
    pub(crate) queue_port: u16,

    /// Where health, readiness and metrics are served: ADDRESS:PORT, `off`, or `auto`, which is
    /// 127.0.0.1:10003, or nowhere while another program has that port
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub(crate) admin: AdminChoice,

    /// Let --admin listen beyond loopback without HTTPS
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub(crate) admin_insecure: bool,

    /// Serve --admin under this host name too; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) admin_name: Vec<String>,

    /// File with the admin token, which `/metrics` needs where --admin is not on loopback; without
    /// it `admin-token` in the data directory, made at the first start. SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// File with another token that opens `/metrics` alone. SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_token_file: Option<PathBuf>,

    /// Read the account from hosts of the form `account.SUFFIX`; may be repeated. `table.localhost`
    /// and `table.core.windows.net` are always known, and the same with `queue`
    #[arg(long, value_name = "SUFFIX")]
    pub(crate) host_suffix: Vec<String>,

    /// Speak HTTPS, with a self-signed certificate that is made once and kept with the data
    #[arg(long)]
    pub(crate) tls: Option<bool>,

    /// Speak HTTPS with the certificate in this PEM file, followed by its chain; needs --tls-key.
    /// SIGHUP reads both again
    #[arg(long, value_name = "FILE", alias = "cert")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert, a PEM file without a password
    #[arg(long, value_name = "FILE", alias = "key")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Accounts as `name:key1[:key2];…` instead of the well-known development account
    #[arg(long, value_name = "LIST", value_parser = AccountList::parse)]
    pub(crate) accounts: Option<AccountList>,

    /// File of accounts, one `name:key1[:key2]` per line; SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    pub(crate) accounts_file: Option<PathBuf>,

    /// When a write is acknowledged: `sync` (it is on disk), `interval=<ms>` (a power failure may
    /// lose that much), `memory` (the system writes when it likes)
    #[arg(long, value_name = "WHEN", default_value_t = DurabilityName(Durability::Sync))]
    pub(crate) durability: DurabilityName,

    /// Keep nothing: use a temporary directory and remove it at the end
    #[arg(long, alias = "inMemoryPersistence", action = ArgAction::Set, default_value_t)]
    pub(crate) in_memory: bool,

    /// Refuse `x-ms-version` values this program does not know, as the cloud does, instead of
    /// serving them with the nearest known behaviour
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub(crate) strict_versions: bool,

    /// Accept any text as `x-ms-version`
    #[arg(long, alias = "skipApiVersionCheck", action = ArgAction::Set, default_value_t)]
    pub(crate) skip_api_version_check: bool,

    /// Which rules requests must follow: `azure`, or `lenient`, which accepts what emulators accept
    /// and marks each such answer with `x-lazuli-would-fail`
    #[arg(long, value_name = "PROFILE", hide_possible_values = true, default_value = "azure")]
    pub(crate) profile: ProfileName,

    /// Write the addresses served to FILE, as JSON, once requests are accepted
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,

    /// What to log: error, warn, info, debug, trace, or a filter such as `lazuli_server=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log: String,

    /// Append the log to FILE instead of standard error; SIGHUP opens it again
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,

    /// How the log is written: `human` or `json`; without it human on a terminal, json otherwise
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) log_format: Option<LogFormat>,

    /// Log a line for each request: `off`, `errors` (5xx, throttled, slower than --slow-ms) or `all`
    #[arg(long, value_name = "WHICH", hide_possible_values = true, default_value = "errors")]
    pub(crate) access_log: AccessLinesName,

    /// Requests that take this long are logged by --access-log errors
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub(crate) slow_ms: u32,

    /// Log the query of a request with its path; signatures are masked
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub(crate) log_query: bool,

    /// Print and log nothing but errors
    #[arg(short = 's', long, action = ArgAction::Set, default_value_t)]
    pub(crate) silent: bool,

    #[command(flatten)]
    pub(crate) bounds: Bounds,

    #[command(flatten)]
    pub(crate) simulate: SimulateArguments,

    #[command(flatten)]
    pub(crate) auth: AuthArguments,
}

#[cfg(test)]
mod tests;
