//! The project's tasks, run as `cargo xtask <task>`.
//!
//! `cargo xtask test` runs every test and ends with one line, `N passed, N failed`.

#![expect(clippy::print_stdout, reason = "a chore reports what it does")]

mod bench;
mod bench_indexes;
mod bench_load;
mod bench_store;
mod bench_tikv;
mod client;
mod deny;
mod faults;
mod fuzz;
mod kill;
mod memory;
#[cfg(test)]
mod named;
mod process;
mod readme;
mod rust_client;
mod sim;
mod soak;
#[cfg(test)]
mod spec;
mod stores;
mod tally;
mod test;
mod torture;
mod workspace;
mod writer;

use clap::{Args, Parser, Subcommand};
use std::process::ExitCode;
use tally::Tally;
use workspace::Workspace;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The project's chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Run every test: format, lints, unit tests, official SDKs, kill test, README
    Test(test::Options),
    /// Format, lints, licences and advisories
    Check,
    /// Kill the server while it writes, reopen, and check that nothing acknowledged is lost
    Kill(kill::Options),
    /// Load and scan a big table, write on many connections, and check the server's memory
    Memory(memory::Options),
    /// Measure Lazuli, Azurite and bare servers (--quick: two minutes)
    Bench(bench::Options),
    /// Run the table service under simulated faults; a failed run prints the seed that reproduces
    /// it
    Sim(sim::Options),
    /// Feed generated input to the parsers, with libFuzzer if it is installed, else our own fuzzer
    Fuzz(fuzz::Options),
    /// Send mixed requests on many connections for a given time, kill the server, and look for lost
    /// writes
    Soak(soak::Options),
    /// Run everything that tries to break a promise, for a given time
    Torture(torture::Options),
    /// Start or end a store that engines are tested on
    #[command(subcommand)]
    Stores(stores::Action),
    /// Run the README's commands as they are printed
    Readme,
    /// Drive the server with the az command line (installs azure-cli, which is large)
    TestAz(NoSkip),
}

#[derive(Args, Clone, Copy, Debug)]
struct NoSkip {
    /// Count a skipped suite as failed; also set by CI=true
    #[arg(long, env = "CI", value_parser = clap::builder::FalseyValueParser::new())]
    no_skip: bool,
}

impl NoSkip {
    /// Makes tests that `command` runs fail where they would skip: they check `CI`.
    fn tell(self, command: &mut std::process::Command) {
        if self.no_skip {
            command.env("CI", "true");
        }
    }
}

fn main() -> ExitCode {
    let chore = Cli::parse().chore;
    if matches!(&chore, Chore::Test(options) if options.list) {
        test::list();
        return ExitCode::SUCCESS;
    }
    let tally = match run(chore) {
        Ok(tally) => tally,
        Err(error) => {
            println!("error: {error:#}");
            Tally::FAILED
        }
    };
    println!("{tally}");
    if tally.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(chore: Chore) -> anyhow::Result<Tally> {
    let workspace = Workspace::find()?;
    match chore {
        Chore::Test(options) => test::run(&workspace, &options),
        Chore::Check => test::check(&workspace),
        Chore::Kill(options) => kill::run(&workspace, options),
        Chore::Memory(options) => memory::run(&workspace, options),
        Chore::Bench(options) => bench::run(&workspace, &options),
        Chore::Sim(options) => Ok(sim::run(&workspace, options)),
        Chore::Fuzz(options) => fuzz::run(&workspace, &options),
        Chore::Soak(options) => soak::run(&workspace, options),
        Chore::Torture(options) => torture::run(&workspace, options),
        Chore::Stores(action) => stores::run(&workspace, &action),
        Chore::Readme => readme::run(&workspace),
        Chore::TestAz(no_skip) => Ok(test::az(&workspace, no_skip)),
    }
}
