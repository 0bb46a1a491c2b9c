//! A sample of the trials; `cargo xtask torture` runs more of each.

#![cfg(target_os = "linux")]

use lazuli_disk::bench::{Amount, Bench};
use lazuli_disk::disk::Names;
use lazuli_disk::power::{Plan, run};
use lazuli_testkit::server::binary;

#[test]
fn nothing_acknowledged_is_lost_with_the_power() {
    let bench = Bench::new(binary().unwrap()).unwrap();
    let amount = Amount::new(2, 25);
    let plan = Plan {
        names: Names::Strict,
        seed: 20_261_116,
        amount,
        states_max: 30,
        recoveries_max: 1,
        deadline: None,
    };
    let counts = run(&bench, &plan, &|_| {}).unwrap();
    assert_eq!(counts.states, counts.reread);
    println!("{counts}");
}
