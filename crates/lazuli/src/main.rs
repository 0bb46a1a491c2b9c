//! The `lazuli` binary: reads the command line, starts what it names, says what went wrong.

mod auth;
mod certificate;
mod cli;
mod config;
mod descriptors;
mod failure;
mod logging;
mod reload;
mod serve;
mod simulate;

use anyhow::Context;
use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;

/// Many short-lived buffers per request: mimalloc hands them out cheaper than the system does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let outcome = match cli.command {
        Some(cli::Command::Serve(options)) => serve::run(&options),
        Some(cli::Command::Version) => print_version(),
        None => serve::run(&cli.serve),
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
