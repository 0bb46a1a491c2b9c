//! `cargo xtask soak`: mixed requests on many connections, with tables that are created and
//! deleted, for a given time.
//!
//! Every connection records what was acknowledged and checks it during the run: point reads, pages,
//! writes that must be refused. At the end everything is read back; then the server is killed with
//! `kill -9` under the same load and restarted, and everything is read back again. The process is
//! sampled too: memory, descriptors and disk should not grow without bound, nor should requests
//! become slower.
//!
//! The soak fails only for lost writes and wrong responses. The figures, including server errors,
//! are for people; they are also written to `target/soak.json`.

mod figures;
mod watch;
mod worker;

use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use figures::Figures;
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::acknowledged::LostWrites;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::Server;
use lazuli_testkit::table;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use watch::Watch;
use worker::{Until, Worker};

/// The table that all connections share.
const TABLE: &str = "Soak";
/// Finished requests of the second load before the kill.
const KILL_AFTER: u64 = 2_000;
/// How long it may take to get there.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Seconds that the load lasts
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Concurrent connections
    #[arg(long, default_value_t = 256)]
    connections: usize,
    /// Reproduce the choices of an earlier run
    #[arg(long)]
    seed: Option<u64>,
}

impl Options {
    /// For the test command: long enough for every kind of request on every connection.
    pub(crate) const SHORT: Self = Self { seconds: 20, connections: 256, seed: None };

    pub(crate) const fn new(seed: u64, seconds: u64) -> Self {
        Self { seconds, seed: Some(seed), ..Self::SHORT }
    }
}

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<Tally> {
    let seed = options.seed.unwrap_or_else(|| SystemClock.now().ticks());
    let Options { seconds, connections, .. } = options;
    println!("soak: {seconds} s on {connections} connections, --seed {seed}");
    let mut soak = Soak::start(workspace.binary()?, options, seed)?;
    let mut tally = Tally::default();
    let mut step = |name: &str, outcome: Result<()>| {
        tally += match outcome {
            Ok(()) => Tally::PASSED,
            Err(error) => {
                println!("{name} failed, reproduce with --seed {seed}: {error:#}");
                Tally::FAILED
            }
        };
    };
    let (server, loaded) = soak.load(Duration::from_secs(seconds))?;
    step("the load", loaded);
    step("what was acknowledged", soak.compare(&server));
    step("the kill", soak.load_into_kill(server));
    let server = soak.open()?;
    step("what was acknowledged before the kill", soak.compare(&server));
    let log = server.log();
    let ended = server.terminate()?;
    step("the end", if ended.success() { Ok(()) } else { Err(anyhow!("{ended}\n{log}")) });
    let report = soak.figures.report(&options, seed);
    println!("{report}");
    let file = workspace.target.join("soak.json");
    fs::write(&file, report.json()).with_context(|| format!("write {}", file.display()))?;
    println!("figures: {}", file.display());
    Ok(tally)
}

/// One data directory, and the workers that know what must be in it.
struct Soak<'a> {
    binary: &'a Path,
    data: tempfile::TempDir,
    workers: Vec<Worker>,
    figures: Figures,
}

impl<'a> Soak<'a> {
    fn start(binary: &'a Path, options: Options, seed: u64) -> Result<Self> {
        let data = tempfile::tempdir().context("create a data directory")?;
        let random = Seeded::new(seed);
        let worker = |number: usize| Worker::new(number, random.stream(number as u64));
        let workers = (0..options.connections).map(worker).collect();
        let figures = Figures::new(Duration::from_secs(options.seconds));
        Ok(Self { binary, data, workers, figures })
    }

    fn open(&self) -> Result<Server> {
        Ok(Server::start(self.binary, self.data.path(), &[])?)
    }

    /// Works for some time; the server is left running.
    fn load(&mut self, time: Duration) -> Result<(Server, Result<()>)> {
        let server = self.open()?;
        table::create(&mut server.connect()?, TABLE)?.done()?;
        let mut watch = Watch::new(server.pid(), self.data.path());
        let over = AtomicBool::new(false);
        let outcome = self.work(server.address(), Until::Over(&over), |figures| {
            let watched = watch.run(figures, time);
            // On errors too: only this ends the work.
            over.store(true, Ordering::SeqCst);
            watched
        });
        self.figures.watched(watch);
        let outcome = outcome.with_context(|| format!("the server's log ends:\n{}", server.log()));
        Ok((server, outcome))
    }

    /// Works until the server is killed under it.
    fn load_into_kill(&mut self, server: Server) -> Result<()> {
        let target = self.figures.operations() + KILL_AFTER;
        self.work(server.address(), Until::CutOff, |figures| {
            let reached = figures.wait_for(target, PATIENCE);
            // On errors too: only this ends the work.
            server.kill().context("kill the server")?;
            ensure!(reached, "the connections stopped before the kill");
            Ok(())
        })
    }

    /// Runs all workers while `meanwhile` runs, which ends them.
    fn work(
        &mut self,
        address: SocketAddr,
        until: Until<'_>,
        meanwhile: impl FnOnce(&Figures) -> Result<()>,
    ) -> Result<()> {
        let figures = &self.figures;
        std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .workers
                .iter_mut()
                .map(|worker| {
                    scope.spawn(move || {
                        let outcome = worker.work(address, until, figures);
                        outcome.inspect_err(|_| figures.fail())
                    })
                })
                .collect();
            let outcome = meanwhile(figures);
            for thread in threads {
                thread.join().map_err(|_| anyhow!("a connection's thread panicked"))??;
            }
            outcome
        })
    }

    /// Reads back everything that was acknowledged to any connection.
    fn compare(&mut self, server: &Server) -> Result<()> {
        let address = server.address();
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let workers = self.workers.iter_mut();
            let threads: Vec<_> =
                workers.map(|worker| scope.spawn(move || worker.compare(address))).collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        let mut wrong = Vec::new();
        for outcome in outcomes {
            if let Err(error) = outcome.map_err(|_| anyhow!("a reader panicked"))? {
                let lost = error.downcast_ref().map_or(1, |LostWrites(lost)| lost.len());
                self.figures.lost(lost);
                wrong.push(format!("{error:#}"));
            }
        }
        ensure!(wrong.is_empty(), "{} connections: {}", wrong.len(), wrong.join("\n"));
        Ok(())
    }
}
