//! The commands of `lazuli` that use a storage account: on Azure, Cosmos DB, Azurite or Lazuli. They are built on
//! `lazuli-client` and do not depend on the server.
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
mod noun;
mod output;
mod profiles;
mod progress;
mod session;

pub use exit::{EXIT_CODES, Exit};

use anyhow::{Context, Result};
use clap::{ArgMatches, FromArgMatches, Subcommand};
use commands::{
    advise, blobs, changes, completions, entities, explain, feed, index, queues, rebuild, sas,
    table, tables, ttl, verify,
};
use connect::Target;
use interrupt::Interrupt;
use lazuli_wire::connection_string::StorageService;
use noun::Noun;
use output::Output;
use session::Session;
use std::cell::OnceCell;

/// A command of this crate: `#[command(flatten)]` adds them all to a command line.
#[derive(Clone, Debug)]
pub struct DataCommand(Choice);

impl FromArgMatches for DataCommand {
    fn from_arg_matches(matches: &ArgMatches) -> clap::error::Result<Self> {
        Choice::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> clap::error::Result<()> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Subcommand for DataCommand {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        Choice::augment_subcommands(command)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Choice::augment_subcommands_for_update(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Choice::has_subcommand(name)
    }
}

#[derive(Clone, Debug, Subcommand)]
enum Choice {
    /// Create, list and delete tables
    Tables(Box<Noun<tables::Verb>>),
    /// Verify and repair the indexes that the client library keeps
    Table(Box<Noun<table::Verb>>),
    /// Read and write the entities of a table
    Entities(Box<Noun<entities::Verb>>),
    /// Create and list queues, send and receive messages
    Queues(Box<Noun<queues::Verb>>),
    /// List, store, print and delete blobs
    Blobs(Box<Noun<blobs::Verb>>),
    /// Make and explain shared access signatures
    Sas(Box<Noun<sas::Verb>>),
    /// Show how a Lazuli server runs a query, and what that means on Azure
    Explain(Box<explain::ExplainArguments>),
    /// Show what could be better in the traffic of a Lazuli server, and how to fix it
    Advise(Box<advise::AdviseArguments>),
    /// Declare, list and drop the indexes of a table on a Lazuli server
    Index(Box<Noun<index::Verb>>),
    /// Turn the change feed of a table on a Lazuli server on and off
    Feed(Box<Noun<feed::Verb>>),
    /// Print what changed in a table, from the change feed of a Lazuli server
    Changes(Box<changes::ChangesArguments>),
    /// Set when a Lazuli server lets entities of a table expire
    Ttl(Box<Noun<ttl::Verb>>),
    /// Compare the indexes and the change feed that a Lazuli server keeps with the entities
    Verify(Box<verify::VerifyArguments>),
    /// Build an index of a Lazuli server again from the entities
    Rebuild(Box<rebuild::RebuildArguments>),
    /// Print a completion script for a shell, or the manual page
    Completions(completions::CompletionsArguments),
}

impl Choice {
    fn output(&self) -> Output {
        match self {
            Self::Tables(arguments) => Output::new(arguments.output),
            Self::Table(arguments) => Output::new(arguments.output),
            Self::Entities(arguments) => Output::new(arguments.output),
            Self::Queues(arguments) => Output::new(arguments.output),
            Self::Blobs(arguments) => Output::new(arguments.output),
            Self::Sas(arguments) => Output::new(arguments.output),
            Self::Explain(arguments) => Output::new(arguments.output),
            Self::Advise(arguments) => Output::new(arguments.output),
            Self::Index(arguments) => Output::new(arguments.output),
            Self::Feed(arguments) => Output::new(arguments.output),
            Self::Changes(arguments) => Output::new(arguments.output),
            Self::Ttl(arguments) => Output::new(arguments.output),
            Self::Verify(arguments) => Output::new(arguments.output),
            Self::Rebuild(arguments) => Output::new(arguments.output),
            Self::Completions(_) => Output::default(),
        }
    }
}

impl Choice {
    /// Which service a command talks to.
    fn service(&self) -> StorageService {
        match self {
            Self::Queues(_) => StorageService::Queue,
            Self::Blobs(_) => StorageService::Blob,
            _ => StorageService::Table,
        }
    }
}

/// Runs a command and reports errors. `root` is the whole command line, for completions.
pub fn run(DataCommand(command): DataCommand, root: impl FnOnce() -> clap::Command) -> Exit {
    let out = command.output();
    match run_to_end(command, out, root) {
        Ok(exit) => exit,
        // The reader of the output has seen enough.
        Err(error) if failure::is_broken_pipe(&error) => Exit::Done,
        Err(error) => {
            failure::report_with(&error, out.paint_errors());
            failure::exit_of(&error)
        }
    }
}

fn run_to_end(command: Choice, out: Output, root: impl FnOnce() -> clap::Command) -> Result<Exit> {
    if let Choice::Completions(arguments) = command {
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

async fn dispatch(command: Choice, out: Output, interrupt: Interrupt) -> Result<Exit> {
    let service = command.service();
    let address = OnceCell::new();
    let open = |target: &Target| {
        let session = Session::open(target, out, interrupt)?;
        let _ = address.set(session.endpoint(service).to_owned());
        Ok::<_, anyhow::Error>(session)
    };
    let outcome = match command {
        Choice::Tables(noun) => tables::run(&open(&noun.target)?, noun.verb).await,
        Choice::Table(noun) => table::run(&open(&noun.target)?, noun.verb).await,
        Choice::Entities(noun) => entities::run(&open(&noun.target)?, noun.verb).await,
        Choice::Queues(noun) => queues::run(&open(&noun.target)?, noun.verb).await,
        Choice::Blobs(noun) => blobs::run(&open(&noun.target)?, noun.verb).await,
        Choice::Sas(noun) => sas::run(&noun.target, out, &noun.verb).await,
        Choice::Explain(arguments) => explain::run(&open(&arguments.target)?, &arguments).await,
        Choice::Advise(arguments) => advise::run(&open(&arguments.target)?, &arguments).await,
        Choice::Index(noun) => index::run(&open(&noun.target)?, noun.verb).await,
        Choice::Feed(noun) => feed::run(&open(&noun.target)?, noun.verb).await,
        Choice::Changes(arguments) => changes::run(&open(&arguments.target)?, &arguments).await,
        Choice::Ttl(noun) => ttl::run(&open(&noun.target)?, noun.verb).await,
        Choice::Verify(arguments) => verify::run(&open(&arguments.target)?, &arguments).await,
        Choice::Rebuild(arguments) => rebuild::run(&open(&arguments.target)?, &arguments).await,
        Choice::Completions(_) => Ok(Exit::Done),
    };
    outcome.map_err(|error| failure::at(error, service, address.get()))
}
