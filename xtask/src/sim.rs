//! `cargo xtask sim`: the services, alone or behind the front, under simulated faults, seed after seed.

use crate::process;
use crate::tally::Tally;
use crate::workspace::Workspace;
use clap::{Args, ValueEnum};
use std::process::Command;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Repeat one run; with --seconds, start from this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Run seed after seed for this many seconds [default: 30, or one run when a seed is given]
    #[arg(long)]
    seconds: Option<u64>,
    /// What requests go through: the service alone, or the HTTP front too [default: each seed
    /// decides]
    #[arg(long)]
    through: Option<Through>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Through {
    Service,
    Front,
}

impl Options {
    pub(crate) const fn new(seed: u64, seconds: u64) -> Self {
        Self { seed: Some(seed), seconds: Some(seconds), through: None }
    }
}

pub(crate) fn run(workspace: &Workspace, options: Options) -> Tally {
    let mut command = program(workspace, "lazuli-sim");
    command.arg("simulate");
    let seconds = options.seconds.or(options.seed.is_none().then_some(30));
    arguments(&mut command, [("--seed", options.seed), ("--seconds", seconds)]);
    match options.through {
        Some(Through::Service) => command.args(["--through", "service"]),
        Some(Through::Front) => command.args(["--through", "front"]),
        None => &mut command,
    };
    process::check(&mut command)
}

/// A program of the workspace, built with optimization.
pub(crate) fn program(workspace: &Workspace, package: &str) -> Command {
    let mut command = workspace.cargo();
    command.args(["run", "--release", "--quiet", "--package", package, "--"]);
    command
}

pub(crate) fn arguments<const N: usize>(
    command: &mut Command,
    given: [(&'static str, Option<u64>); N],
) {
    for (name, value) in given {
        if let Some(value) = value {
            command.arg(name).arg(value.to_string());
        }
    }
}
