//! The test bench of the trials: the binary, the shim, and servers on a watched directory.

use crate::disk::{Disk, Names};
use crate::image::Image;
use crate::shim::{Control, Shim};
use crate::trace::{self, Event, Marker};
use crate::workload::Workload;
use anyhow::{Context, Result, bail, ensure};
use lazuli_testkit::acknowledged::{self, Acknowledged, Entries, Name, Step, Stored, apply};
use lazuli_testkit::http::{Connection, Request};
use lazuli_testkit::queue;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::Server;
use lazuli_testkit::table::Outcome;
use lazuli_testkit::{feeds, indexes};
use std::path::{Path, PathBuf};

/// Small write buffers, so that flushes and compactions happen within hundreds of requests.
const ARGUMENTS: [&str; 2] = ["--memtable-kib", "32"];
/// The table that shows that a server accepts writes.
pub const PROBE: &str = "Probe";

/// What every trial needs.
#[derive(Debug)]
pub struct Bench {
    binary: PathBuf,
    shim: Shim,
    scratch: tempfile::TempDir,
}

impl Bench {
    pub fn new(binary: PathBuf) -> Result<Self> {
        // The shim recognizes its files by path, which must not contain symbolic links.
        let temporary =
            std::env::temp_dir().canonicalize().context("find a temporary directory")?;
        let scratch = tempfile::tempdir_in(temporary).context("make a directory")?;
        Ok(Self { binary, shim: Shim::compile()?, scratch })
    }

    pub fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    pub fn trace(&self) -> PathBuf {
        self.scratch.path().join("trace")
    }

    pub fn control(&self) -> Result<Control> {
        Control::new(&self.scratch.path().join("control"))
    }

    /// A server on the data directory, with its own trace.
    pub fn start(&self, control: Option<&Control>) -> Result<Running> {
        self.start_with(control, &[])
    }

    /// A server with more arguments.
    pub fn start_with(&self, control: Option<&Control>, arguments: &[&str]) -> Result<Running> {
        let trace = self.trace();
        if trace.exists() {
            std::fs::remove_file(&trace).context("remove the last trace")?;
        }
        let marker = Marker::open(&trace)?;
        let environment = self.shim.environment(&self.data(), &trace, control);
        let arguments = [&ARGUMENTS, arguments].concat();
        let server = Server::start_with(&self.binary, &self.data(), &arguments, &environment)?;
        Ok(Running { server, marker, trace })
    }

    /// A server on `image`: it must start, contain what `account` says, and accept writes. `disk`
    /// records what the server does.
    pub fn open(
        &self,
        image: &Image,
        disk: Option<&Disk>,
        account: &Acknowledged,
    ) -> Result<Opened> {
        image.save(&self.data())?;
        let disk = match disk {
            Some(disk) => {
                let mut disk = disk.clone();
                disk.moved_to(&self.data())?;
                Some(disk)
            }
            None => None,
        };
        let running = self.start(None)?;
        running.marker.begun(0, 0)?;
        let looked = running.look(account);
        let log = running.server.log();
        let entries = looked.with_context(|| format!("the server's log ends:\n{log}"))?;
        ensure!(!log.contains("panicked"), "the server panicked; its log ends:\n{log}");
        running.server.kill().context("kill the server")?;
        Ok(Opened { entries, events: trace::read(&running.trace)?, disk })
    }
}

/// A server, and the trace of its clients.
#[derive(Debug)]
pub struct Running {
    pub server: Server,
    pub marker: Marker,
    trace: PathBuf,
}

/// Connections to both services of a server.
#[derive(Debug)]
pub struct Lines {
    pub tables: Connection,
    pub queues: Connection,
}

impl Lines {
    pub fn to(server: &Server) -> Result<Self> {
        let queues = server.queue().context("the server has no queues")?;
        Ok(Self { tables: server.connect()?, queues: Connection::open(queues)?.of_queues() })
    }
}

/// Reads all tables and queues.
pub fn read_all(lines: &mut Lines) -> Result<Entries> {
    let mut entries = acknowledged::read_all(&mut lines.tables)?;
    entries.extend(queue::read_all(&mut lines.queues)?);
    Ok(entries)
}

/// What a server did and contained.
#[derive(Debug)]
pub struct Opened {
    /// What was read, and the probe that was written.
    pub entries: Entries,
    pub events: Vec<Event>,
    pub disk: Option<Disk>,
}

impl Running {
    /// Reads all, compares, verifies the indexes, replays the feeds, and writes.
    pub fn look(&self, account: &Acknowledged) -> Result<Entries> {
        let mut lines = Lines::to(&self.server)?;
        let mut found = acknowledged::read_all(&mut lines.tables)?;
        for name in found.keys().filter(|name| name.entity.is_none()) {
            indexes::verify(&mut lines.tables, &name.table)?;
            feeds::replay(&mut lines.tables, &name.table, &found)?;
        }
        found.extend(queue::read_all(&mut lines.queues)?);
        account.check(&found)?;
        let newest = found.values().filter_map(|stored| stored.etag.as_ref()).max();
        let etag = probe(&mut lines)?;
        ensure!(newest < Some(&etag), "the new ETag {etag} is not after {newest:?}");
        read_all(&mut lines)
    }
}

/// Checks that the server accepts writes; returns the new entity's ETag.
pub fn probe(lines: &mut Lines) -> Result<String> {
    let connection = &mut lines.tables;
    let table = format!("{{\"TableName\":\"{PROBE}\"}}");
    let made = connection.send(&Request::new("POST", "/Tables").json(&table))?;
    ensure!([201, 409].contains(&made.status), "{PROBE}: {} {}", made.status, made.text());
    let path = format!("/{PROBE}(PartitionKey='p',RowKey='r')");
    let put = connection.send(&Request::new("PUT", &path).json("{\"n\":1}"))?;
    ensure!(put.status == 204, "put into {PROBE}: {} {}", put.status, put.text());
    put.header("etag").map(str::to_owned).context("no ETag")
}

/// The entries of a probe, with an unknown ETag.
pub fn probe_entries() -> Entries {
    let properties = [("n".to_owned(), 1.into())].into_iter().collect();
    let row = (Name::entity(PROBE, "p", "r"), Stored { etag: None, properties });
    Entries::from([(Name::table(PROBE), Stored::default()), row])
}

/// What clients did to a server on an empty directory, and what the disk saw.
#[derive(Debug)]
pub struct Recording {
    pub disk: Disk,
    pub events: Vec<Event>,
    /// The steps of each client, in order, as acknowledged.
    pub steps: Vec<Vec<Step>>,
    /// Events before the server was asked to stop.
    served: usize,
}

/// How a recorded run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Stopped,
    Killed,
}

impl Ending {
    pub const ALL: [Self; 2] = [Self::Stopped, Self::Killed];
}

impl Recording {
    /// What must be stored at the end.
    pub fn account(&self) -> Acknowledged {
        let mut account = Acknowledged::default();
        for step in self.steps.iter().flatten() {
            apply(&mut account.settled, step);
        }
        account
    }

    /// The same when the outcome of each client's last step is unknown.
    pub fn account_but_last(&self) -> Acknowledged {
        let mut account = Acknowledged::default();
        for steps in &self.steps {
            let Some((last, before)) = steps.split_last() else { continue };
            before.iter().for_each(|step| apply(&mut account.settled, step));
            account.doubts.push(last.clone());
        }
        account
    }

    /// The content of the directory after the run ended that way.
    pub fn image(&self, ending: Ending) -> Result<Image> {
        let count = match ending {
            Ending::Stopped => self.events.len(),
            Ending::Killed => self.served,
        };
        let mut disk = self.disk.clone();
        self.events.iter().take(count).try_for_each(|event| disk.apply(event))?;
        Ok(disk.live())
    }
}

/// How much clients do.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    pub clients: usize,
    pub steps: usize,
    /// Batches of 100 rows in a table that is then dropped.
    pub fills: usize,
    /// Batches of 3 MB into the same 100 rows, before everything else.
    pub bulk: usize,
}

impl Amount {
    pub const fn new(clients: usize, steps: usize) -> Self {
        Self { clients, steps, fills: 0, bulk: 0 }
    }
}

impl Bench {
    /// Runs the clients, stops the server cleanly, and checks that the trace is complete.
    pub fn record(&self, names: Names, random: &Seeded, amount: Amount) -> Result<Recording> {
        Image::default().save(&self.data())?;
        let disk = Disk::new(names, &Image::default(), &self.data())?;
        let running = self.start(None)?;
        let client = |client: usize| -> Result<Client> {
            let (fills, bulk) = if client == 0 { (amount.fills, amount.bulk) } else { (0, 0) };
            let workload = Workload::new(client, random).with_fills(fills).with_bulk(bulk);
            Ok(Client { number: client, workload, lines: Lines::to(&running.server)? })
        };
        let clients = (0..amount.clients).map(client).collect::<Result<Vec<_>>>()?;
        let steps = run_clients(clients, &running.marker, amount.steps)?;
        wait_until_quiet(&running.trace);
        let served = trace::read(&running.trace)?.len();
        let status = running.server.terminate()?;
        ensure!(status.success(), "the server ended with {status}");
        let events = trace::read(&running.trace)?;
        self.check_trace(&disk, &events)?;
        Ok(Recording { disk, events, steps, served })
    }

    /// Checks that the model's result of the trace equals the directory.
    fn check_trace(&self, disk: &Disk, events: &[Event]) -> Result<()> {
        let mut disk = disk.clone();
        events.iter().try_for_each(|event| disk.apply(event))?;
        let difference = disk.live().difference(&Image::load(&self.data())?);
        ensure!(difference.is_none(), "the trace misses what happened to {difference:?}");
        Ok(())
    }
}

struct Client {
    number: usize,
    workload: Workload,
    lines: Lines,
}

fn run_clients(clients: Vec<Client>, marker: &Marker, count: usize) -> Result<Vec<Vec<Step>>> {
    std::thread::scope(|scope| {
        let run = |client| scope.spawn(move || run_client(client, marker, count));
        let threads: Vec<_> = clients.into_iter().map(run).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<_>>| {
            thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?
        };
        threads.into_iter().map(join).collect()
    })
}

fn run_client(mut client: Client, marker: &Marker, count: usize) -> Result<Vec<Step>> {
    let mut entries = Entries::new();
    let mut steps = Vec::new();
    for step in 0..count {
        let mut chosen = client.workload.choose(&entries);
        marker.begun(client.number, step)?;
        match client.workload.send(&mut chosen, &mut client.lines)? {
            Outcome::Done => marker.acknowledged(client.number, step)?,
            other => bail!("without a fault, a request ended as {other:?}"),
        }
        apply(&mut entries, &chosen.step);
        steps.push(chosen.step);
    }
    Ok(steps)
}

/// Waits until nothing is written for a while: until then dropped tables are reclaimed and files compacted.
fn wait_until_quiet(trace: &Path) {
    let length = || trace.metadata().map_or(0, |found| found.len());
    let (mut last, mut quiet) = (length(), 0);
    for _ in 0..400 {
        // The reclaim task runs every two seconds.
        if quiet > 50 {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        let now = length();
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
}
