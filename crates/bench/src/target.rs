//! The servers that are compared.

mod azurite;

pub(crate) use lazuli_testkit::azurite::VERSION as AZURITE_VERSION;

use crate::entity::{self, Dataset};
use crate::exchange::{create_table, exchange};
use crate::interrupt::Interrupt;
use crate::limit::LISTENING;
use crate::load::{self, Bounds};
use crate::process::{ProcessId, Program};
use crate::request::{Plain, Signer, entity_target};
use crate::workload::{BATCH, Service, TABLE, Workload, load_scripts};
use anyhow::{Context, Result, bail, ensure};
use lazuli_testkit::server::Server;
use serde::Serialize;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Entities that are loaded with one signature, and connections that load them.
const LOAD_STEP: usize = 100_000;
const LOADERS: usize = 8;
/// The table from which the limits' answers are recorded; its name is as long as [`TABLE`].
const RECORDING_TABLE: &str = "Probe";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TargetName {
    Lazuli,
    Azurite,
    BareHttp,
    BareLog,
}

impl TargetName {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Lazuli => "Lazuli",
            Self::Azurite => "Azurite",
            Self::BareHttp => "bare hyper",
            Self::BareLog => "bare log",
        }
    }

    /// Whether the server supports the workload.
    pub(crate) fn serves(self, workload: Workload) -> bool {
        match self {
            Self::Lazuli | Self::Azurite => true,
            Self::BareHttp => workload == Workload::Point,
            Self::BareLog => matches!(workload, Workload::Insert | Workload::Egt100),
        }
    }

    /// Whether it has tables at all.
    pub(crate) fn stores(self) -> bool {
        matches!(self, Self::Lazuli | Self::Azurite)
    }
}

/// A running server. Dropping it kills the process.
pub(crate) struct Target {
    pub(crate) name: TargetName,
    pub(crate) address: SocketAddr,
    pub(crate) pid: ProcessId,
    process: Process,
}

enum Process {
    Lazuli(Server),
    Limit(Program),
    Azurite(#[expect(dead_code, reason = "held until it is killed")] Program),
}

impl Target {
    /// Lazuli with default settings and durability, at the address of `service`.
    pub(crate) fn lazuli(binary: &Path, data: &Path, service: Service) -> Result<Self> {
        Self::lazuli_through(&Command::new(binary), data, service, &[])
    }

    /// Lazuli with further `options`, started by `launcher`, which gets Lazuli's arguments after its own.
    pub(crate) fn lazuli_through(
        launcher: &Command,
        data: &Path,
        service: Service,
        options: &[&str],
    ) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe().context("find this program")?);
        command.arg("follow").arg(launcher.get_program()).args(launcher.get_args());
        let options = [&["--durability", "sync"], options].concat();
        let server = Server::start_command(command, data, &options)?;
        let address = match service {
            Service::Table => server.address(),
            Service::Queue => server.queue().context("this build of Lazuli serves no queues")?,
        };
        let pid = ProcessId::of(server.pid());
        Ok(Self { name: TargetName::Lazuli, address, pid, process: Process::Lazuli(server) })
    }

    /// Azurite as a user would start it, or why it is not available.
    pub(crate) fn azurite(
        home: &Path,
        data: &Path,
        service: Service,
    ) -> Result<Result<Self, String>> {
        match azurite::install(home, service)? {
            Ok(main) => azurite::start(&main, data, service).map(Ok),
            Err(reason) => Ok(Err(reason)),
        }
    }

    /// The bare servers, which send `lazuli`'s recorded answers. `directory` is for their files.
    pub(crate) fn limits(lazuli: &Self, directory: &Path) -> Result<[Self; 2]> {
        let answers = Answers::record(lazuli.address, directory).context("record answers")?;
        let start = |name, command: &mut Command| -> Result<Self> {
            let listening = |line: &str| line.strip_prefix(LISTENING)?.parse().ok();
            let (program, address) = Program::start(command, listening)?;
            let pid = program.pid();
            Ok(Self { name, address, pid, process: Process::Limit(program) })
        };
        let this = std::env::current_exe().context("find this program")?;
        let mut http = Command::new(&this);
        http.arg("bare-http").arg(&answers.point);
        let stored_bytes = entity::stored_bytes(0);
        let mut log = Command::new(&this);
        log.arg("bare-log").arg(directory.join("log"));
        log.arg(&answers.insert).arg(stored_bytes.to_string());
        log.arg(&answers.batch).arg((stored_bytes * BATCH).to_string());
        Ok([start(TargetName::BareHttp, &mut http)?, start(TargetName::BareLog, &mut log)?])
    }

    /// Creates [`TABLE`] and fills it through entity group transactions.
    pub(crate) fn load(&self, dataset: Dataset, interrupt: &Interrupt) -> Result<Duration> {
        create_table(self.address, TABLE)?;
        self.load_more(0, dataset, interrupt)
    }

    /// Adds the entities from number `from` on.
    pub(crate) fn load_more(
        &self,
        from: usize,
        dataset: Dataset,
        interrupt: &Interrupt,
    ) -> Result<Duration> {
        let start = Instant::now();
        for first in (from..dataset.entities()).step_by(LOAD_STEP) {
            let last = (first + LOAD_STEP).min(dataset.entities());
            let signer = Arc::new(Signer::new(self.address)?);
            let (scripts, batches) = load_scripts(&signer, LOADERS, first, last);
            let bounds = Bounds::operations(batches);
            let outcome = load::run(self.address, self.pid, scripts, &bounds, interrupt)?;
            if let Some(error) = outcome.first_error {
                bail!("load {}: {error}", self.name.text());
            }
            ensure!(outcome.operations == batches, "the load of {} ended early", self.name.text());
        }
        Ok(start.elapsed())
    }

    /// Has one query examine every entity of [`TABLE`]: this proves that all were loaded, and fills the caches.
    pub(crate) fn scan(&self, dataset: Dataset, interrupt: &Interrupt) -> Result<Duration> {
        let signer = Signer::new(self.address)?;
        let scripts = Workload::TableScan.scripts(&signer, 1, dataset, "");
        let outcome =
            load::run(self.address, self.pid, scripts, &Bounds::operations(1), interrupt)?;
        match outcome.first_error {
            Some(error) => bail!("scan {}: {error}", self.name.text()),
            None => Ok(outcome.elapsed),
        }
    }

    /// Stops the server cleanly.
    pub(crate) fn terminate(self) -> Result<()> {
        let status = match self.process {
            Process::Lazuli(server) => server.terminate()?,
            Process::Limit(program) => program.terminate()?,
            // Its saved data does not matter.
            Process::Azurite(_) => return Ok(()),
        };
        ensure!(status.success(), "{} ended with {status}", self.name.text());
        Ok(())
    }

    /// Ends the server immediately, like a crash.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// Waits until all of `targets` have done nothing for `quiet`, at most for `patience`.
pub(crate) fn settle(
    targets: &[Target],
    quiet: Duration,
    patience: Duration,
    interrupt: &Interrupt,
) -> Result<()> {
    const STEP: Duration = Duration::from_millis(250);
    let used = || -> Result<Duration> { targets.iter().map(|target| target.pid.cpu()).sum() };
    let start = Instant::now();
    let (mut quiet_since, mut before) = (start, used()?);
    while quiet_since.elapsed() < quiet && start.elapsed() < patience {
        interrupt.pause(STEP)?;
        let now = used()?;
        // Timers and the like may wake a server now and then.
        if now.saturating_sub(before) > STEP / 10 {
            quiet_since = Instant::now();
        }
        before = now;
    }
    Ok(())
}

/// Answers of a server, recorded byte by byte.
struct Answers {
    point: PathBuf,
    insert: PathBuf,
    batch: PathBuf,
}

impl Answers {
    fn record(address: SocketAddr, directory: &Path) -> Result<Self> {
        create_table(address, RECORDING_TABLE)?;
        let signer = Signer::new(address)?;
        let record = |name: &str, request: &[u8], status: u16| -> Result<PathBuf> {
            let path = directory.join(name);
            exchange(address, request, |answer| {
                ensure!(answer.status == status, "{name}: {}", answer.status);
                fs::write(&path, [answer.head, answer.body].concat())?;
                Ok(())
            })?;
            Ok(path)
        };
        let key = entity::key(0);
        let body = entity::body(&key.0, &key.1, 0, 0);
        let target = format!("/{RECORDING_TABLE}");
        let insert = Plain::json("POST", &target, &body).headers("Prefer: return-no-content\r\n");
        let point = entity_target(RECORDING_TABLE, &key);
        let others = (0..BATCH).map(|row| entity::body("batch", &entity::row(row), row, 0));
        let batch = signer.sign_batch(RECORDING_TABLE, &others.collect::<Vec<_>>());
        Ok(Self {
            insert: record("insert.http", &signer.sign(&insert).0, 204)?,
            point: record("point.http", &signer.sign(&Plain::get(&point)).0, 200)?,
            batch: record("batch.http", &batch, 202)?,
        })
    }
}
