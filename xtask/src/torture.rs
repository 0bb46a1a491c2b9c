//! `cargo xtask torture`: everything that tries to break a promise, for a given time.
//!
//! The parts run one after the other, each for its share of the time and from the same seed. A
//! failed part prints the seed that reproduces it. docs/reliability.md describes the parts.

use crate::sim::{arguments, program};
use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::{faults, fuzz, kill, memory, process, sim, soak};
use anyhow::{Context, Result, ensure};
use clap::Args;
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::server::Server;
use std::net::SocketAddr;
use std::process::Command;

/// Idle connections during the attack.
const IDLE_CONNECTIONS: u64 = 10_000;
/// Maximum memory of the server during the attack.
const ATTACKED_MIB_MAX: u64 = 600;
/// Parts that share the time: seven, and the disk trials.
const PARTS: u64 = 7 + DISK_TRIALS.len() as u64;
/// Settings under which clients are recorded: what the server caches of tables and queues depends on
/// whether an acknowledged commit may be lost.
const DURABILITIES: [&str; 2] = ["sync", "memory"];

/// One disk trial.
struct DiskTrial {
    name: &'static str,
    /// Arguments of `lazuli-disk` for a sample.
    sample: &'static [&'static str],
    /// Arguments for every state and every call.
    every: &'static [&'static str],
}

const DISK_TRIALS: [DiskTrial; 9] = [
    DiskTrial { name: "power loss", sample: &["power-loss"], every: &["power-loss", "--every"] },
    DiskTrial {
        name: "power loss with a journalling file system",
        sample: &["power-loss", "--journalled", "--states", "20"],
        every: &["power-loss", "--every", "--journalled"],
    },
    DiskTrial {
        name: "power loss during table drops",
        sample: &["power-loss", "--fills", "21", "--steps", "60"],
        every: &["power-loss", "--every", "--fills", "21", "--steps", "60"],
    },
    DiskTrial {
        name: "power loss during journal rotation",
        sample: &["rotation", "--states", "10"],
        every: &["rotation"],
    },
    DiskTrial {
        name: "disk faults",
        sample: &["faults", "--steps", "40", "--calls", "2"],
        every: &["faults"],
    },
    DiskTrial {
        name: "disk faults with the log on the same disk",
        sample: &["faults", "--log-on-disk", "--calls", "1"],
        every: &["faults", "--log-on-disk"],
    },
    DiskTrial { name: "failing reads", sample: &["reads", "--calls", "2"], every: &["reads"] },
    DiskTrial {
        name: "bit flips",
        sample: &["flips", "--flips", "2"],
        every: &["flips", "--flips", "60"],
    },
    DiskTrial { name: "vanished files", sample: &["vanished"], every: &["vanished"] },
];

#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Total seconds of all parts, without builds
    #[arg(long, default_value_t = 240)]
    seconds: u64,
    /// Reproduce the choices of an earlier run
    #[arg(long)]
    seed: Option<u64>,
    /// Try every state and every call in the disk trials, without a time limit
    #[arg(long)]
    every: bool,
    /// Instead of all that, the faults of a store that three gateways share
    #[arg(long, value_name = "STORE")]
    engine: Option<faults::Store>,
    /// With --engine: only this fault; may be repeated
    #[arg(long, requires = "engine")]
    fault: Vec<String>,
    /// With --engine: how often each fault happens, each time with another seed
    #[arg(long, requires = "engine", default_value_t = 10)]
    seeds: u64,
}

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<Tally> {
    let seed = options.seed.unwrap_or_else(|| SystemClock.now().ticks());
    if let Some(store) = options.engine {
        let Options { seeds, fault: only, .. } = options;
        return faults::run(workspace, &faults::Options { store, seed, seeds, only });
    }
    println!("torture: {} s, --seed {seed}", options.seconds);
    let share = (options.seconds / PARTS).max(1);
    let mut tally = Tally::default();
    let mut part = |name: &str, outcome: &dyn Fn() -> Result<Tally>| {
        println!("\n-- {name} --");
        tally += outcome().unwrap_or_else(|error| {
            println!("{name} failed, reproduce with --seed {seed}: {error:#}");
            Tally::FAILED
        });
    };
    part("simulation", &|| Ok(sim::run(workspace, sim::Options::new(seed, share))));
    part("histories of concurrent clients", &|| histories(workspace, seed, share));
    part("histories of queues", &|| queue_histories(workspace, seed, share));
    part("generated input", &|| fuzz::run_each(workspace, seed, share));
    part("malformed HTTP", &|| attacks(workspace, seed, share));
    for trial in &DISK_TRIALS {
        let seconds = (!options.every).then_some(share);
        part(trial.name, &|| disk(workspace, seed, seconds, trial));
    }
    part("kill", &|| kill::run(workspace, kill::Options::new(seed, share)));
    part("soak", &|| soak::run(workspace, soak::Options::new(seed, share)));
    part("authorization", &|| Ok(authorization(workspace)));
    Ok(tally)
}

/// The whole matrix; more time would add nothing.
fn authorization(workspace: &Workspace) -> Tally {
    let test = ["test", "--quiet", "--package", "lazuli-server", "--test", "authorization_matrix"];
    process::check(workspace.cargo().args(test))
}

/// Runs the real binary on a disk that loses power, fails, or decays; without a time limit, in
/// every way.
fn disk(
    workspace: &Workspace,
    seed: u64,
    seconds: Option<u64>,
    trial: &DiskTrial,
) -> Result<Tally> {
    let binary = workspace.binary()?;
    let mut command = program(workspace, "lazuli-disk");
    let given = if seconds.is_some() { trial.sample } else { trial.every };
    command.env("LAZULI_BIN", binary).args(given);
    arguments(&mut command, [("--seed", Some(seed)), ("--seconds", seconds)]);
    Ok(process::check(&mut command))
}

/// Records clients of the real binary, and checks the histories.
fn histories(workspace: &Workspace, seed: u64, seconds: u64) -> Result<Tally> {
    record(workspace, (seed, seconds), &["record"], table_address)
}

/// The same for clients of queues.
fn queue_histories(workspace: &Workspace, seed: u64, seconds: u64) -> Result<Tally> {
    record(workspace, (seed, seconds), &["record", "--service", "queue"], queue_address)
}

/// Records under each setting, each for its share of the time.
fn record(
    workspace: &Workspace,
    (seed, seconds): (u64, u64),
    given: &[&str],
    address: impl Fn(&Server) -> Result<SocketAddr>,
) -> Result<Tally> {
    let seconds = (seconds / DURABILITIES.len() as u64).max(1);
    let mut tally = Tally::default();
    for durability in DURABILITIES {
        println!("--durability {durability}");
        let mut command = program(workspace, "lazuli-sim");
        command.args(given);
        arguments(&mut command, [("--seed", Some(seed)), ("--seconds", Some(seconds))]);
        tally += with_server(workspace, durability, &mut command, &address, |_| Ok(()))?;
    }
    Ok(tally)
}

fn table_address(server: &Server) -> Result<SocketAddr> {
    Ok(server.address())
}

fn queue_address(server: &Server) -> Result<SocketAddr> {
    server.queue().context("the server has no queues")
}

/// Attacks each service of the real binary, and checks its memory and its log.
fn attacks(workspace: &Workspace, seed: u64, seconds: u64) -> Result<Tally> {
    let mut tally = attack(workspace, (seed, seconds / 2), "table", table_address)?;
    tally += attack(workspace, (seed, seconds / 2), "queue", queue_address)?;
    Ok(tally)
}

fn attack(
    workspace: &Workspace,
    (seed, seconds): (u64, u64),
    service: &str,
    address: impl Fn(&Server) -> Result<SocketAddr>,
) -> Result<Tally> {
    let mut command = program(workspace, "lazuli-hostile");
    command.args(["http", "--service", service]);
    let (idle, seconds) = (Some(IDLE_CONNECTIONS), Some(seconds.max(1)));
    arguments(&mut command, [("--seed", Some(seed)), ("--seconds", seconds), ("--idle", idle)]);
    with_server(workspace, "memory", &mut command, &address, |server| {
        let peak = memory::peak_mib(server.pid())?;
        println!("the server's memory peaked at {peak} MiB");
        ensure!(peak <= ATTACKED_MIB_MAX, "more than {ATTACKED_MIB_MAX} MiB");
        Ok(())
    })
}

/// Runs `command` with the address of a new server, which must not panic and must stop cleanly.
fn with_server(
    workspace: &Workspace,
    durability: &str,
    command: &mut Command,
    address: &impl Fn(&Server) -> Result<SocketAddr>,
    look: impl FnOnce(&Server) -> Result<()>,
) -> Result<Tally> {
    let data = tempfile::tempdir().context("create a data directory")?;
    let server = Server::start(workspace.binary()?, data.path(), &["--durability", durability])?;
    command.arg("--address").arg(address(&server)?.to_string());
    let mut tally = process::check(command);
    look(&server)?;
    let log = server.log();
    ensure!(!log.contains("panicked"), "the server panicked; its log ends:\n{log}");
    ensure!(server.terminate()?.success(), "the server did not stop cleanly; its log ends:\n{log}");
    tally += Tally::PASSED;
    Ok(tally)
}
