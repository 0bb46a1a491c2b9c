//! The command line: its commands. The options of the server are declared in `options`.

use crate::exit::EXIT_CODES;
use crate::health::HealthArguments;
use crate::options::{self, Defaults, ServeOptions};
use clap::{FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// Azure Table Storage on your own machine: any Azure SDK connects and notices no difference.
///
/// Without a command, `lazuli` serves: it listens on port 10002 with the well-known development
/// account, keeps its data in ./lazuli-data, and prints a ready connection string.
#[derive(Debug, Parser)]
#[command(
    name = "lazuli",
    version,
    args_conflicts_with_subcommands = true,
    // The last of several wins, so that a caller can add flags after those of a script.
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
    /// Serve the Table API (what `lazuli` does without a command)
    #[command(after_help = ENVIRONMENT)]
    Serve(Box<ServeOptions>),
    /// Ask a running server on this machine whether it is ready; exits 0 if so, 1 if not, 5 if it
    /// cannot be reached
    Health(HealthArguments),
    /// Print the exit codes
    #[command(name = "exit-codes", long_about = EXIT_CODES, hide = true)]
    ExitCodes,
    /// Print the versions of the program, the protocol and the data format
    Version,
}

const ENVIRONMENT: &str = "Every option can also be set in the environment (--cache-mib is \
    LAZULI_CACHE_MIB) or in the file given by --config (cache-mib = 128). Flags win over the \
    environment, the environment wins over the file.";

impl Cli {
    /// Parses a command line; `defaults` win over the declared ones.
    pub(crate) fn read(arguments: &[OsString], defaults: &Defaults) -> clap::error::Result<Self> {
        let matches = options::command(defaults).try_get_matches_from(arguments)?;
        Self::from_arg_matches(&matches)
    }

    /// The options of the server; `None` for another command.
    pub(crate) fn into_serve(self) -> Option<ServeOptions> {
        match self.command {
            None => Some(self.serve),
            Some(Command::Serve(options)) => Some(*options),
            Some(Command::Health(_) | Command::ExitCodes | Command::Version) => None,
        }
    }
}
