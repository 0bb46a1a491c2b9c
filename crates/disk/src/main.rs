//! `lazuli-disk`: runs the trials against the real binary, the one that `LAZULI_BIN` names.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "it reports to whoever runs it")]

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use lazuli_disk::bench::{Amount, Bench};
use lazuli_disk::disk::Names;
use lazuli_disk::faults::{self, KINDS, Kind};
use lazuli_disk::flips;
use lazuli_disk::power;
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::server::binary;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, Parser)]
#[command(about = "A disk that loses power, fails and fills up beneath the server")]
struct Cli {
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Debug, Subcommand)]
enum Trial {
    /// Lose power, or kill the process, at every moment of a recorded run
    PowerLoss(PowerLoss),
    /// Let every call of a small run fail, in every way
    Faults(FaultsOptions),
    /// Flip bits in every file of the data directory
    Flips(FlipsOptions),
}

#[derive(Args, Clone, Copy, Debug)]
struct Bounds {
    /// Go on from seed to seed for so long; without it, one seed to its end
    #[arg(long)]
    seconds: Option<u64>,
    /// Repeats the choices of an earlier run
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Args, Clone, Copy, Debug)]
struct PowerLoss {
    #[command(flatten)]
    bounds: Bounds,
    /// Clients that write at once
    #[arg(long, default_value_t = 2)]
    clients: usize,
    /// Requests of each
    #[arg(long, default_value_t = 30)]
    steps: usize,
    /// Batches of 100 rows in a table that is dropped then; from 20 on its files are dropped
    #[arg(long, default_value_t = 0)]
    fills: usize,
    /// Crashed states to open, at most
    #[arg(long, default_value_t = 150)]
    states: usize,
    /// Crashes while each of them is opened, at most
    #[arg(long, default_value_t = 1)]
    recoveries: usize,
    /// Names last as with ext4 and XFS, instead of as POSIX promises
    #[arg(long)]
    journalled: bool,
}

#[derive(Args, Clone, Debug)]
struct FaultsOptions {
    #[command(flatten)]
    bounds: Bounds,
    /// Only this kind of fault
    #[arg(long)]
    kind: Option<String>,
    /// Requests of one run
    #[arg(long, default_value_t = 12)]
    steps: usize,
    /// Calls to let fail of each kind, at most
    #[arg(long, default_value_t = usize::MAX)]
    calls: usize,
}

#[derive(Args, Clone, Copy, Debug)]
struct FlipsOptions {
    #[command(flatten)]
    bounds: Bounds,
    /// Requests of each of two clients
    #[arg(long, default_value_t = 60)]
    steps: usize,
    /// Flips in each file, at most
    #[arg(long, default_value_t = 20)]
    flips: usize,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().trial {
        Trial::PowerLoss(options) => power_loss(options),
        Trial::Faults(options) => disk_faults(&options),
        Trial::Flips(options) => bit_flips(options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Bounds {
    /// Runs `trial` with one seed after the other.
    fn each(self, mut trial: impl FnMut(u64, Option<Instant>) -> Result<()>) -> Result<()> {
        let mut seed = self.seed.unwrap_or_else(|| SystemClock.now().ticks());
        let deadline = self.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        loop {
            println!("--seed {seed}");
            trial(seed, deadline)?;
            seed += 1;
            if deadline.is_none_or(|deadline| Instant::now() > deadline) {
                return Ok(());
            }
        }
    }
}

fn disk_faults(options: &FaultsOptions) -> Result<()> {
    let bench = Bench::new(binary()?)?;
    let wanted = |kind: &&Kind| options.kind.as_deref().is_none_or(|name| name == kind.name);
    options.bounds.each(|seed, deadline| {
        let plan = faults::Plan { seed, steps: options.steps, calls_max: options.calls, deadline };
        for kind in KINDS.iter().filter(wanted) {
            println!("{}: {}", kind.name, faults::run(&bench, &plan, kind)?);
        }
        Ok(())
    })
}

fn bit_flips(options: FlipsOptions) -> Result<()> {
    let bench = Bench::new(binary()?)?;
    options.bounds.each(|seed, deadline| {
        let amount = Amount { clients: 2, steps: options.steps, fills: 0 };
        let plan = flips::Plan { seed, amount, flips_max: options.flips, deadline };
        println!("{}", flips::run(&bench, &plan)?);
        Ok(())
    })
}

fn power_loss(options: PowerLoss) -> Result<()> {
    let PowerLoss { bounds, clients, steps, fills, states, recoveries, journalled } = options;
    let bench = Bench::new(binary()?)?;
    bounds.each(|seed, deadline| {
        let plan = power::Plan {
            names: if journalled { Names::Journalled } else { Names::Strict },
            seed,
            amount: Amount { clients, steps, fills },
            states_max: states,
            recoveries_max: recoveries,
            deadline,
        };
        println!("{}", power::run(&bench, &plan)?);
        Ok(())
    })
}
