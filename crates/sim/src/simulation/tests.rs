//! Runs of some seeds, and the proof that mistakes are noticed.

use super::*;

#[test]
fn some_hundred_seeds_hold() {
    let mut calls = 0;
    for seed in 0..300 {
        let plan = Plan::of_seed(seed);
        match run(plan) {
            Ok(report) => calls += report.calls,
            Err(failure) => panic!("seed {seed}, {plan:?}: {failure}"),
        }
    }
    assert!(calls > 10_000, "{calls}");
}

#[test]
fn a_seed_repeats_its_run() {
    for seed in [3, 4, 5, 6] {
        let history = |seed| {
            let plan = Plan::of_seed(seed);
            play(plan).unwrap().history.calls()
        };
        assert_eq!(history(seed), history(seed));
        assert_ne!(history(seed), history(seed + 100));
    }
}

/// How many seeds it takes until a planted mistake is noticed.
fn seeds_until_noticed(bug: Bug, workload: Workload) -> Option<u64> {
    (0..400).find(|seed| {
        let faults = FaultRates { lost_commit: 100, ..FaultRates::default() };
        let plan = Plan { bug: Some(bug), workload, faults, ..Plan::of_seed(*seed) };
        run(plan).is_err()
    })
}

#[test]
fn every_planted_mistake_is_noticed() {
    for bug in Bug::ALL {
        // Only where tables come and go can a guard fail.
        let workload = if bug == Bug::UnguardedCommit { Workload::Tables } else { Workload::Mix };
        let found = seeds_until_noticed(bug, workload);
        assert!(found.is_some(), "{bug:?} is not noticed");
    }
}

/// The truths of ring and bank notice mistakes of batches without the checker of histories.
#[test]
fn ring_and_bank_notice_half_a_batch() {
    for workload in [Workload::Ring, Workload::Bank] {
        assert!(seeds_until_noticed(Bug::TornCommit, workload).is_some(), "{workload:?}");
        assert!(seeds_until_noticed(Bug::UncheckedCommit, workload).is_some(), "{workload:?}");
    }
}
