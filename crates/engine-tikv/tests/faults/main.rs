//! Faults of the cluster and of other processes (K-10.5), each with ten seeds. An acknowledged
//! write is stored once, a refused one is not stored, nothing is half done, and no insert fails
//! because of its own earlier attempt.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod killed;
mod lost;
mod moved;
mod slow;
mod workload;

use lazuli_testkit::seed::Seeded;

const SEEDS: u64 = 10;

/// Runs a test with ten seeds in parallel: most of it is waiting.
fn with_seeds(test: impl Fn(Seeded) + Sync) {
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..SEEDS)
            .map(|seed| {
                let test = &test;
                (seed, scope.spawn(move || test(Seeded::new(seed))))
            })
            .collect();
        for (seed, run) in runs {
            assert!(run.join().is_ok(), "seed {seed} failed");
        }
    });
}
