//! A disk on which one call fails, for each call of a small run.
//!
//! Whatever fails, the server responds, logs the reason, reports on its admin listener that it refuses writes,
//! acknowledges nothing that is not durable, and serves reads. When the disk works again, so does the server,
//! without a restart. Then it is killed and restarted, loses power and is restarted again: everything
//! acknowledged is there. By then the data of a failed sync is lost for good.
//!
//! The log may be on the same disk. Then its lines may be lost, but nothing else changes.

use crate::bench::{Bench, Lines, Running, probe, read_all};
use crate::disk::{Disk, Names};
use crate::image::Image;
use crate::loss::Loss;
use crate::shim::{Calls, Control, Fault};
use crate::trace;
use crate::workload::Workload;
use anyhow::{Context, Result, bail, ensure};
use lazuli_testkit::acknowledged::{Acknowledged, Entries};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::table::Outcome;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long the server may take to recover after the disk does.
const PATIENCE: Duration = Duration::from_secs(20);
/// The delay of a slow call; shorter than any bound on a request.
const SLOW_MS: u64 = 1500;

/// The log message after a failed write.
const REASON: &str = "a write failed";
/// The message of a log that can be written again.
const LINES_DROPPED: &str = "log lines were dropped";
const LOG_FILE: &str = "lazuli.log";

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub name: &'static str,
    calls: Calls,
    fault: Fault,
    /// Until it is repaired; otherwise one call fails.
    lasts: bool,
    /// Whether clients must not notice.
    is_harmless: bool,
}

/// Every kind of fault.
pub const KINDS: [Kind; 6] = [
    kind("eio", Calls::CHANGES, Fault::InputOutput, false, false),
    kind("eio-lasting", Calls::CHANGES, Fault::InputOutput, true, false),
    kind("enospc", Calls::CHANGES, Fault::NoSpace, true, false),
    kind("enospc-once", Calls::CHANGES, Fault::NoSpace, false, false),
    kind("short-write", Calls::WRITES, Fault::Short, false, true),
    kind("slow-sync", Calls::SYNCS, Fault::Slow { milliseconds: SLOW_MS }, false, true),
];

const fn kind(
    name: &'static str,
    calls: Calls,
    fault: Fault,
    lasts: bool,
    is_harmless: bool,
) -> Kind {
    Kind { name, calls, fault, lasts, is_harmless }
}

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Requests of the one client.
    pub steps: usize,
    /// Maximum number of calls of each kind that fail, at start and later; chosen at random if
    /// there are more.
    pub calls_max: usize,
    /// Only this call.
    pub only: Option<(Phase, u64)>,
    /// When to stop; at least one call of each phase is tried.
    pub deadline: Option<Instant>,
    pub log: LogPlace,
}

/// The location of the server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPlace {
    StandardError,
    /// In a file in the data directory, on the failing disk.
    DataDirectory,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Calls that could fail.
    pub calls: u64,
    pub runs: usize,
    pub hit: usize,
    pub acknowledged: usize,
    pub refused: usize,
    pub starts_refused: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, runs, hit, acknowledged, refused, starts_refused } = self;
        write!(
            f,
            "{calls} calls, {runs} runs, {hit} with a failing call; {acknowledged} requests acknowledged, \
             {refused} refused, {starts_refused} starts refused"
        )
    }
}

/// Runs the trial; calls `progress` after each call that failed.
pub fn run(bench: &Bench, plan: &Plan, kind: &Kind, progress: &dyn Fn(&Counts)) -> Result<Counts> {
    let mut counts = Counts::default();
    let before = &plan.before(bench)?;
    for phase in Phase::ALL {
        // First without a fault, to count the calls.
        let trial = Trial { bench, plan, kind, before, phase, hit: u64::MAX };
        let calls = trial.run(&mut Counts::default())?;
        counts.calls += calls;
        for (index, hit) in plan.choose(phase, calls).into_iter().enumerate() {
            if index > 0 && plan.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                break;
            }
            let trial = Trial { hit, ..trial };
            trial.run(&mut counts).with_context(|| trial.command())?;
            counts.runs += 1;
            progress(&counts);
        }
    }
    Ok(counts)
}

impl Plan {
    /// The initial content of the data directory: nothing, or a store, because a store is not
    /// created in a directory that contains a log.
    fn before(&self, bench: &Bench) -> Result<Image> {
        Image::default().save(&bench.data())?;
        if self.log == LogPlace::DataDirectory {
            let ended = bench.start(None)?.server.terminate()?;
            ensure!(ended.success(), "the server ended with {ended}");
        }
        Image::load(&bench.data())
    }

    fn choose(&self, phase: Phase, calls: u64) -> Vec<u64> {
        if let Some((only, call)) = self.only {
            return if only == phase { vec![call] } else { Vec::new() };
        }
        let mut all: Vec<u64> = (0..calls).collect();
        let mut random = Seeded::new(self.seed).stream(7);
        while all.len() > self.calls_max {
            all.remove(random.below(all.len()));
        }
        all
    }
}

/// When the call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// While the server creates its store and starts.
    Start,
    /// While it serves.
    Service,
}

impl Phase {
    pub const ALL: [Self; 2] = [Self::Start, Self::Service];

    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Service => "service",
        }
    }
}

/// One run with one fault.
#[derive(Clone, Copy)]
struct Trial<'t> {
    bench: &'t Bench,
    plan: &'t Plan,
    kind: &'t Kind,
    before: &'t Image,
    phase: Phase,
    hit: u64,
}

impl Trial<'_> {
    /// The command that repeats this run.
    fn command(&self) -> String {
        let (Plan { seed, steps, .. }, kind, phase) =
            (self.plan, self.kind.name, self.phase.name());
        let log = match self.plan.log {
            LogPlace::StandardError => "",
            LogPlace::DataDirectory => " --log-on-disk",
        };
        let hit = self.hit;
        format!(
            "repeat with: lazuli-disk faults{log} --seed {seed} --steps {steps} --kind {kind} \
             --phase {phase} --call {hit}"
        )
    }

    /// Returns how many calls there were.
    fn run(&self, counts: &mut Counts) -> Result<u64> {
        self.before.save(&self.bench.data())?;
        let mut disk = Disk::new(Names::Journalled, self.before, &self.bench.data())?;
        let control = self.bench.control()?;
        if self.phase == Phase::Start {
            self.arm(&control)?;
        }
        let running = match self.start(&control) {
            Ok(running) => running,
            Err(error) => {
                self.refused_start(&error, &control)?;
                counts.starts_refused += 1;
                counts.hit += 1;
                return Ok(0);
            }
        };
        let calls_to_start = control.calls()?;
        if self.phase == Phase::Service {
            self.arm(&control)?;
        }
        let mut account = Acknowledged::default();
        let worked = self.work(&running, &control, &mut account, counts);
        let log = running.server.log();
        worked.with_context(|| format!("the server's log ends:\n{log}"))?;
        let panicked = running.server.whole_log().contains("panicked");
        ensure!(!panicked, "the server panicked; its log ends:\n{log}");
        let calls = if self.phase == Phase::Start { calls_to_start } else { control.calls()? };
        counts.hit += usize::from(control.hits()? > 0);
        self.end(running)?;
        for event in trace::read(&self.bench.trace())? {
            disk.apply(&event)?;
        }
        self.open_twice(&disk, &account)?;
        Ok(calls)
    }

    fn start(&self, control: &Control) -> Result<Running> {
        match self.plan.log {
            LogPlace::StandardError => self.bench.start(Some(control)),
            LogPlace::DataDirectory => {
                let file = self.log_file().display().to_string();
                self.bench.start_with(Some(control), &["--log-file", &file])
            }
        }
    }

    fn log_file(&self) -> PathBuf {
        self.bench.data().join(LOG_FILE)
    }

    /// Kills the server; with the log on the disk, asks it to stop, which a failing log must not
    /// prevent.
    fn end(&self, running: Running) -> Result<()> {
        if self.plan.log == LogPlace::StandardError {
            return running.server.kill().context("kill the server");
        }
        let ended = running.server.terminate()?;
        ensure!(ended.success(), "the server ended with {ended}");
        Ok(())
    }

    fn arm(&self, control: &Control) -> Result<()> {
        // The first write on a full disk is a short write.
        let calls = if self.kind.fault == Fault::NoSpace { 2 } else { 1 };
        let until = if self.kind.lasts { u64::MAX } else { self.hit.saturating_add(calls) };
        control.arm(self.kind.calls, self.hit..until, self.kind.fault)
    }

    /// A server that cannot start reports why, and starts once the disk works.
    fn refused_start(&self, error: &anyhow::Error, control: &Control) -> Result<()> {
        let text = format!("{error:#}");
        ensure!(control.hits()? > 0 && !self.kind.is_harmless, "no reason to fail: {text}");
        ensure!(
            text.contains("error: ") && !text.contains("panicked"),
            "the error is not explained: {text}"
        );
        control.clear()?;
        let running = self.bench.start(Some(control)).context("start after a failed start")?;
        probe(&mut Lines::to(&running.server)?)?;
        running.server.kill().context("kill the server")
    }

    fn work(
        &self,
        running: &Running,
        control: &Control,
        account: &mut Acknowledged,
        counts: &mut Counts,
    ) -> Result<()> {
        let mut workload = Workload::new(0, &Seeded::new(self.plan.seed));
        let mut lines = Lines::to(&running.server)?;
        // Requests whose outcome is unknown.
        let mut unknown = 0;
        for _ in 0..self.plan.steps {
            let mut chosen = workload.choose(&account.settled);
            match workload.send(&mut chosen, &mut lines)? {
                Outcome::Done => {
                    account.settle(&chosen.step)?;
                    counts.acknowledged += 1;
                }
                Outcome::Cut(error) => bail!("the connection was cut: {error}"),
                refused @ (Outcome::Busy | Outcome::Failed { .. }) => {
                    let refused = refused.to_string();
                    let known = ["500 InternalError", "503 ServerBusy"].contains(&refused.as_str());
                    ensure!(known, "answered {refused}");
                    ensure!(control.hits()? > 0, "{refused} without a fault");
                    ensure!(!self.kind.is_harmless, "{refused} for a harmless fault");
                    unknown += usize::from(refused.starts_with("500"));
                    workload.freeze(&chosen.step);
                    account.doubts.push(chosen.step);
                    counts.refused += 1;
                    read_on(&mut lines, account).context("read while writes are refused")?;
                }
            }
        }
        let is_down = self.kind.lasts && !account.doubts.is_empty();
        if is_down {
            wait_for_readiness(running, 503, r#""code":"store-refuses-writes""#)?;
        }
        control.clear()?;
        write_at_last(&mut lines)?;
        if is_down {
            wait_for_readiness(running, 200, r#""ready":true"#)?;
        }
        if !account.doubts.is_empty() {
            let log = self.log_with_reason(running)?;
            let errors = log.lines().filter(|line| is_error_of_a_request(line)).count();
            ensure!(errors <= unknown, "{errors} requests are errors, {unknown} may be");
        }
        read_on(&mut lines, account).context("read when the disk works again")
    }

    /// The log, once it contains why writes were refused, or says that lines were lost.
    fn log_with_reason(&self, running: &Running) -> Result<String> {
        if self.plan.log == LogPlace::StandardError {
            running.server.wait_for_log(REASON).context("no reason is logged")?;
            return Ok(running.server.whole_log());
        }
        let give_up = Instant::now() + PATIENCE;
        loop {
            let log = std::fs::read_to_string(self.log_file()).context("read the log")?;
            if log.contains(REASON) || log.contains(LINES_DROPPED) {
                return Ok(log);
            }
            ensure!(Instant::now() < give_up, "neither a reason nor a loss is logged:\n{log}");
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    fn open_twice(&self, disk: &Disk, account: &Acknowledged) -> Result<()> {
        let account = &with_probe(account);
        let opened = self.bench.open(&disk.live(), Some(disk), account).context("after a kill")?;
        let mut disk = opened.disk.context("no model of the disk")?;
        for event in &opened.events {
            disk.apply(event)?;
        }
        let image = Loss::Everything.of(&disk, &mut Seeded::new(0));
        let account = Acknowledged::new(opened.entries, Vec::new());
        self.bench.open(&image, None, &account).context("after the loss of power").map(drop)
    }
}

/// Waits until the admin listener reports this status (O-2.2).
fn wait_for_readiness(running: &Running, status: u16, part: &str) -> Result<()> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let (got, answer) = running.server.ask_admin("/readyz")?;
        if got == status && answer.contains(part) {
            return Ok(());
        }
        ensure!(Instant::now() < give_up, "not {status} with {part}: {answer}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A failed request, as opposed to a state change of the store.
fn is_error_of_a_request(line: &str) -> bool {
    line.contains(r#""level":"ERROR""#) && line.contains(r#""target":"lazuli_server"#)
}

/// The probe was written several times, so its ETag is unknown.
fn with_probe(account: &Acknowledged) -> Acknowledged {
    let mut account = account.clone();
    account.settled.extend(crate::bench::probe_entries());
    account
}

/// Everything is readable as acknowledged, after a short wait if the store is being reopened.
pub(crate) fn read_on(lines: &mut Lines, account: &Acknowledged) -> Result<()> {
    let give_up = Instant::now() + PATIENCE;
    let found: Entries = loop {
        match read_all(lines) {
            Ok(found) => break found,
            Err(error) if !error.to_string().contains("503") => return Err(error),
            Err(error) if Instant::now() > give_up => return Err(error),
            Err(_) => std::thread::yield_now(),
        }
    };
    let ours = found.into_iter().filter(|(name, _)| name.table != crate::bench::PROBE).collect();
    account.check(&ours).map(drop)
}

pub(crate) fn write_at_last(lines: &mut Lines) -> Result<()> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match probe(lines) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > give_up => {
                return Err(error.context("the disk works again, and writes are still refused"));
            }
            Err(_) => std::thread::park_timeout(Duration::from_millis(250)),
        }
    }
}
