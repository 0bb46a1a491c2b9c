//! The `lazuli` binary: reads the command line, starts what it names, says what went wrong.

mod auth;
mod certificate;
mod cli;
mod config;
mod descriptors;
mod failure;
mod reload;
mod serve;
mod simulate;

use clap::Parser;
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

#[expect(clippy::print_stdout, reason = "printing is what the command is for")]
fn print_version() -> anyhow::Result<()> {
    println!("lazuli {}", env!("CARGO_PKG_VERSION"));
    println!("table service versions up to {}", lazuli_wire::version::ApiVersion::NEWEST);
    println!("data directory format {}", lazuli_engine_local::FORMAT_VERSION);
    Ok(())
}
