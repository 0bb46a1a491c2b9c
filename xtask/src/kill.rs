//! The kill test: kills the server during writes, restarts it, compares.
//!
//! Each writer owns one partition, so it knows what its rows must contain: the last acknowledged
//! state, or, for the one request without a response, either that or the requested state. After
//! every kill the server is restarted on the same directory and everything is read back:
//!
//! - every acknowledged write exists, with the acknowledged ETag;
//! - deleted entities stay deleted;
//! - a request in doubt happened entirely or not at all, even if it was a batch;
//! - ETags of one row only increase, even across deletion and restart;
//! - entities that have already expired when written are gone at once, swept or not;
//! - an entity and a message of one transaction both exist, or neither;
//! - the indexes of the table, one of which is rebuilt in each round, agree with the entities.
//!
//! The seed is printed; it fixes what the writers do and when the kill comes, counted in
//! acknowledged requests. How the requests interleave depends on the machine.

pub(crate) mod outbox;
mod queues;

use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::writer::Writer;
use anyhow::{Context, Result};
use clap::Args;
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::Server;
use lazuli_testkit::{acknowledged, expiry, feeds, indexes, table};
use outbox::Outbox;
use queues::Queues;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const TABLE: &str = "Kill";
/// Indexes on numbers that writers replace and merge.
const INDEXES: &str = r#"[{"name":"byReplaced","on":["replaced"]},{"name":"byMerged","on":["PartitionKey","merged"]}]"#;
/// Maximum number of acknowledged requests before the kill.
const ACKNOWLEDGED_MAX: usize = 400;
/// How long a round may take to get there.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Number of kills
    #[arg(long, default_value_t = Self::default().rounds)]
    rounds: u32,
    /// Stop after this many seconds, if that comes first
    #[arg(long)]
    seconds: Option<u64>,
    /// Concurrent writing connections
    #[arg(long, default_value_t = Self::default().writers)]
    writers: usize,
    /// Reproduce the choices of an earlier run
    #[arg(long)]
    seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 60, seconds: None, writers: 12, seed: None }
    }
}

impl Options {
    /// As many rounds as fit into the time.
    pub(crate) fn new(seed: u64, seconds: u64) -> Self {
        Self { rounds: u32::MAX, seconds: Some(seconds), seed: Some(seed), ..Self::default() }
    }
}

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<Tally> {
    let binary = workspace.binary()?;
    let seed = options.seed.unwrap_or_else(|| SystemClock.now().ticks());
    println!("kill test: {} writers, --seed {seed}", options.writers);
    let (start, time) = (Instant::now(), options.seconds.map(Duration::from_secs));
    let mut trial = Trial::new(binary, seed, options.writers)?;
    let mut tally = Tally::default();
    for round in 1..=options.rounds {
        if time.is_some_and(|time| start.elapsed() >= time) {
            break;
        }
        match trial.round() {
            Ok(report) => {
                tally += Tally::PASSED;
                println!("round {round:3}: {report}");
            }
            Err(error) => {
                println!("round {round} failed, reproduce with --seed {seed}: {error:#}");
                tally += Tally::FAILED;
                return Ok(tally);
            }
        }
    }
    tally += match trial.stop_and_compare() {
        Ok(()) => {
            let queues = trial.queues.report();
            println!(
                "queues: {} requests in histories that hold, {} in doubt, {} too large to decide",
                queues.calls, queues.unknown, queues.undecided
            );
            Tally::PASSED
        }
        Err(error) => {
            println!("after a clean stop, reproduce with --seed {seed}: {error:#}");
            Tally::FAILED
        }
    };
    Ok(tally)
}

/// One data directory through all its rounds.
struct Trial<'a> {
    binary: &'a Path,
    data: tempfile::TempDir,
    random: Seeded,
    writers: Vec<Writer>,
    queues: Queues,
    outbox: Outbox,
}

impl<'a> Trial<'a> {
    fn new(binary: &'a Path, seed: u64, writers: usize) -> Result<Self> {
        let data = tempfile::tempdir().context("create a data directory")?;
        let random = Seeded::new(seed);
        let writers = (0..writers)
            .map(|n| {
                let partition = format!("writer-{n}");
                Writer::new(TABLE, partition, u32::MAX, random.stream(n as u64)).expiring()
            })
            .collect();
        let server = Server::start(binary, data.path(), &[])?;
        table::create(&mut server.connect()?, TABLE)?.done()?;
        indexes::declare(&mut server.connect()?, TABLE, INDEXES)?.done()?;
        feeds::turn_on(&mut server.connect()?, TABLE)?.done()?;
        expiry::turn_on(&mut server.connect()?, TABLE)?.done()?;
        let outbox = Outbox::new(&server)?;
        // The first crash may come right after the table was acknowledged.
        server.kill()?;
        let queues = Queues::new(random.stream(u64::MAX));
        Ok(Self { binary, data, random, writers, queues, outbox })
    }

    /// Starts, compares with what is known, writes until the kill.
    fn round(&mut self) -> Result<String> {
        if self.random.one_in(4) {
            self.interrupt_the_opening()?;
        }
        let server = self.open_and_compare()?;
        // It is built while the writers write and the kill happens.
        indexes::rebuild(&mut server.connect()?, TABLE, "byReplaced")?.done()?;
        let target = 1 + self.random.below(ACKNOWLEDGED_MAX);
        let pause = Duration::from_micros(self.random.below(3000) as u64);
        let acknowledged = self.write_until_killed(server, target, pause)?;
        let rows: usize = self.writers.iter().map(Writer::rows_present).sum();
        let doubtful = self.writers.iter().filter(|writer| writer.is_in_doubt()).count();
        Ok(format!("{acknowledged} acknowledged, {doubtful} in doubt, {rows} entities"))
    }

    /// A clean stop loses nothing either.
    fn stop_and_compare(&mut self) -> Result<()> {
        let status = self.open_and_compare()?.terminate()?;
        anyhow::ensure!(status.success(), "the server ended with {status}");
        let server = self.open_and_compare()?;
        self.queues.check_all(&server)?;
        server.terminate().map(drop).context("stop the server")
    }

    fn open_and_compare(&mut self) -> Result<Server> {
        let server = Server::start(self.binary, self.data.path(), &[])?;
        let mut connection = server.connect()?;
        for writer in &mut self.writers {
            writer.compare(&mut connection)?;
        }
        indexes::verify(&mut connection, TABLE)?;
        let stored = acknowledged::read_all(&mut connection)?;
        feeds::replay(&mut connection, TABLE, &stored)?;
        self.queues.check(&server)?;
        self.outbox.check(&server)?;
        Ok(server)
    }

    /// A crash during recovery from the last crash.
    fn interrupt_the_opening(&mut self) -> Result<()> {
        let mut child = Command::new(self.binary)
            .args([
                "serve",
                "--host",
                "127.0.0.1",
                "--table-port",
                "0",
                "--queue-port",
                "0",
                "--silent",
                "--data",
            ])
            .arg(self.data.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start the server")?;
        pause(Duration::from_micros(self.random.below(60_000) as u64));
        child.kill().context("kill the server")?;
        child.wait().context("wait for the server")?;
        Ok(())
    }

    /// Returns how many requests were acknowledged.
    fn write_until_killed(
        &mut self,
        server: Server,
        target: usize,
        wait: Duration,
    ) -> Result<usize> {
        let acknowledged = AtomicUsize::new(0);
        let (reached, wait_for_target) = channel();
        let mut queue = self.queues.begin(&server)?;
        let outbox_line = server.connect()?;
        let connections: Vec<_> =
            self.writers.iter().map(|_| server.connect()).collect::<Result<_, _>>()?;
        std::thread::scope(|scope| {
            let (acknowledged, writers) = (&acknowledged, self.writers.iter_mut());
            // Only the writers keep the channel open: if all of them end early, this ends too.
            let acknowledge = move || {
                if acknowledged.fetch_add(1, Ordering::Relaxed) + 1 == target {
                    let _ = reached.send(());
                }
            };
            let mut threads = queue.start(scope, acknowledge.clone());
            threads.extend(writers.zip(connections).map(|(writer, connection)| {
                let acknowledge = acknowledge.clone();
                scope.spawn(move || writer.write_until_cut_off(connection, acknowledge))
            }));
            let (outbox, send) = (&mut self.outbox, acknowledge.clone());
            threads.push(scope.spawn(move || outbox.send_until_cut_off(outbox_line, send)));
            drop(acknowledge);
            let reached = wait_for_target.recv_timeout(PATIENCE);
            pause(wait);
            let log = server.log();
            server.kill().context("kill the server")?;
            for thread in threads {
                let outcome = thread.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?;
                outcome.with_context(|| format!("the server's log ends:\n{log}"))?;
            }
            reached.context("the writers stopped before the kill")
        })?;
        self.queues.end(queue);
        Ok(acknowledged.into_inner())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the moment is random; there is no event to wait for"
)]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
