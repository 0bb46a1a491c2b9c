//! `cargo xtask test`: the suites in order, their tallies added up.

use crate::client::{self, AZ, CLIENTS, Client};
use crate::rust_client::Part;
use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::{NoSkip, deny, kill, memory, process, readme, soak};
use anyhow::{Result, bail};
use clap::Args;
use std::time::Instant;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run only the suite of this name; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the names of the suites
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    no_skip: NoSkip,
}

/// One suite. Quick ones come first, so that a typing error shows within seconds.
enum Suite {
    Format,
    Lints,
    Deny,
    Unit,
    Client(&'static Client),
    RustClient(Part),
    Kill,
    Memory,
    Soak,
    Readme,
}

impl Suite {
    fn all() -> Vec<Self> {
        let mut suites = vec![Self::Format, Self::Lints, Self::Deny, Self::Unit];
        suites.extend(CLIENTS.iter().map(Self::Client));
        suites.extend(Part::ALL.map(Self::RustClient));
        suites.extend([Self::Kill, Self::Memory, Self::Soak, Self::Readme]);
        suites
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Lints => "lints",
            Self::Deny => "deny",
            Self::Unit => "unit",
            Self::Client(client) => client.name,
            Self::RustClient(part) => part.name(),
            Self::Kill => "kill",
            Self::Memory => "memory",
            Self::Soak => "soak",
            Self::Readme => "readme",
        }
    }

    fn run(&self, workspace: &Workspace) -> Result<Tally> {
        match self {
            Self::Format => Ok(format(workspace)),
            Self::Lints => Ok(lints(workspace)),
            Self::Deny => deny::run(workspace),
            Self::Unit => {
                let mut command = workspace.cargo();
                command.args(["test", "--workspace", "--no-fail-fast"]);
                process::run_counted(&mut command, process::count_cargo_test)
            }
            Self::Client(client) => client::run(workspace, client),
            Self::RustClient(part) => part.run(workspace),
            Self::Kill => kill::run(workspace, kill::Options::default()),
            Self::Memory => memory::run(workspace, memory::Options::default()),
            Self::Soak => soak::run(workspace, soak::Options::SHORT),
            Self::Readme => readme::run(workspace),
        }
    }
}

/// Prints the names of the suites.
pub(crate) fn list() {
    Suite::all().iter().for_each(|suite| println!("{}", suite.name()));
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<Tally> {
    let suites = Suite::all();
    if let Some(unknown) =
        options.only.iter().find(|name| suites.iter().all(|suite| suite.name() != **name))
    {
        bail!("no suite is called '{unknown}'; --list names them");
    }
    let wanted = |suite: &&Suite| {
        options.only.is_empty() || options.only.iter().any(|name| name == suite.name())
    };
    let mut total = Tally::default();
    let mut summary = Vec::new();
    for suite in suites.iter().filter(wanted) {
        let tally = run_one(suite.name(), options.no_skip, || suite.run(workspace));
        total += tally;
        summary.push((suite.name(), tally));
    }
    println!();
    for (name, tally) in summary {
        println!("{name:18} {tally}");
    }
    Ok(total)
}

/// Format, lints, licences and advisories: the checks that need no running server.
pub(crate) fn check(workspace: &Workspace) -> Result<Tally> {
    let mut tally = format(workspace);
    tally += lints(workspace);
    tally += deny::run(workspace)?;
    Ok(tally)
}

pub(crate) fn az(workspace: &Workspace, no_skip: NoSkip) -> Tally {
    run_one(AZ.name, no_skip, || client::run(workspace, &AZ))
}

/// Runs one suite under a heading; an error of the suite itself counts as one failure.
fn run_one(name: &str, no_skip: NoSkip, suite: impl FnOnce() -> Result<Tally>) -> Tally {
    println!("\n== {name} ==");
    let start = Instant::now();
    let mut tally = suite().unwrap_or_else(|error| {
        println!("{name} failed: {error:#}");
        Tally::FAILED
    });
    if no_skip.no_skip && tally.passed == 0 && tally.skipped > 0 {
        println!("{name} was skipped, which --no-skip (or CI=true) counts as failed");
        tally = Tally::FAILED;
    }
    println!("{name}: {tally} ({:.0} s)", start.elapsed().as_secs_f64());
    tally
}

fn format(workspace: &Workspace) -> Tally {
    process::check(workspace.cargo().args(["fmt", "--all", "--check"]))
}

fn lints(workspace: &Workspace) -> Tally {
    let mut command = workspace.cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    process::check(&mut command)
}
