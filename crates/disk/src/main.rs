//! `lazuli-disk`: runs the trials against the real binary, the one that `LAZULI_BIN` names.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "printing results is what it is for")]

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use lazuli_disk::bench::{Amount, Bench};
use lazuli_disk::disk::Names;
use lazuli_disk::faults::{self, KINDS, Kind, LogPlace, Phase};
use lazuli_disk::flips;
use lazuli_disk::kept;
use lazuli_disk::power;
use lazuli_disk::reads;
use lazuli_disk::rotation;
use lazuli_disk::vanished;
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::server::binary;
use std::cell::Cell;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PROGRESS: Duration = Duration::from_secs(30);

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
    /// Lose power, or kill the process, during journal rotation
    Rotation(RotationOptions),
    /// Make every call of a small run fail, in every way
    Faults(FaultsOptions),
    /// Flip bits in every file of the data directory
    Flips(FlipsOptions),
    /// Make every read call fail, at start and while serving
    Reads(ReadsOptions),
    /// Remove every file of the data directory, one at a time
    Vanished(VanishedOptions),
    /// Start a server on a directory kept by a failed trial
    Replay { kept: PathBuf },
}

#[derive(Args, Clone, Copy, Debug)]
struct Bounds {
    /// Run seed after seed for this long [default: one seed to its end]
    #[arg(long)]
    seconds: Option<u64>,
    /// Reproduce the choices of an earlier run
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Args, Clone, Copy, Debug)]
struct PowerLoss {
    #[command(flatten)]
    bounds: Bounds,
    /// Concurrent writing clients
    #[arg(long, default_value_t = 2)]
    clients: usize,
    /// Requests of each
    #[arg(long, default_value_t = 30)]
    steps: usize,
    /// Batches of 100 rows in a table that is then dropped; with 20 or more its files are dropped
    #[arg(long, default_value_t = 0)]
    fills: usize,
    /// Maximum number of crashed states; chosen at random
    #[arg(long, default_value_t = 150)]
    states: usize,
    /// Try every state: each sync, each acknowledgement and each call, with every kind of loss
    #[arg(long, conflicts_with = "states")]
    every: bool,
    /// Maximum number of crashes during each start; chosen at random
    #[arg(long, default_value_t = 1)]
    recoveries: usize,
    /// Model the durability of names as in ext4 and XFS instead of POSIX
    #[arg(long)]
    journalled: bool,
}

#[derive(Args, Clone, Copy, Debug)]
struct RotationOptions {
    #[command(flatten)]
    bounds: Bounds,
    /// Requests of each of two clients, including those that fill the journals
    #[arg(long, default_value_t = rotation::BULK + 60)]
    steps: usize,
    /// Calls to cover before and after each rotation
    #[arg(long, default_value_t = 40)]
    near: usize,
    /// Maximum number of states; chosen at random
    #[arg(long, default_value_t = usize::MAX)]
    states: usize,
    /// Model the durability of names as in ext4 and XFS instead of POSIX
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
    /// Maximum number of calls of each kind that fail, at start and later [default: all]
    #[arg(long, default_value_t = usize::MAX)]
    calls: usize,
    /// Only this call of the given phase, counted from zero
    #[arg(long, requires = "phase")]
    call: Option<u64>,
    /// The phase of that call
    #[arg(long, value_parser = phase, requires = "call")]
    phase: Option<Phase>,
    /// Write the server's log to a file on the failing disk
    #[arg(long)]
    log_on_disk: bool,
}

#[derive(Args, Clone, Copy, Debug)]
struct FlipsOptions {
    #[command(flatten)]
    bounds: Bounds,
    /// Requests of each of two clients
    #[arg(long, default_value_t = 60)]
    steps: usize,
    /// Maximum flips per file
    #[arg(long, default_value_t = 20)]
    flips: usize,
}

#[derive(Args, Clone, Copy, Debug)]
struct ReadsOptions {
    #[command(flatten)]
    bounds: Bounds,
    /// Requests that fill the store
    #[arg(long, default_value_t = 60)]
    steps: usize,
    /// Writes while the disk cannot read
    #[arg(long, default_value_t = 3)]
    writes: usize,
    /// Maximum number of failing calls in each phase and each way [default: all]
    #[arg(long, default_value_t = usize::MAX)]
    calls: usize,
}

#[derive(Args, Clone, Copy, Debug)]
struct VanishedOptions {
    #[command(flatten)]
    bounds: Bounds,
    /// Requests of each of two clients
    #[arg(long, default_value_t = 60)]
    steps: usize,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().trial {
        Trial::PowerLoss(options) => power_loss(options),
        Trial::Rotation(options) => rotation(options),
        Trial::Faults(options) => disk_faults(&options),
        Trial::Flips(options) => bit_flips(options),
        Trial::Reads(options) => failing_reads(options),
        Trial::Vanished(options) => vanished_files(options),
        Trial::Replay { kept } => replay(&kept),
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
    /// Runs `trial` with one seed after another.
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

fn phase(name: &str) -> Result<Phase, String> {
    let found = Phase::ALL.into_iter().find(|phase| phase.name() == name);
    found.ok_or_else(|| format!("one of {:?}", Phase::ALL.map(Phase::name)))
}

fn disk_faults(options: &FaultsOptions) -> Result<()> {
    let bench = Bench::new(binary()?)?;
    let wanted = |kind: &&Kind| options.kind.as_deref().is_none_or(|name| name == kind.name);
    options.bounds.each(|seed, deadline| {
        let only = options.phase.zip(options.call);
        let (steps, calls_max) = (options.steps, options.calls);
        let log = match options.log_on_disk {
            true => LogPlace::DataDirectory,
            false => LogPlace::StandardError,
        };
        let plan = faults::Plan { seed, steps, calls_max, only, deadline, log };
        for kind in KINDS.iter().filter(wanted) {
            println!("{}: {}", kind.name, faults::run(&bench, &plan, kind, &every_so_often())?);
        }
        Ok(())
    })
}

fn bit_flips(options: FlipsOptions) -> Result<()> {
    let bench = Bench::new(binary()?)?;
    options.bounds.each(|seed, deadline| {
        let amount = Amount::new(2, options.steps);
        let plan = flips::Plan { seed, amount, flips_max: options.flips, deadline };
        println!("{}", flips::run(&bench, &plan, &every_so_often())?);
        Ok(())
    })
}

fn failing_reads(options: ReadsOptions) -> Result<()> {
    let bench = Bench::new(binary()?)?;
    options.bounds.each(|seed, deadline| {
        let amount = Amount::new(1, options.steps);
        let (writes, calls_max) = (options.writes, options.calls);
        let plan = reads::Plan { seed, amount, writes, calls_max, deadline };
        println!("{}", reads::run(&bench, &plan, &every_so_often())?);
        Ok(())
    })
}

fn vanished_files(options: VanishedOptions) -> Result<()> {
    let bench = Bench::new(binary()?)?;
    options.bounds.each(|seed, _| {
        let amount = Amount::new(2, options.steps);
        println!("{}", vanished::run(&bench, seed, amount)?);
        Ok(())
    })
}

fn power_loss(options: PowerLoss) -> Result<()> {
    let PowerLoss { bounds, clients, steps, fills, states, every, recoveries, journalled } =
        options;
    let bench = Bench::new(binary()?)?;
    bounds.each(|seed, deadline| {
        let plan = power::Plan {
            names: if journalled { Names::Journalled } else { Names::Strict },
            seed,
            amount: Amount { fills, ..Amount::new(clients, steps) },
            states_max: if every { usize::MAX } else { states },
            recoveries_max: recoveries,
            deadline,
        };
        println!("{}", power::run(&bench, &plan, &every_so_often())?);
        Ok(())
    })
}

fn rotation(options: RotationOptions) -> Result<()> {
    let RotationOptions { bounds, steps, near, states, journalled } = options;
    let bench = Bench::new(binary()?)?;
    bounds.each(|seed, deadline| {
        let plan = power::Plan {
            names: if journalled { Names::Journalled } else { Names::Strict },
            seed,
            amount: Amount { bulk: rotation::BULK, ..Amount::new(2, steps) },
            states_max: states,
            recoveries_max: 1,
            deadline,
        };
        println!("{}", rotation::run(&bench, &plan, near, &every_so_often())?);
        Ok(())
    })
}

fn replay(kept: &Path) -> Result<()> {
    kept::replay(&Bench::new(binary()?)?, kept)?;
    println!("everything expected is there");
    Ok(())
}

/// Reports progress twice a minute.
fn every_so_often<C: Display>() -> impl Fn(&C) {
    let next = Cell::new(Instant::now() + PROGRESS);
    move |counts| {
        if Instant::now() > next.get() {
            println!("so far {counts}");
            next.set(Instant::now() + PROGRESS);
        }
    }
}
