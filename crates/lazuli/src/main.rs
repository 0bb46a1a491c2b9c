//! The `lazuli` binary: reads the command line, runs the command, reports errors.

mod address;
mod admin;
mod announce;
mod auth;
mod certificate;
mod chores;
mod cli;
mod config;
mod copy;
mod descriptors;
mod duty;
mod engine_choice;
mod health;
mod logging;
mod memory;
mod notify;
mod operator;
mod options;
mod pace;
mod reload;
mod serve;
mod services;
mod signals;
mod simulate;
mod status;
mod store;
mod stores;
mod watch;

use anyhow::Context;
use cli::{Cli, Command};
use lazuli_cli::{EXIT_CODES, Exit, failure};
use options::Defaults;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Requests make many short-lived buffers; mimalloc is cheaper for them than the system allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::read(&arguments, &Defaults::default()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let outcome = match cli.command {
        None | Some(Command::Serve(_)) => serve::run(&arguments)
            .map(|()| Exit::Done)
            .map_err(|error| options::with_variables(error, &arguments)),
        Some(Command::Health(arguments)) => health::run(&arguments),
        Some(Command::Copy(arguments)) => copy::run(&arguments),
        Some(Command::Status(arguments)) => status::run(&arguments),
        Some(Command::Data(command)) => {
            Ok(lazuli_cli::run(command, || options::command(&Defaults::default())))
        }
        Some(Command::ExitCodes) => print(&format!("{EXIT_CODES}\n")),
        Some(Command::Version) => print(&versions()),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            failure::report(&error);
            failure::exit_of(&error).into()
        }
    }
}

fn versions() -> String {
    format!(
        "lazuli {}\nservice versions up to {}\ndata directory format {}\n",
        env!("CARGO_PKG_VERSION"),
        lazuli_wire::version::ApiVersion::NEWEST,
        lazuli_engine_local::FORMAT_VERSION
    )
}

fn print(text: &str) -> anyhow::Result<Exit> {
    io::stdout().write_all(text.as_bytes()).context("write to standard output")?;
    Ok(Exit::Done)
}
