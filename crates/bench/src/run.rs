//! The run: loads every server, then measures them in turns, round by round.
//!
//! Only the server being measured runs; the others are stopped, so that their background work is not
//! counted as its cost.

use crate::entity::Dataset;
use crate::interrupt::Interrupt;
use crate::measure::{Case, Measured, measure};
use crate::options::{Options, Plan};
use crate::queue::used;
use crate::report::{self, thousands};
use crate::results::{Machine, Measurement, Results};
use crate::target::{AZURITE_VERSION, Target, settle};
use crate::workload::Service;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// Azurite saves its data every five seconds when it has changed.
const QUIET: Duration = Duration::from_secs(6);
const SETTLE_MAX: Duration = Duration::from_secs(90);

/// Measures as `options` say, prints the figures, and writes them to files.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> Result<Results> {
    let plan = options.plan();
    let directory = options.data_directory()?;
    let mut results = Results {
        machine: Machine::look(),
        service: plan.service,
        azurite: AZURITE_VERSION,
        entities: plan.dataset.entities(),
        rounds: plan.rounds,
        window_seconds: plan.pace.window.as_secs_f64(),
        measurements: Vec::new(),
        used: None,
        goals: Vec::new(),
        skipped: Vec::new(),
    };
    println!("{}", results.machine.text());
    if results.machine.is_busy() {
        println!("note: other work keeps this machine busy; the figures will be noisy");
    }
    let targets = start(options, directory.path(), &mut results.skipped)?;
    if plan.service == Service::Table {
        load(&targets, plan.dataset, interrupt)?;
    }
    for round in 1..=plan.rounds {
        settle(&targets, QUIET, SETTLE_MAX, interrupt)?;
        for target in &targets {
            target.pid.freeze()?;
        }
        measure_round(&plan, round, &targets, &mut results, interrupt)?;
        for target in &targets {
            target.pid.thaw()?;
        }
    }
    targets.into_iter().try_for_each(Target::terminate)?;
    if let Some(messages) = plan.passed {
        results.used = Some(used::run(options, messages, plan.dataset, interrupt)?);
    }
    results.judge();
    report::print(&results, plan.name, &options.out)?;
    Ok(results)
}

fn start(options: &Options, directory: &Path, skipped: &mut Vec<String>) -> Result<Vec<Target>> {
    let service = options.service();
    let lazuli = Target::lazuli(&options.lazuli, &directory.join("lazuli"), service)?;
    let mut limits = Vec::new();
    if service == Service::Queue {
        skipped.push("the limits: they are of tables".to_owned());
    } else if cfg!(debug_assertions) {
        // A slow limit would make the servers compared with it look better.
        skipped.push("the limits: this benchmark is built without optimisation".to_owned());
    } else {
        limits.extend(Target::limits(&lazuli, directory)?);
    }
    let mut targets = vec![lazuli];
    if options.no_azurite {
        skipped.push("Azurite: not wanted".to_owned());
    } else {
        let (home, data) = (options.out.join("azurite"), directory.join("azurite"));
        match Target::azurite(&home, &data, service)? {
            Ok(azurite) => targets.push(azurite),
            Err(reason) => skipped.push(format!("Azurite: {reason}")),
        }
    }
    skipped.iter().for_each(|skipped| println!("skipped: {skipped}"));
    targets.extend(limits);
    Ok(targets)
}

/// Fills the tables, waits until the servers are idle, and lets them examine every entity once.
fn load(targets: &[Target], dataset: Dataset, interrupt: &Interrupt) -> Result<()> {
    for target in targets.iter().filter(|target| target.name.stores()) {
        let elapsed = target.load(dataset, interrupt)?;
        let entities = thousands(dataset.entities() as f64);
        println!(
            "{} loaded {entities} entities in {:.1} s",
            target.name.text(),
            elapsed.as_secs_f64()
        );
    }
    settle(targets, QUIET, SETTLE_MAX, interrupt)?;
    for target in targets.iter().filter(|target| target.name.stores()) {
        target.scan(dataset, interrupt)?;
    }
    Ok(())
}

/// Every case on every server that supports it, one after another.
fn measure_round(
    plan: &Plan,
    round: usize,
    targets: &[Target],
    results: &mut Results,
    interrupt: &Interrupt,
) -> Result<()> {
    for &case in &plan.cases {
        for target in targets.iter().filter(|target| target.name.serves(case.workload)) {
            let label = format!("{}x{}r{round}", case.workload as usize, case.connections);
            target.pid.thaw()?;
            let measured = measure(target, case, plan.dataset, plan.pace, &label, interrupt)?;
            target.pid.freeze()?;
            progress(plan, round, target, case, &measured);
            results.add(measurement(target, case, plan.dataset, measured));
        }
    }
    Ok(())
}

fn measurement(target: &Target, case: Case, dataset: Dataset, measured: Measured) -> Measurement {
    let Measured { figures, operations, errors, .. } = measured;
    Measurement {
        target: target.name,
        case,
        counted: case.workload.entities(dataset).map(|(counted, _)| counted),
        median: figures.clone(),
        rounds: vec![figures],
        operations,
        errors,
    }
}

fn progress(plan: &Plan, round: usize, target: &Target, case: Case, measured: &Measured) {
    let Case { workload, connections } = case;
    let rounds = plan.rounds;
    let rate = thousands(measured.figures.operations_per_second);
    let (workload, target) = (workload.name(), target.name.text());
    println!("round {round}/{rounds}  {workload:14} × {connections:<3}  {target:10}  {rate} ops/s");
    if let Some(error) = &measured.first_error {
        println!("  {} errors, the first: {error}", measured.errors);
    }
}
