//! A sample of the failing reads; `cargo xtask torture` makes every call fail.

#![cfg(target_os = "linux")]

use lazuli_disk::bench::{Amount, Bench};
use lazuli_disk::reads::{Plan, run};
use lazuli_testkit::server::binary;

#[test]
fn what_cannot_be_read_is_refused_and_not_forgotten() {
    let bench = Bench::new(binary().unwrap()).unwrap();
    let amount = Amount::new(1, 40);
    let plan = Plan { seed: 20_261_116, amount, writes: 2, calls_max: 1, deadline: None };
    println!("{}", run(&bench, &plan, &|_| {}).unwrap());
}
