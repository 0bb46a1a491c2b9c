//! A sample of the bit flips; `cargo xtask torture` flips more.

#![cfg(target_os = "linux")]

use lazuli_disk::bench::{Amount, Bench};
use lazuli_disk::flips::{Plan, run};
use lazuli_testkit::server::binary;

#[test]
fn a_flipped_bit_is_reported_and_never_shown() {
    let bench = Bench::new(binary().unwrap()).unwrap();
    let amount = Amount::new(1, 40);
    let plan = Plan { seed: 20_261_116, amount, flips_max: 2, deadline: None };
    println!("{}", run(&bench, &plan, &|_| {}).unwrap());
}
