//! The command line: commands, flags, and the spellings that Azurite's users know.

use crate::auth::AuthArguments;
use clap::{Args, Parser, Subcommand};
use lazuli_engine_local::Durability;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Azure Table Storage on your own machine: any Azure SDK connects and notices nothing.
///
/// Without a command, `lazuli` serves: it listens on port 10002 with the well-known development
/// account, keeps its data in ./lazuli-data, and prints a ready connection string.
#[derive(Debug, Parser)]
#[command(name = "lazuli", version, args_conflicts_with_subcommands = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the Table API (what `lazuli` does without a command)
    Serve(ServeArguments),
    /// Print the versions of the program, the protocol and the data format
    Version,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArguments {
    /// Directory that holds the data; made when absent
    #[arg(
        short = 'l',
        long,
        value_name = "DIR",
        env = "LAZULI_DATA",
        default_value = "lazuli-data",
        alias = "location"
    )]
    pub(crate) data: PathBuf,

    /// Address to listen on; 0.0.0.0 opens the service to the network
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "LAZULI_HOST",
        default_value = "127.0.0.1",
        alias = "tableHost"
    )]
    pub(crate) host: IpAddr,

    /// Port of the Table service; 0 takes a free one
    #[arg(
        long,
        value_name = "PORT",
        env = "LAZULI_TABLE_PORT",
        default_value_t = 10002,
        alias = "tablePort"
    )]
    pub(crate) table_port: u16,

    /// When a write counts as done: `sync` (on disk), `interval=<ms>` (a crash of the machine may
    /// lose that much), `memory` (the system writes when it likes)
    #[arg(
        long,
        value_name = "WHEN",
        env = "LAZULI_DURABILITY",
        default_value = "sync",
        value_parser = parse_durability
    )]
    pub(crate) durability: Durability,

    /// Keep nothing: use a temporary directory and remove it at the end
    #[arg(long, alias = "inMemoryPersistence")]
    pub(crate) in_memory: bool,

    /// Accounts as `name:key1[:key2];…` instead of the well-known development account
    #[arg(long, value_name = "LIST", env = "LAZULI_ACCOUNTS", hide_env_values = true)]
    pub(crate) accounts: Option<String>,

    /// Refuse `x-ms-version` values this program does not know, as the cloud does, instead of
    /// serving them with the nearest known behaviour
    #[arg(long)]
    pub(crate) strict_versions: bool,

    /// Accept any text as `x-ms-version`
    #[arg(long, alias = "skipApiVersionCheck", conflicts_with = "strict_versions")]
    pub(crate) skip_api_version_check: bool,

    /// Connections served at once; more wait until one closes
    #[arg(long, value_name = "N", default_value_t = 16 * 1024)]
    pub(crate) connections_max: usize,

    /// Memory for stored blocks that reads share, in MiB
    #[arg(long, value_name = "MIB", env = "LAZULI_CACHE_MIB", default_value_t = 128)]
    pub(crate) cache_mib: u32,

    /// Write the addresses served to FILE, as JSON, once requests are taken
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,

    /// What to log: error, warn, info, debug, trace, or a filter such as `lazuli_server=debug`
    #[arg(long, value_name = "LEVEL", env = "LAZULI_LOG", default_value = "info")]
    pub(crate) log: String,

    /// Print and log nothing but errors
    #[arg(short = 's', long)]
    pub(crate) silent: bool,

    #[command(flatten)]
    pub(crate) auth: AuthArguments,
}

/// `sync`, `interval=<ms>` or `memory`.
fn parse_durability(text: &str) -> Result<Durability, String> {
    const EXPECTED: &str = "expected `sync`, `interval=<milliseconds>` or `memory`";
    match text {
        "sync" => Ok(Durability::Sync),
        "memory" => Ok(Durability::Memory),
        other => {
            let millis = other.strip_prefix("interval=").and_then(|ms| ms.parse().ok());
            match millis {
                Some(ms @ 1..=60_000) => Ok(Durability::Interval(Duration::from_millis(ms))),
                Some(_) => Err("an interval is 1 to 60000 milliseconds".to_owned()),
                None => Err(EXPECTED.to_owned()),
            }
        }
    }
}

/// The durability as the command line spells it.
pub(crate) fn durability_text(durability: Durability) -> String {
    match durability {
        Durability::Sync => "sync".to_owned(),
        Durability::Interval(interval) => format!("interval={}", interval.as_millis()),
        Durability::Memory => "memory".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn serve(line: &str) -> ServeArguments {
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        match cli.command {
            Some(Command::Serve(arguments)) => arguments,
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
        assert_eq!(serve("lazuli --table-port 1").table_port, 1);
        assert_eq!(serve("lazuli serve --table-port 1").table_port, 1);
        assert_eq!(serve("lazuli").table_port, 10002);
    }

    #[test]
    fn azurite_spellings_work() {
        let arguments = serve(
            "lazuli --location /d --tableHost 0.0.0.0 --tablePort 7 --inMemoryPersistence \
             --skipApiVersionCheck --silent",
        );
        assert_eq!(arguments.data, PathBuf::from("/d"));
        assert_eq!(arguments.host.to_string(), "0.0.0.0");
        assert_eq!(arguments.table_port, 7);
        assert!(arguments.in_memory && arguments.skip_api_version_check && arguments.silent);
    }

    #[test]
    fn durability_is_one_of_three() {
        for text in ["sync", "interval=50", "memory"] {
            assert_eq!(parse_durability(text).map(durability_text).as_deref(), Ok(text));
        }
        for bad in ["", "fast", "interval", "interval=", "interval=0", "interval=-1"] {
            assert!(parse_durability(bad).is_err(), "{bad}");
        }
    }
}
