//! `cargo xtask torture --engine postgres|tikv`: the faults of a store that several gateways share (K-10.5).
//!
//! Three gateways of the real binary run on one store, each through its own line, which can be made
//! unreliable. During a fault, clients spread over all gateways record histories of tables and queues, one
//! after the other; every history is checked like the others of `lazuli-sim`. Other clients write a table with
//! indexes, a feed and expiring entities, and transactions with messages (`derived.rs`). A probe measures how
//! long each gateway needs for a write and a read, and when it has recovered.

mod derived;
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
use std::collections::VecDeque;
use std::thread::JoinHandle;
use std::time::Instant;

/// Runs that wait for their indexes to be built while others continue.
const ENDING_MAX: usize = 3;

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

    /// The missing program that it needs, if any.
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

/// Which faults to run, and how often.
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
    let mut ending: VecDeque<Ending> = VecDeque::new();
    for fault in all.iter().filter(wanted) {
        if fault.clock(0).is_some() && !processes::can_fake_time() {
            println!("{} is skipped: Debian's package faketime is not installed", fault.name());
            tally += Tally::SKIPPED;
            continue;
        }
        for seed in options.seed..options.seed + options.seeds {
            let run = Run { store: *store, fault: *fault, seed, began: Instant::now() };
            let outcome =
                Cluster::start(workspace, *store, *fault, seed).and_then(|mut cluster| {
                    let outcome = script::run(*fault, &mut cluster, Seeded::new(seed))?;
                    Ok((cluster, outcome))
                });
            match outcome {
                Ok((cluster, outcome)) => {
                    let end = std::thread::spawn(move || script::end(cluster, outcome));
                    ending.push_back((run, end));
                }
                Err(error) => tally += run.tell(Err(error)),
            }
            if ending.len() >= ENDING_MAX {
                tally += ending.pop_front().map_or(Tally::default(), finish);
            }
        }
    }
    for ended in ending {
        tally += finish(ended);
    }
    Ok(tally)
}

/// A run of a fault with a seed.
struct Run {
    store: Store,
    fault: Fault,
    seed: u64,
    began: Instant,
}

type Ending = (Run, JoinHandle<Result<String>>);

fn finish((run, end): Ending) -> Tally {
    run.tell(end.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

impl Run {
    /// Prints how it ended.
    fn tell(&self, outcome: Result<String>) -> Tally {
        let Self { store, fault, seed, began } = self;
        let (name, seconds) = (fault.name(), began.elapsed().as_secs());
        match outcome {
            Ok(report) => {
                println!("{name:22} seed {seed}: {report}; {seconds} s");
                Tally::PASSED
            }
            Err(error) => {
                let store = store.name();
                println!(
                    "{name} failed; reproduce with --engine {store} --fault {name} --seed {seed} \
                     --seeds 1\n{error:#}"
                );
                Tally::FAILED
            }
        }
    }
}
