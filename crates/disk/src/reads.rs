//! A disk on which one read call fails, for each call that reads a file or a directory.
//!
//! A start that cannot read reports why and changes nothing: the next one finds everything stored.
//! A server that cannot read returns 500 and logs the reason, or returns the correct result; it
//! never serves wrong or incomplete data. When the disk works again, so does the server.

use crate::bench::{Amount, Bench, Ending, Lines, Running, probe, read_all};
use crate::disk::Names;
use crate::faults::{Phase, read_on, write_at_last};
use crate::image::Image;
use crate::kept;
use crate::shim::{Calls, Control, Fault};
use crate::workload::Workload;
use anyhow::{Context, Result, bail, ensure};
use lazuli_testkit::acknowledged::Acknowledged;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::table::Outcome;
use std::fmt;
use std::time::Instant;

/// The reason in the log and in a refused start when the disk cannot read.
const REASON: &str = "Input/output error";
/// The client that writes while the disk cannot read; those before it have filled the store.
const WRITER: usize = 7;

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    /// How the store is filled.
    pub amount: Amount,
    /// Writes while the disk cannot read, each followed by reading all.
    pub writes: usize,
    /// Maximum number of failing calls in each phase and each way; chosen at random if there are
    /// more.
    pub calls_max: usize,
    pub deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Calls that could fail.
    pub calls: u64,
    pub runs: usize,
    pub hit: usize,
    pub starts_refused: usize,
    pub reads_refused: usize,
    pub writes_refused: usize,
    pub read: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, runs, hit, starts_refused, reads_refused, writes_refused, read } = self;
        write!(
            f,
            "{calls} calls, {runs} runs, {hit} with a failing call; {starts_refused} starts, \
             {reads_refused} readings of all and {writes_refused} writes refused, {read} readings \
             of all as they must be"
        )
    }
}

/// Runs the trial; calls `progress` after each call that failed.
pub fn run(bench: &Bench, plan: &Plan, progress: &dyn Fn(&Counts)) -> Result<Counts> {
    let random = Seeded::new(plan.seed);
    let recording = bench.record(Names::Strict, &random, plan.amount).context("record a run")?;
    let account = recording.account();
    let mut counts = Counts::default();
    for ending in Ending::ALL {
        let image = recording.image(ending)?;
        for (phase, lasts) in Phase::ALL.into_iter().flat_map(|p| [(p, false), (p, true)]) {
            let trial = Trial { bench, plan, image: &image, account: &account, phase, lasts };
            trial.each_call(&mut counts, progress).with_context(|| {
                let again = kept::keep(&image, &account);
                format!("{ending:?}, {phase:?}, --seed {}; {again}", plan.seed)
            })?;
        }
    }
    Ok(counts)
}

/// A point in the life of a server at which calls fail.
#[derive(Clone, Copy)]
struct Trial<'t> {
    bench: &'t Bench,
    plan: &'t Plan,
    image: &'t Image,
    account: &'t Acknowledged,
    phase: Phase,
    /// All calls from there on fail, until the disk is repaired.
    lasts: bool,
}

impl Trial<'_> {
    fn each_call(&self, counts: &mut Counts, progress: &dyn Fn(&Counts)) -> Result<()> {
        // First without a fault, to count the calls.
        let calls = self.run(u64::MAX, &mut Counts::default())?;
        counts.calls += calls;
        let mut chosen: Vec<u64> = (0..calls).collect();
        let mut random = Seeded::new(self.plan.seed).stream(9);
        while chosen.len() > self.plan.calls_max {
            chosen.remove(random.below(chosen.len()));
        }
        for (index, hit) in chosen.into_iter().enumerate() {
            if index > 0 && self.plan.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                break;
            }
            let from = if self.lasts { "from" } else { "at" };
            self.run(hit, counts).with_context(|| format!("{from} call {hit} of {calls}"))?;
            counts.runs += 1;
            progress(counts);
        }
        Ok(())
    }

    /// Returns how many calls there were.
    fn run(&self, hit: u64, counts: &mut Counts) -> Result<u64> {
        self.image.save(&self.bench.data())?;
        let control = self.bench.control()?;
        let until = if self.lasts { u64::MAX } else { hit.saturating_add(1) };
        let arm = || control.arm(Calls::READS, hit..until, Fault::InputOutput);
        if self.phase == Phase::Start {
            arm()?;
        }
        let running = match self.bench.start(Some(&control)) {
            Ok(running) => running,
            Err(error) => {
                counts.starts_refused += 1;
                counts.hit += 1;
                self.refused_start(&error, &control)?;
                return Ok(0);
            }
        };
        let calls_to_start = control.calls()?;
        if self.phase == Phase::Service {
            arm()?;
        }
        let mut account = self.account.clone();
        let worked = self.work(&running, &control, &mut account, counts);
        let log = running.server.log();
        worked.with_context(|| format!("the server's log ends:\n{log}"))?;
        ensure!(!log.contains("panicked"), "the server panicked; its log ends:\n{log}");
        let calls = if self.phase == Phase::Start { calls_to_start } else { control.calls()? };
        counts.hit += usize::from(control.hits()? > 0);
        running.server.kill().context("kill the server")?;
        let image = Image::load(&self.bench.data())?;
        account.settled.extend(crate::bench::probe_entries());
        self.bench.open(&image, None, &account).context("after a kill")?;
        Ok(calls)
    }

    /// The refusal gives the reason and has changed nothing that matters.
    fn refused_start(&self, error: &anyhow::Error, control: &Control) -> Result<()> {
        let text = format!("{error:#}");
        ensure!(control.hits()? > 0, "no reason to fail: {text}");
        ensure!(
            text.contains("error: ") && text.contains(REASON) && !text.contains("panicked"),
            "the error is not explained: {text}"
        );
        control.clear()?;
        let running = self.bench.start(Some(control)).context("start after a failed start")?;
        let log = running.server.log();
        let looked = running.look(self.account);
        looked.with_context(|| format!("after a start that failed; the log ends:\n{log}"))?;
        running.server.kill().context("kill the server")
    }

    fn work(
        &self,
        running: &Running,
        control: &Control,
        account: &mut Acknowledged,
        counts: &mut Counts,
    ) -> Result<()> {
        let mut workload = Workload::new(WRITER, &Seeded::new(self.plan.seed));
        let mut lines = Lines::to(&running.server)?;
        let mut refused = 0;
        for _ in 0..self.plan.writes {
            refused += self.read(&mut lines, account, control, counts)?;
            let mut chosen = workload.choose(&account.settled);
            match workload.send(&mut chosen, &mut lines)? {
                Outcome::Done => account.settle(&chosen.step)?,
                outcome @ (Outcome::Busy | Outcome::Failed { status: 500, .. }) => {
                    ensure!(control.hits()? > 0, "{outcome} without a fault");
                    workload.freeze(&chosen.step);
                    account.doubts.push(chosen.step);
                    counts.writes_refused += 1;
                    refused += 1;
                }
                other => bail!("a write ended as {other:?}"),
            }
        }
        refused += self.read(&mut lines, account, control, counts)?;
        if refused > 0 {
            running.server.wait_for_log(REASON).context("no reason is logged")?;
        }
        control.clear()?;
        write_at_last(&mut lines)?;
        read_on(&mut lines, account).context("read when the disk works again")?;
        probe(&mut lines).map(drop)
    }

    /// Reads everything, which must be correct or refused; returns how often it was refused.
    fn read(
        &self,
        lines: &mut Lines,
        account: &Acknowledged,
        control: &Control,
        counts: &mut Counts,
    ) -> Result<usize> {
        match read_all(lines) {
            Ok(found) => {
                account.check(&found)?;
                counts.read += 1;
                Ok(0)
            }
            Err(error) => {
                let text = error.to_string();
                let is_refusal = text.contains(": 500 ") || text.contains(": 503 ");
                ensure!(is_refusal && control.hits()? > 0, "{error:#}");
                counts.reads_refused += 1;
                Ok(1)
            }
        }
    }
}
