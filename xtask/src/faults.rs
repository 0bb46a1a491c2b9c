//! `cargo xtask torture --engine postgres|tikv`: the faults of a store that several gateways share (K-10.5).
//!
//! Three gateways of the real binary run on one store, each through a line of its own that can be made
//! bad. While a fault happens, clients that spread over all gateways record histories of tables and
//! queues, one after the other; every history is checked as the others of `lazuli-sim` are. A probe
//! measures how long each gateway needs for a write and a read, and when it is back.

mod gateways;
mod load;
mod loads;
mod probe;
mod script;
mod tikv;

use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use gateways::Cluster;
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::{processes, stores};
use script::Fault;

/// A store that several gateways may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    Postgres,
    Tikv,
}

impl Store {
    fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Tikv => "tikv",
        }
    }

    /// What is not installed that it needs, if anything.
    fn missing(self) -> Option<&'static str> {
        match self {
            Self::Postgres if !stores::postgres::is_installed() => {
                Some("PostgreSQL is not installed (Debian: postgresql-15)")
            }
            Self::Tikv if !stores::tikv::is_installed() => {
                Some("Go is not installed, which the stand-in of a TiKV cluster needs")
            }
            _ => None,
        }
    }
}

/// Which faults, how often.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) store: Store,
    /// The first seed.
    pub(crate) seed: u64,
    pub(crate) seeds: u64,
    /// Names of the faults; empty for all.
    pub(crate) only: Vec<String>,
}

impl Options {
    /// Some faults once, for the ordinary test command.
    pub(crate) fn short(store: Store) -> Self {
        let only: &[Fault] = match store {
            Store::Postgres => &[
                Fault::GatewayKilled,
                Fault::AnswersLost,
                Fault::LineResets,
                Fault::StoreRestarted,
                Fault::PrimaryLost,
                Fault::Deadlocks,
            ],
            Store::Tikv => {
                &[Fault::CallsLost, Fault::StoreRestarted, Fault::RegionsMove, Fault::OrphanedLocks]
            }
        };
        Self {
            store,
            seed: SystemClock.now().ticks(),
            seeds: 1,
            only: only.iter().map(|fault| fault.name().to_owned()).collect(),
        }
    }
}

/// Runs every fault with every seed. Without the store's programs it is skipped.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<Tally> {
    let Options { store, only, .. } = options;
    if let Some(missing) = store.missing() {
        println!("skipped: {missing}");
        return Ok(Tally::SKIPPED);
    }
    let all = Fault::of(*store);
    let is_known = |name: &String| all.iter().any(|fault| fault.name() == name);
    ensure!(
        only.iter().all(is_known),
        "no such fault; there are: {}",
        all.iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ")
    );
    let wanted = |fault: &&Fault| only.is_empty() || only.iter().any(|name| name == fault.name());
    let mut tally = Tally::default();
    for fault in all.iter().filter(wanted) {
        if fault.clock(0).is_some() && !processes::can_fake_time() {
            println!("{} is skipped: Debian's package faketime is not installed", fault.name());
            tally += Tally::SKIPPED;
            continue;
        }
        for seed in options.seed..options.seed + options.seeds {
            let outcome = Cluster::start(workspace, *store, *fault, seed)
                .and_then(|mut cluster| script::run(*fault, &mut cluster, Seeded::new(seed)));
            match outcome {
                Ok(report) => {
                    println!("{:22} seed {seed}: {report}", fault.name());
                    tally += Tally::PASSED;
                }
                Err(error) => {
                    println!(
                        "{} failed; reproduce with --engine {} --fault {} --seed {seed} --seeds \
                         1\n{error:#}",
                        fault.name(),
                        store.name(),
                        fault.name()
                    );
                    tally += Tally::FAILED;
                }
            }
        }
    }
    Ok(tally)
}
