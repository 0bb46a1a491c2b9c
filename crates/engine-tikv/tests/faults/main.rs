//! Faults of the cluster and of other processes (K-10.5), each with ten seeds. What is acknowledged
//! is there once, what is refused is not there, nothing is half there, and no insert is told that
//! its own earlier try exists.

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

/// Runs a test with ten seeds, side by side: most of it waits.
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
