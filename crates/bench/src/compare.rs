//! Compares two servers: builds of Lazuli before and after a change, or one build without and with access lines.
//!
//! The speed of a machine varies from minute to minute by more than most changes gain. So both
//! are measured in turns of short windows, and the result is the ratio within each turn.

use crate::interrupt::Interrupt;
use crate::measure::{Case, Figures, measure, median};
use crate::options::{Options, Plan};
use crate::report;
use crate::results::Machine;
use crate::target::{Target, settle};
use crate::workload::Service;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const QUIET: Duration = Duration::from_secs(1);
const SETTLE_MAX: Duration = Duration::from_secs(30);

/// The measurements of one case.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) case: Case,
    pub(crate) turns: Vec<Turn>,
}

/// One window of each build, one right after the other.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) before: Figures,
    pub(crate) now: Figures,
}

/// A figure now, divided by the same before: the median of all turns and their spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    /// A quarter of the turns is below, and a quarter above.
    pub(crate) quartiles: (f64, f64),
}

impl Comparison {
    pub(crate) fn ratio(&self, figure: fn(&Figures) -> f64) -> Ratio {
        let mut ratios: Vec<f64> =
            self.turns.iter().map(|turn| figure(&turn.now) / figure(&turn.before)).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |index: usize| ratios.get(index).copied().unwrap_or(f64::NAN);
        let quarter = ratios.len() / 4;
        let quartiles = (at(quarter), at(ratios.len().saturating_sub(1 + quarter)));
        Ratio { quartiles, median: median(ratios) }
    }

    /// The median of a figure before, and now.
    pub(crate) fn medians(&self, figure: fn(&Figures) -> f64) -> (f64, f64) {
        let before = self.turns.iter().map(|turn| figure(&turn.before)).collect();
        let now = self.turns.iter().map(|turn| figure(&turn.now)).collect();
        (median(before), median(now))
    }
}

/// Measures `before` and the binary of `options` in turns, and prints how they differ. Returns how
/// many operations failed.
pub(crate) fn builds(before: &Path, options: &Options, interrupt: &Interrupt) -> Result<u64> {
    ensure!(before.is_file(), "there is no build at {}", before.display());
    let directory = options.data_directory()?;
    let start = |binary: &Path, name| {
        Target::lazuli(binary, &directory.path().join(name), options.service())
    };
    run([start(before, "before")?, start(&options.lazuli, "now")?], options, interrupt)
}

/// Measures the binary of `options` without access lines and with all of them in turns (O-4.2), and prints how they
/// differ. Returns how many operations failed.
pub(crate) fn access_lines(options: &Options, interrupt: &Interrupt) -> Result<u64> {
    let directory = options.data_directory()?;
    let log = directory.path().join("access.log");
    let log = log.to_str().context("name the log file")?;
    let start = |name, arguments: &[&str]| {
        let launcher = Command::new(&options.lazuli);
        let data = directory.path().join(name);
        Target::lazuli_through(&launcher, &data, options.service(), arguments)
    };
    println!("before: --access-log off; now: --access-log all");
    let off = start("off", &["--access-log", "off"])?;
    let all = start("all", &["--access-log", "all", "--log-file", log])?;
    let errors = run([off, all], options, interrupt)?;
    let written = fs::metadata(log).context("look at the log file")?.len();
    ensure!(written > 0, "no access line was written");
    Ok(errors)
}

fn run(targets: [Target; 2], options: &Options, interrupt: &Interrupt) -> Result<u64> {
    let plan = options.plan();
    println!("{}", Machine::look().text());
    if plan.service == Service::Table {
        for target in &targets {
            target.load(plan.dataset, interrupt)?;
        }
        settle(&targets, QUIET, SETTLE_MAX, interrupt)?;
        for target in &targets {
            target.scan(plan.dataset, interrupt)?;
        }
    }
    let mut errors = 0;
    let mut comparisons: Vec<Comparison> = Vec::new();
    for &case in &plan.cases {
        let mut comparison = Comparison { case, turns: Vec::new() };
        for round in 1..=plan.rounds {
            let (turn, failed) = measure_turn(&plan, case, round, &targets, interrupt)?;
            comparison.turns.push(turn);
            errors += failed;
        }
        comparisons.push(comparison);
    }
    report::print_comparisons(&comparisons);
    targets.into_iter().try_for_each(Target::terminate)?;
    Ok(errors)
}

/// The order of the builds alternates from turn to turn.
fn measure_turn(
    plan: &Plan,
    case: Case,
    round: usize,
    targets: &[Target; 2],
    interrupt: &Interrupt,
) -> Result<(Turn, u64)> {
    if !case.workload.only_reads() {
        settle(targets, QUIET, SETTLE_MAX, interrupt)?;
    }
    let mut errors = 0;
    let mut figures = |target: &Target, other: &Target| -> Result<Figures> {
        let label = format!("{}x{}r{round}", case.workload as usize, case.connections);
        other.pid.freeze()?;
        let measured = measure(target, case, plan.dataset, plan.pace, &label, interrupt)?;
        other.pid.thaw()?;
        errors += measured.errors;
        Ok(measured.figures)
    };
    let [before, now] = targets;
    let turn = if round % 2 == 1 {
        let before_figures = figures(before, now)?;
        Turn { before: before_figures, now: figures(now, before)? }
    } else {
        let now_figures = figures(now, before)?;
        Turn { before: figures(before, now)?, now: now_figures }
    };
    Ok((turn, errors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    #[test]
    fn the_ratio_is_the_median_of_the_turns() {
        let turn = |before: f64, now: f64| {
            let figures = |rate| Figures { operations_per_second: rate, ..Figures::default() };
            Turn { before: figures(before), now: figures(now) }
        };
        let case = Case { workload: Workload::Point, connections: 64 };
        // The machine was half as fast in the second turn, and something disturbed the last.
        let turns = vec![
            turn(10.0, 12.0),
            turn(5.0, 6.0),
            turn(10.0, 11.0),
            turn(10.0, 13.0),
            turn(10.0, 1.0),
        ];
        let comparison = Comparison { case, turns };
        let ratio = comparison.ratio(|it| it.operations_per_second);
        assert_eq!(ratio, Ratio { median: 1.2, quartiles: (1.1, 1.2) });
        assert_eq!(comparison.medians(|it| it.operations_per_second), (10.0, 11.0));
    }
}
