//! Measures Lazuli, Azurite and bare servers, which show the limits of the machine.
//!
//! `cargo xtask bench` builds everything and starts it; docs/performance.md explains what is measured
//! and how. The servers run as separate processes on loopback, and stop with this one.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measures")]

mod answer;
mod client;
mod compare;
mod entity;
mod exchange;
mod goal;
mod instructions;
mod interrupt;
mod limit;
mod load;
mod measure;
mod options;
mod process;
mod queue;
mod report;
mod request;
mod results;
mod run;
mod scale;
mod script;
mod target;
mod workload;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use interrupt::Interrupt;
use options::{Cli, Options};
use std::process::ExitCode;

/// The same as in the server, so that the limits have it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.limit {
        Some(limit) => limit.serve(),
        None => bench(&cli.options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Result<()> {
    options.check()?;
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("make {}", options.out.display()))?;
    let interrupt = Interrupt::install().context("listen for signals")?;
    let errors = match &options.before {
        _ if options.client => client::run(options, &interrupt)?,
        _ if options.instructions => instructions::run(options, &interrupt)?,
        _ if options.access_log => compare::access_lines(options, &interrupt)?,
        Some(before) => compare::builds(before, options, &interrupt)?,
        None if options.scale => scale::run(options, &interrupt)?.errors,
        None => run::run(options, &interrupt)?.errors(),
    };
    ensure!(errors == 0, "{errors} operations failed: the figures above are not valid");
    Ok(())
}
