//! The `lazuli` binary: reads the command line, runs the command, reports errors.

mod auth;
mod certificate;
mod cli;
mod config;
mod descriptors;
mod failure;
mod logging;
mod memory;
mod options;
mod reload;
mod serve;
mod simulate;

use anyhow::Context;
use cli::{Cli, Command};
use options::Defaults;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Many short-lived buffers per request: mimalloc is cheaper than the system allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::read(&arguments, &Defaults::default()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let outcome = match cli.command {
        None | Some(Command::Serve(_)) => serve::run(&arguments),
        Some(Command::Version) => print_version(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            failure::report(&error);
            ExitCode::FAILURE
        }
    }
}

fn print_version() -> anyhow::Result<()> {
    let text = format!(
        "lazuli {}\ntable service versions up to {}\ndata directory format {}\n",
        env!("CARGO_PKG_VERSION"),
        lazuli_wire::version::ApiVersion::NEWEST,
        lazuli_engine_local::FORMAT_VERSION
    );
    io::stdout().write_all(text.as_bytes()).context("print the versions")
}
