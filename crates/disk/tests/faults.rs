//! A slice of the disk faults; `cargo xtask torture` lets every call fail.

#![cfg(target_os = "linux")]

use lazuli_disk::bench::Bench;
use lazuli_disk::faults::{KINDS, Plan, run};
use lazuli_testkit::server::binary;

#[test]
fn a_failing_disk_costs_nothing_that_was_acknowledged() {
    let bench = Bench::new(binary().unwrap()).unwrap();
    for (kind, seed) in KINDS.iter().zip(1..) {
        let plan = Plan { seed, steps: 10, calls_max: 2, only: None, deadline: None };
        println!("{}: {}", kind.name, run(&bench, &plan, kind, &|_| {}).unwrap());
    }
}
