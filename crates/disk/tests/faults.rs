//! A sample of the disk faults; `cargo xtask torture` makes every call fail.

#![cfg(target_os = "linux")]

use anyhow::Result;
use lazuli_disk::bench::Bench;
use lazuli_disk::faults::{KINDS, LogPlace, Plan, run};
use lazuli_testkit::server::binary;

#[test]
fn a_failing_disk_costs_nothing_that_was_acknowledged() {
    let results = run_all(LogPlace::StandardError, 2);
    println!("{}", results.unwrap());
}

/// A log line that could not be written caused a panic, which ended the writing thread.
#[test]
fn a_log_on_the_failing_disk_costs_nothing_but_its_lines() {
    let results = run_all(LogPlace::DataDirectory, 1);
    println!("{}", results.unwrap());
}

/// Makes `calls_max` calls fail in each phase and each way, and returns the counts.
fn run_all(log: LogPlace, calls_max: usize) -> Result<String> {
    let bench = Bench::new(binary()?)?;
    let mut results = String::new();
    for (kind, seed) in KINDS.iter().zip(1..) {
        let plan = Plan { seed, steps: 10, calls_max, only: None, deadline: None, log };
        results += &format!("{}: {}\n", kind.name, run(&bench, &plan, kind, &|_| {})?);
    }
    Ok(results)
}
