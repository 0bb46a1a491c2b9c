//! Every file of a small data directory disappears once.

#![cfg(target_os = "linux")]

use lazuli_disk::bench::{Amount, Bench};
use lazuli_disk::vanished::run;
use lazuli_testkit::server::binary;

#[test]
fn file_that_has_vanished_is_named_and_nothing_is_shown_without_it() {
    let bench = Bench::new(binary().unwrap()).unwrap();
    let amount = Amount::new(1, 30);
    println!("{}", run(&bench, 20_261_116, amount).unwrap());
}
