//! `lazuli-sim`: runs many seeds, or repeats one; simulated, or over HTTP on a running server.

#![expect(clippy::print_stdout, reason = "it prints its report")]

use clap::{Args, Parser, Subcommand, ValueEnum};
use lazuli_model::{Clock, SystemClock};
use lazuli_sim::record::{self, Report};
use lazuli_sim::simulation;
use lazuli_sim::workload::Workload;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, Parser)]
#[command(about = "Concurrent histories and simulated faults, checked against a model")]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The services or the whole front under simulated faults, one thread, repeatable
    Simulate {
        #[command(flatten)]
        seeds: Seeds,
        /// The service that is asked; each seed asks both, and both at once, if not given
        #[arg(long)]
        service: Option<Service>,
        /// What requests to tables pass; each seed decides if not given
        #[arg(long)]
        through: Option<Through>,
    },
    /// Clients of a running server, over HTTP
    Record {
        #[command(flatten)]
        seeds: Seeds,
        /// Where the service listens; given several times, clients spread over all
        #[arg(long, required = true)]
        address: Vec<SocketAddr>,
        /// The service that listens there
        #[arg(long, value_enum, default_value_t = Service::Table)]
        service: Service,
        #[arg(long, default_value_t = 8)]
        clients: usize,
        /// Requests of each client in one history
        #[arg(long, default_value_t = 40)]
        requests: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Service {
    Table,
    Queue,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Through {
    Service,
    Front,
}

impl From<Through> for simulation::Through {
    fn from(through: Through) -> Self {
        match through {
            Through::Service => Self::Service,
            Through::Front => Self::Front,
        }
    }
}

#[derive(Args, Clone, Copy, Debug)]
struct Seeds {
    /// The first seed; without --seconds, the only one
    #[arg(long)]
    seed: Option<u64>,
    /// Run seed after seed for this many seconds
    #[arg(long)]
    seconds: Option<u64>,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().what {
        What::Simulate { seeds, service, through } => seeds.go_through(|seed| {
            let mut report = Report::default();
            if service != Some(Service::Queue) {
                report += simulate_tables(seed, through)?;
            }
            if service != Some(Service::Table) {
                report += simulate_queue(seed)?;
            }
            if service.is_none() {
                report += simulate_messages(seed)?;
            }
            Ok(report)
        }),
        What::Record { seeds, address, clients, requests, service: Service::Queue } => seeds
            .go_through(|seed| {
                lazuli_sim::queue::record::run(&address, seed, clients.min(12), requests)
            }),
        What::Record { seeds, address, clients, requests, .. } => seeds.go_through(|seed| {
            let chosen = (seed % Workload::ALL.len() as u64) as usize;
            let workload = Workload::ALL.get(chosen).copied().unwrap_or(Workload::Mix);
            let clients = clients.min(Workload::CLIENTS_MAX);
            let plan = record::Plan { addresses: &address, workload, clients, requests, seed };
            record::run(plan).map_err(|failure| format!("{plan:?}\n{failure}"))
        }),
    };
    if outcome { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn simulate_tables(seed: u64, through: Option<Through>) -> Result<Report, String> {
    let mut plan = simulation::Plan::of_seed(seed);
    plan.through = through.map_or(plan.through, Through::into);
    simulation::run(plan).map_err(|failure| format!("{plan:?}\n{failure}"))
}

fn simulate_queue(seed: u64) -> Result<Report, String> {
    let plan = simulation::queues::Plan::of_seed(seed);
    simulation::queues::run(plan).map_err(|failure| format!("{plan:?}\n{failure}"))
}

/// Transactions of both services.
fn simulate_messages(seed: u64) -> Result<Report, String> {
    let plan = simulation::messages::Plan::of_seed(seed);
    simulation::messages::run(plan).map_err(|failure| format!("{plan:?}\n{failure}"))
}

impl Seeds {
    /// Runs one seed after another until time is up or one fails; prints the results.
    fn go_through(self, run: impl Fn(u64) -> Result<Report, String>) -> bool {
        let first = self.seed.unwrap_or_else(|| SystemClock.now().ticks());
        let time = Duration::from_secs(self.seconds.unwrap_or_default());
        let start = Instant::now();
        let (mut runs, mut total) = (0_u64, Report::default());
        for seed in first.. {
            match run(seed) {
                Ok(report) => total += report,
                Err(failure) => {
                    println!("failed; reproduce with --seed {seed}\n{failure}");
                    return false;
                }
            }
            runs += 1;
            if start.elapsed() >= time {
                break;
            }
        }
        println!(
            "{runs} runs from seed {first} in {:.1} s: {} calls, {} of unknown outcome, {} refused, \
             {} without permission; {} runs too large to decide",
            start.elapsed().as_secs_f64(),
            total.calls,
            total.unknown,
            total.refused,
            total.forbidden,
            total.undecided,
        );
        true
    }
}
