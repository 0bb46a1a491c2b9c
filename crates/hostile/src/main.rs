//! `lazuli-hostile`: feeds generated input to the parsers, or attacks a running server.

#![expect(clippy::print_stdout, reason = "it prints its report")]

use clap::{Args, Parser, Subcommand, ValueEnum};
use lazuli_hostile::drive::{Mutator, corpus, try_one};
use lazuli_hostile::http::{ATTACKS, Seen, Witness, idle_connections};
use lazuli_hostile::{TARGETS, Target};
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::seed::Seeded;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug, Parser)]
#[command(about = "Hostile input for the parsers, and malformed HTTP for a running server")]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Feed generated input to one parser, or to each in turn
    Fuzz {
        /// The parser [default: each in turn]
        target: Option<String>,
        /// The directory that has a corpus for each parser
        #[arg(long)]
        corpus: PathBuf,
        #[command(flatten)]
        bounds: Bounds,
    },
    /// Attack a running server while an ordinary client continues to work
    Http {
        #[arg(long)]
        address: SocketAddr,
        /// The service that listens there
        #[arg(long, value_enum, default_value_t = Service::Table)]
        service: Service,
        /// Idle connections to keep open during the attacks
        #[arg(long, default_value_t = 1000)]
        idle: usize,
        #[command(flatten)]
        bounds: Bounds,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Service {
    Table,
    Queue,
}

#[derive(Args, Clone, Copy, Debug)]
struct Bounds {
    /// Seconds for each parser, or for all attacks together
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Reproduce the choices of an earlier run
    #[arg(long)]
    seed: Option<u64>,
}

impl Bounds {
    fn seed(self) -> u64 {
        self.seed.unwrap_or_else(|| SystemClock.now().ticks())
    }

    fn time(self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().what {
        What::Fuzz { target, corpus, bounds } => {
            let wanted = |known: &&Target| target.as_deref().is_none_or(|name| name == known.name);
            let mut targets = TARGETS.iter().filter(wanted).peekable();
            match targets.peek() {
                None => Err(io::Error::other("no parser has that name")),
                Some(_) => targets.try_for_each(|target| fuzz(target, &corpus, bounds)),
            }
        }
        What::Http { address, service, idle, bounds } => attack(address, service, idle, bounds),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn fuzz(target: &Target, directory: &std::path::Path, bounds: Bounds) -> io::Result<()> {
    // Panics are caught and reported below.
    std::panic::set_hook(Box::new(|_| {}));
    let seeds = corpus(directory, target)?;
    let seed = bounds.seed();
    let mut mutator = Mutator::new(target, &seeds, Seeded::new(seed));
    let start = Instant::now();
    let mut tried = 0_u64;
    let inputs = seeds.iter().cloned().chain(std::iter::from_fn(|| Some(mutator.input())));
    for input in inputs {
        tried += 1;
        if let Err(finding) = try_one(target, &input) {
            let text = String::from_utf8_lossy(&finding.input);
            let message = &finding.message;
            println!(
                "{}, --seed {seed}: {message}\n  of {:?}\n  = {text}",
                target.name, finding.input
            );
            return Err(io::Error::other("an input broke what must hold"));
        }
        if tried.is_multiple_of(1024) && start.elapsed() >= bounds.time() {
            break;
        }
    }
    println!("{:14} {tried} inputs in {:.1} s", target.name, start.elapsed().as_secs_f64());
    Ok(())
}

fn attack(address: SocketAddr, service: Service, idle: usize, bounds: Bounds) -> io::Result<()> {
    let seed = bounds.seed();
    let mut random = Seeded::new(seed);
    println!("attacks: --seed {seed}");
    let wanted = idle;
    let idle = idle_connections(address, wanted);
    let over = AtomicBool::new(false);
    let mut witness = match service {
        Service::Table => Witness::new(address, "Witness")?,
        Service::Queue => Witness::of_queues(address)?,
    };
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                witness.work()?;
            }
            Ok::<_, io::Error>(witness.served())
        });
        let start = Instant::now();
        let mut outcome = Ok(());
        while start.elapsed() < bounds.time() && outcome.is_ok() && !watching.is_finished() {
            outcome = round(address, &mut random);
        }
        over.store(true, Ordering::SeqCst);
        let served = match watching.join() {
            Ok(served) => served?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        println!(
            "{} of {wanted} idle connections; the ordinary client did {} rounds, the slowest in {} ms",
            idle.len(),
            served.rounds,
            served.slowest.as_millis()
        );
        outcome
    })
}

fn round(address: SocketAddr, random: &mut Seeded) -> io::Result<()> {
    for attack in ATTACKS {
        let Seen { done, refused, silent } = attack.run(address, random)?;
        println!("{:24} {done:4} done, {refused:4} refused, {silent:4} silent", attack.name);
    }
    Ok(())
}
