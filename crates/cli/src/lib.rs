//! The commands of `lazuli` that talk to a storage account: Azure's, Cosmos DB's, Azurite's or Lazuli's
//! own. They are built on `lazuli-client` and know no server.
//!
//! One module per noun in `commands`; `connect` finds the account, `output` prints, `failure` turns errors
//! into a message and an exit code.

mod commands;
mod confirm;
mod connect;
mod entity_text;
mod exit;
pub mod failure;
mod filter;
mod input;
mod interrupt;
mod moment;
mod output;
mod profiles;
mod progress;
mod session;

pub use exit::{EXIT_CODES, Exit};

use anyhow::{Context, Result};
use clap::Subcommand;
use commands::{blobs, completions, entities, queues, sas, tables};
use interrupt::Interrupt;
use output::Output;

/// The commands of this crate.
#[derive(Clone, Debug, Subcommand)]
pub enum DataCommand {
    /// Create, list and delete tables
    Tables(Box<tables::TablesArguments>),
    /// Read and write the entities of a table
    Entities(Box<entities::EntitiesArguments>),
    /// Create and list queues, send and receive messages
    Queues(Box<queues::QueuesArguments>),
    /// List, store, print and delete blobs
    Blobs(Box<blobs::BlobsArguments>),
    /// Make and explain shared access signatures
    Sas(Box<sas::SasArguments>),
    /// Print a completion script for a shell, or the manual page
    Completions(completions::CompletionsArguments),
}

impl DataCommand {
    fn output(&self) -> Output {
        match self {
            Self::Tables(arguments) => Output::new(arguments.output),
            Self::Entities(arguments) => Output::new(arguments.output),
            Self::Queues(arguments) => Output::new(arguments.output),
            Self::Blobs(arguments) => Output::new(arguments.output),
            Self::Sas(arguments) => Output::new(arguments.output),
            Self::Completions(_) => Output::default(),
        }
    }
}

/// Runs a command and reports what goes wrong. `root` is the whole command line, for completions.
pub fn run(command: DataCommand, root: impl FnOnce() -> clap::Command) -> Exit {
    let out = command.output();
    match run_to_end(command, out, root) {
        Ok(exit) => exit,
        // Whoever reads the output has seen enough.
        Err(error) if failure::is_broken_pipe(&error) => Exit::Done,
        Err(error) => {
            failure::report_with(&error, out.paint_errors());
            failure::exit_of(&error)
        }
    }
}

fn run_to_end(
    command: DataCommand,
    out: Output,
    root: impl FnOnce() -> clap::Command,
) -> Result<Exit> {
    if let DataCommand::Completions(arguments) = command {
        return completions::run(arguments, out, root());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let interrupt = Interrupt::new();
    let runtime = runtime.context("start the runtime")?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            // First, so that Ctrl-C is caught before anything is done.
            biased;
            () = interrupt.wait() => Ok(Exit::Interrupted),
            outcome = dispatch(command, out, interrupt.clone()) => outcome,
        }
    });
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    outcome
}

async fn dispatch(command: DataCommand, out: Output, interrupt: Interrupt) -> Result<Exit> {
    match command {
        DataCommand::Tables(arguments) => tables::run(*arguments, out, interrupt).await,
        DataCommand::Entities(arguments) => entities::run(*arguments, out, interrupt).await,
        DataCommand::Queues(arguments) => queues::run(*arguments, out, interrupt).await,
        DataCommand::Blobs(arguments) => blobs::run(*arguments, out, interrupt).await,
        DataCommand::Sas(arguments) => sas::run(*arguments, out).await,
        DataCommand::Completions(_) => Ok(Exit::Done),
    }
}
