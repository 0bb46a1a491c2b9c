//! Runs some seeds, and proves that bugs are noticed.

use super::*;

#[test]
fn some_hundred_seeds_hold() {
    let mut total = Report::default();
    for seed in 0..200 {
        let plan = Plan::of_seed(seed);
        match run(plan) {
            Ok(report) => total += report,
            Err(failure) => panic!("seed {seed}, {plan:?}: {failure}"),
        }
    }
    assert!(total.calls > 8_000 && total.forbidden > 500, "{total:?}");
    assert_eq!(total.undecided, 0);
}

/// Seeds that once failed, each for a different reason. 1608: one get returned a message twice. 2160:
/// a count fell below the number of messages when expired ones were deleted.
const FOUND_MISTAKES: &[u64] = &[1608, 2160];

#[test]
fn seeds_that_found_mistakes_hold() {
    for seed in FOUND_MISTAKES {
        let plan = Plan::of_seed(*seed);
        assert!(run(plan).is_ok_and(|report| report.calls > 0), "seed {seed}, {plan:?}");
    }
}

#[test]
fn a_seed_repeats_its_run() {
    for seed in 3..9 {
        let history = |seed| play(Plan::of_seed(seed)).unwrap().history.calls();
        assert_eq!(history(seed), history(seed));
        assert_ne!(history(seed), history(seed + 100));
    }
}

/// Each bug in an engine contract that a service relies on, including missing checks and guards.
#[test]
fn planted_mistakes_are_noticed() {
    for bug in [
        Bug::StaleView,
        Bug::UncheckedCommit,
        Bug::UnguardedCommit,
        Bug::TornCommit,
        Bug::LostCommit,
        Bug::LateCommit,
        Bug::TornScan,
    ] {
        let found = (0..400).find(|seed| {
            let plan = Plan::of_seed(*seed);
            let faults = FaultRates { lost_commit: 100, ..FaultRates::default() };
            run(Plan { bug: Some(bug), faults, comes_and_goes: true, ..plan }).is_err()
        });
        assert!(found.is_some(), "{bug:?} is not noticed");
    }
}
