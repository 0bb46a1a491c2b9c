//! `cargo xtask test`: the suites in order, their tallies added up.

use crate::client::{self, AZ, CLIENTS, Client};
use crate::rust_client::Part;
use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::{NoSkip, deny, faults, kill, memory, process, readme, soak};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use lazuli_testkit::stores::postgres;
use lazuli_testkit::stores::tikv::{self, StandIn};
use std::time::Instant;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Run only the suite of this name; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the names of the suites
    #[arg(long)]
    pub(crate) list: bool,
    /// Test this engine instead: its own suite, the SDK programs, the recorded traffic, and histories over
    /// three gateways under faults
    #[arg(long, value_name = "NAME")]
    engine: Option<Shared>,
    #[command(flatten)]
    no_skip: NoSkip,
}

/// One suite. Quick ones come first, so that a typo shows within seconds.
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
    Faults(faults::Store),
    Readme,
}

impl Suite {
    fn all() -> Vec<Self> {
        let mut suites = vec![Self::Format, Self::Lints, Self::Deny, Self::Unit];
        suites.extend(CLIENTS.iter().map(Self::Client));
        suites.extend(Part::ALL.map(Self::RustClient));
        suites.extend([Self::Kill, Self::Memory, Self::Soak]);
        suites.extend([faults::Store::Postgres, faults::Store::Tikv].map(Self::Faults));
        suites.push(Self::Readme);
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
            Self::Faults(faults::Store::Postgres) => "faults",
            Self::Faults(faults::Store::Tikv) => "faults-tikv",
            Self::Readme => "readme",
        }
    }

    fn run(&self, workspace: &Workspace, no_skip: NoSkip) -> Result<Tally> {
        match self {
            Self::Format => Ok(format(workspace)),
            Self::Lints => Ok(lints(workspace)),
            Self::Deny => deny::run(workspace),
            Self::Unit => {
                let mut command = workspace.cargo();
                command.args(["test", "--workspace", "--no-fail-fast"]);
                no_skip.tell(&mut command);
                process::run_counted(&mut command, process::count_cargo_test)
            }
            Self::Client(client) => client::run(workspace, client),
            Self::RustClient(part) => part.run(workspace),
            Self::Kill => kill::run(workspace, kill::Options::default()),
            Self::Memory => memory::run(workspace, memory::Options::default()),
            Self::Soak => soak::run(workspace, soak::Options::SHORT),
            Self::Faults(store) => faults::run(workspace, &faults::Options::short(*store)),
            Self::Readme => readme::run(workspace),
        }
    }
}

/// Prints the names of the suites.
pub(crate) fn list() {
    Suite::all().iter().for_each(|suite| println!("{}", suite.name()));
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<Tally> {
    if let Some(engine) = options.engine {
        return run_on_engine(workspace, engine, options);
    }
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
        let tally =
            run_one(suite.name(), options.no_skip, || suite.run(workspace, options.no_skip));
        total += tally;
        summary.push((suite.name(), tally));
    }
    println!();
    for (name, tally) in summary {
        println!("{name:18} {tally}");
    }
    Ok(total)
}

/// The suites that do not depend on the engine they run on (K-10.4), and the engine's own.
fn run_on_engine(workspace: &Workspace, engine: Shared, options: &Options) -> Result<Tally> {
    let Some(store) = engine.store() else {
        println!("skipped: {}", engine.missing());
        return Ok(run_one("engine", options.no_skip, || Ok(Tally::SKIPPED)));
    };
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| o == name);
    let mut total = Tally::default();
    let mut suite = |name: &'static str, run: &dyn Fn() -> Result<Tally>| {
        if wanted(name) {
            total += run_one(name, options.no_skip, run);
        }
    };
    let cargo_test = |arguments: &[&str]| {
        let mut command = workspace.cargo();
        command.args(["test", "--no-fail-fast"]).args(arguments).envs(engine.environment(&store));
        options.no_skip.tell(&mut command);
        process::run_counted(&mut command, process::count_cargo_test)
    };
    suite("engine", &|| cargo_test(&["-p", engine.package()]));
    suite("gateway", &|| cargo_test(engine.gateway_tests()));
    suite("golden", &|| cargo_test(&["-p", "lazuli-server", "--test", "wire", "golden"]));
    for client in CLIENTS {
        suite(client.name, &|| client::run_on_store(workspace, client, &store.address));
    }
    // Histories of clients spread over three gateways, on their own servers (K-10.3).
    suite("faults", &|| faults::run(workspace, &faults::Options::short(engine.faults())));
    Ok(total)
}

/// An engine on a store that gateways share.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shared {
    Postgres,
    Tikv,
}

/// A store that runs for the suites.
struct Running {
    address: String,
    /// Set if this process has started it.
    _stand_in: Option<StandIn>,
}

impl Shared {
    fn faults(self) -> faults::Store {
        match self {
            Self::Postgres => faults::Store::Postgres,
            Self::Tikv => faults::Store::Tikv,
        }
    }

    /// The store that the environment names, or one started for this process; `None` if it is not
    /// installed.
    fn store(self) -> Option<Running> {
        let named = |address| Running { address, _stand_in: None };
        match self {
            Self::Postgres => {
                let given = std::env::var(postgres::ADDRESS_VARIABLE).ok();
                let start = || postgres::shared_address().to_owned();
                given.or_else(|| postgres::is_installed().then(start)).map(named)
            }
            // The engine's own tests start stand-ins that they can break, even where a cluster is named.
            Self::Tikv if !tikv::is_installed() => None,
            Self::Tikv => Some(match std::env::var(tikv::ADDRESS_VARIABLE) {
                Ok(drivers) => named(format!("tikv://{}", drivers.trim_start_matches("tikv://"))),
                Err(_) => {
                    let stand_in = StandIn::start();
                    Running { address: stand_in.engine(), _stand_in: Some(stand_in) }
                }
            }),
        }
    }

    fn missing(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL is not installed (Debian: postgresql-15)",
            Self::Tikv => "Go is not installed, which the stand-in of a TiKV cluster needs",
        }
    }

    /// The environment variables that give the tests the store.
    fn environment(self, store: &Running) -> Vec<(&'static str, String)> {
        match self {
            Self::Postgres => vec![
                (postgres::ADDRESS_VARIABLE, store.address.clone()),
                ("LAZULI_TEST_ENGINE", store.address.clone()),
            ],
            // Recorded traffic needs an empty cluster each time, so each test has its own stand-in.
            Self::Tikv => vec![("LAZULI_TEST_ENGINE", "tikv".to_owned())],
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Postgres => "lazuli-engine-postgres",
            Self::Tikv => "lazuli-engine-tikv",
        }
    }

    fn gateway_tests(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &["-p", "lazuli", "--test", "shared_store"],
            Self::Tikv => &["-p", "lazuli", "--test", "shared_tikv", "--test", "shared_copy"],
        }
    }
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
