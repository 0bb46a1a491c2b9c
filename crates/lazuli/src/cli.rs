//! The commands of the command line. `options` declares the options of the server.

use crate::copy::CopyArguments;
use crate::health::HealthArguments;
use crate::options::{self, Defaults, ServeOptions};
use crate::status::StatusArguments;
use clap::error::ErrorKind;
use clap::{FromArgMatches, Parser, Subcommand};
use lazuli_cli::{DataCommand, EXIT_CODES};
use std::ffi::OsString;

/// Azure Table and Queue Storage on your own machine, for any Azure SDK.
///
/// Without a command, `lazuli` serves tables on port 10002 and queues on port 10001 with the
/// well-known development account, stores its data in ./lazuli-data, and prints a connection
/// string.
#[derive(Debug, Parser)]
#[command(
    name = "lazuli",
    version,
    args_conflicts_with_subcommands = true,
    // The last one wins, so that a caller can append flags to those of a script.
    args_override_self = true,
    max_term_width = 100,
    after_help = ENVIRONMENT
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the Table and Queue APIs (the default command)
    #[command(after_help = ENVIRONMENT)]
    Serve(Box<ServeOptions>),
    /// Ask a running server on this machine whether it is ready; exits with 0 if it is, 1 if it is
    /// not, 5 if it cannot be reached
    Health(HealthArguments),
    /// Copy all data of a store to another one: data directories, PostgreSQL, TiKV
    ///
    /// Do not write to the target meanwhile. Entities get new timestamps and ETags in the target.
    Copy(Box<CopyArguments>),
    /// Show the gateways of a shared store, which of them runs the background tasks, and whether the store
    /// responds
    Status(StatusArguments),
    #[command(flatten)]
    Data(DataCommand),
    /// Print the exit codes
    #[command(name = "exit-codes", long_about = EXIT_CODES, hide = true)]
    ExitCodes,
    /// Print the versions of the program, the protocol and the data format
    Version,
}

const ENVIRONMENT: &str = "Every option can also be set in the environment (--cache-mib is \
    LAZULI_CACHE_MIB) or in the file given by --config (cache-mib = 128). Flags override the \
    environment, and the environment overrides the file.";

impl Cli {
    /// Parses a command line; `defaults` override the declared defaults.
    pub(crate) fn read(arguments: &[OsString], defaults: &Defaults) -> clap::error::Result<Self> {
        let command = options::command(defaults);
        check_hosts(arguments)?;
        let matches = command.try_get_matches_from(arguments);
        let matches = matches.map_err(|error| options::with_variable(error, arguments))?;
        Self::from_arg_matches(&matches)
    }

    /// The options of the server; `None` for another command.
    pub(crate) fn into_serve(self) -> Option<ServeOptions> {
        match self.command {
            None => Some(self.serve),
            Some(Command::Serve(options)) => Some(*options),
            Some(_) => None,
        }
    }
}

/// Refuses different values for Azurite's two host flags: all services listen on one host, and the last flag would
/// silently win.
fn check_hosts(arguments: &[OsString]) -> clap::error::Result<()> {
    let given = |flag: &str| {
        let mut arguments = arguments.iter().filter_map(|argument| argument.to_str());
        let mut last = None;
        while let Some(argument) = arguments.next() {
            match argument.strip_prefix(flag) {
                Some("") => last = arguments.next(),
                Some(rest) => last = rest.strip_prefix('=').or(last),
                None => {}
            }
        }
        last
    };
    match (given("--tableHost"), given("--queueHost")) {
        (Some(table), Some(queue)) if table != queue => Err(clap::Error::raw(
            ErrorKind::ArgumentConflict,
            format!(
                "--tableHost '{table}' and --queueHost '{queue}' differ, but all services listen \
                 on one host\nhint: give both the same value, or use --host\n"
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
