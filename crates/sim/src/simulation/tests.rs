//! Runs some seeds, and proves that planted bugs are found.

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

/// The front gets every kind of credential, and those that do not cover a request are refused
/// without a visible effect.
#[test]
fn the_front_holds_for_a_hundred_seeds() {
    let mut total = Report::default();
    for seed in 0..100 {
        let plan = Plan { through: Through::Front, ..Plan::of_seed(seed) };
        match run(plan) {
            Ok(report) => total += report,
            Err(failure) => panic!("seed {seed}, {plan:?}: {failure}"),
        }
    }
    assert!(total.calls > 3_000 && total.forbidden > 200, "{total:?}");
}

#[test]
fn mistakes_are_noticed_through_the_front_too() {
    for bug in [Bug::TornCommit, Bug::LostCommit, Bug::StaleView] {
        let found = (0..400).find(|seed| {
            let plan = Plan { bug: Some(bug), through: Through::Front, ..Plan::of_seed(*seed) };
            run(plan).is_err()
        });
        assert!(found.is_some(), "{bug:?} is not noticed");
    }
}

#[test]
fn a_seed_repeats_its_run() {
    for (seed, through) in
        [3, 4, 5, 6].into_iter().zip([Through::Service, Through::Front].repeat(2))
    {
        let history = |seed| {
            let plan = Plan { through, ..Plan::of_seed(seed) };
            play(plan).unwrap().history.calls()
        };
        assert_eq!(history(seed), history(seed));
        assert_ne!(history(seed), history(seed + 100));
    }
}

/// How many seeds it takes to find a planted bug.
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
        // A guard can fail only if tables are dropped.
        let workload = match bug {
            Bug::UnguardedCommit => Workload::Tables,
            Bug::UnindexedCommit => Workload::Indexed,
            _ => Workload::Mix,
        };
        let found = seeds_until_noticed(bug, workload);
        assert!(found.is_some(), "{bug:?} is not noticed");
    }
}

/// The invariants of ring and bank find batch bugs without the history checker.
#[test]
fn ring_and_bank_notice_half_a_batch() {
    for workload in [Workload::Ring, Workload::Bank] {
        assert!(seeds_until_noticed(Bug::TornCommit, workload).is_some(), "{workload:?}");
        assert!(seeds_until_noticed(Bug::UncheckedCommit, workload).is_some(), "{workload:?}");
    }
}

/// no reader sees an entity that its index lacks, nor the reverse.
#[test]
fn an_indexed_table_holds_for_two_hundred_seeds() {
    let mut total = Report::default();
    for seed in 0..200 {
        let plan = Plan { workload: Workload::Indexed, ..Plan::of_seed(seed) };
        match run(plan) {
            Ok(report) => total += report,
            Err(failure) => panic!("seed {seed}, {plan:?}: {failure}"),
        }
    }
    assert!(total.calls > 8_000 && total.undecided < 20, "{total:?}");
}

/// What clients read through an index is enough to notice, without checking the entries.
#[test]
fn readers_notice_that_an_index_lacks_entities() {
    let noticed = (0..400).any(|seed| {
        let (bug, workload) = (Some(Bug::UnindexedCommit), Workload::Indexed);
        let plan = Plan { bug, workload, faults: FaultRates::default(), ..Plan::of_seed(seed) };
        let world = play(plan).unwrap();
        judge(workload, &world.history.calls()).is_err()
    });
    assert!(noticed);
}

#[test]
fn mistakes_are_noticed_on_an_indexed_table_too() {
    for bug in [Bug::StaleView, Bug::TornCommit, Bug::LostCommit, Bug::TornScan] {
        let found = seeds_until_noticed(bug, Workload::Indexed);
        assert!(found.is_some(), "{bug:?} is not noticed");
    }
}

/// an expired entity is gone for every request, and permanently once it is swept.
#[test]
fn an_expiring_table_holds_for_two_hundred_seeds() {
    let mut total = Report::default();
    for seed in 0..200 {
        let plan = Plan { workload: Workload::Expiring, ..Plan::of_seed(seed) };
        match run(plan) {
            Ok(report) => total += report,
            Err(failure) => panic!("seed {seed}, {plan:?}: {failure}"),
        }
    }
    assert!(total.calls > 8_000 && total.undecided < 20, "{total:?}");
}

/// A table whose entities never expire is noticed, because entities do expire in these runs.
#[test]
fn readers_notice_that_entities_expire() {
    let noticed = (0..50).any(|seed| {
        let plan = Plan { workload: Workload::Expiring, ..Plan::of_seed(seed) };
        let world = play(plan).unwrap();
        judge(Workload::Mix, &world.history.calls()).is_err()
    });
    assert!(noticed);
}

#[test]
fn mistakes_are_noticed_on_an_expiring_table_too() {
    for bug in [Bug::StaleView, Bug::TornCommit, Bug::LostCommit, Bug::UnindexedCommit] {
        let found = seeds_until_noticed(bug, Workload::Expiring);
        assert!(found.is_some(), "{bug:?} is not noticed");
    }
}
