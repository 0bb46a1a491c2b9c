//! The cost of a long queue, and of a queue through which many messages have passed: one Lazuli,
//! one queue.

use super::Queues;
use crate::entity::Dataset;
use crate::goal::{Bound, Goal, Unit};
use crate::interrupt::Interrupt;
use crate::load::{self, Bounds};
use crate::measure::{Case, Figures, Measured, Pace, measure_queues, median, mib};
use crate::options::Options;
use crate::report::thousands;
use crate::request::Signer;
use crate::target::{Target, settle};
use crate::workload::{Service, Workload};
use anyhow::{Result, bail, ensure};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Messages of the goals.
const GOAL_MESSAGES: usize = 1_000_000;
const CONNECTIONS: usize = 64;
/// Operations that one signature serves.
const DRAIN_STEP: usize = 100_000;
const QUIET: Duration = Duration::from_secs(2);
const SETTLE_MAX: Duration = Duration::from_secs(120);
/// Windows of the fresh and of the used queue, in turns.
const TURNS: usize = 7;

/// The figures of a queue through which this many messages have passed.
#[derive(Debug, Serialize)]
pub(crate) struct Used {
    pub(crate) messages: usize,
    pub(crate) put_per_second: f64,
    /// With all messages in the queue.
    pub(crate) resident_mib: f64,
    /// The peak until then.
    pub(crate) resident_peak_mib: f64,
    pub(crate) get_delete_per_second: f64,
    /// Gets in a new queue of the same server, and in the used one.
    pub(crate) fresh: Vec<Figures>,
    pub(crate) used: Vec<Figures>,
    pub(crate) errors: u64,
}

/// Fills a queue, empties it, and compares gets in it with those in new queues.
pub(crate) fn run(
    options: &Options,
    messages: usize,
    dataset: Dataset,
    interrupt: &Interrupt,
) -> Result<Used> {
    let directory = options.data_directory()?;
    let server = Target::lazuli(&options.lazuli, &directory.path().join("lazuli"), Service::Queue)?;
    let queue = |workload| Queues::named(Case { workload, connections: CONNECTIONS }, "used");
    queue(Workload::Put).create(server.address)?;
    let start = Instant::now();
    queue(Workload::Put).fill(&server, messages, interrupt)?;
    let put_per_second = messages as f64 / start.elapsed().as_secs_f64();
    settle(std::slice::from_ref(&server), QUIET, SETTLE_MAX, interrupt)?;
    let (resident, peak) = (server.pid.resident()?, server.pid.resident_peak()?);
    let start = Instant::now();
    drain(&queue(Workload::GetDelete), &server, messages, interrupt)?;
    let get_delete_per_second = messages as f64 / start.elapsed().as_secs_f64();
    println!("{} messages passed through one queue", thousands(messages as f64));
    settle(std::slice::from_ref(&server), QUIET, SETTLE_MAX, interrupt)?;
    let mut used = Used {
        messages,
        put_per_second,
        resident_mib: mib(resident),
        resident_peak_mib: mib(peak),
        get_delete_per_second,
        fresh: Vec::new(),
        used: Vec::new(),
        errors: 0,
    };
    for turn in 1..=TURNS {
        used.measure_turn(turn, &server, dataset, options.pace(), interrupt)?;
    }
    server.terminate()?;
    Ok(used)
}

/// Gets and deletes all messages, one by one.
fn drain(queues: &Queues, server: &Target, messages: usize, interrupt: &Interrupt) -> Result<()> {
    let mut left = messages;
    while left > 0 {
        let step = left.min(DRAIN_STEP);
        let scripts = queues.scripts(&Arc::new(Signer::new(server.address)?), left);
        let bounds = Bounds::operations(step as u64);
        let outcome = load::run(server.address, server.pid, scripts, &bounds, interrupt)?;
        if let Some(error) = outcome.first_error {
            bail!("empty a queue: {error}");
        }
        ensure!(outcome.operations == step as u64, "emptying a queue ended early");
        left -= step;
    }
    Ok(())
}

impl Used {
    /// One window of each, in direct succession; the order alternates from turn to turn.
    fn measure_turn(
        &mut self,
        turn: usize,
        server: &Target,
        dataset: Dataset,
        pace: Pace,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let case = Case { workload: Workload::Get, connections: CONNECTIONS };
        let fresh_queue = Queues::named(case, &format!("fresh{turn}"));
        fresh_queue.create(server.address)?;
        let used_queue = Queues::named(case, "used");
        let fresh_first = turn.is_multiple_of(2);
        for is_fresh in [fresh_first, !fresh_first] {
            let (queue, figures) = match is_fresh {
                true => (&fresh_queue, &mut self.fresh),
                false => (&used_queue, &mut self.used),
            };
            let measured = measure_queues(server, case, queue, dataset, pace, interrupt)?;
            let Measured { figures: new, errors, first_error, .. } = measured;
            figures.push(new);
            self.errors += errors;
            if let Some(error) = first_error {
                println!("  {errors} errors, the first: {error}");
            }
        }
        Ok(())
    }

    /// The p99 of gets in the used queue, divided by that in a fresh one: the median of the turns.
    pub(crate) fn p99_ratio(&self) -> f64 {
        let turns = self.used.iter().zip(&self.fresh);
        median(turns.map(|(used, fresh)| used.p99_us / fresh.p99_us).collect())
    }

    /// The goals, which are about a million messages; with fewer they stay open.
    pub(crate) fn goals(used: Option<&Self>) -> [Goal; 2] {
        let used = used.filter(|used| used.messages == GOAL_MESSAGES);
        [
            Goal::new(
                "get p99 after 1M put and deleted / fresh queue",
                Bound::AtMost(1.5),
                Unit::Times,
                used.map(Self::p99_ratio),
            ),
            Goal::new(
                "resident memory at its peak, queue of 1M",
                Bound::AtMost(600.0),
                Unit::Mib,
                used.map(|used| used.resident_peak_mib),
            ),
        ]
    }
}
