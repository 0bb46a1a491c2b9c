//! The reference engine keeps every promise of the contract.

use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, MemoryEngine, MemoryOptions, Revision, Writers,
};
use lazuli_testkit::engine_suite::{self, Fixture};
use lazuli_testkit::layer::{Layer, Layered};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

lazuli_testkit::engine_suite!(|| Fixture::new(MemoryEngine::default(), ()));

/// As tests of several services on one engine use it.
mod many_writers {
    use super::{Fixture, MemoryEngine, MemoryOptions, Writers};

    fn fixture() -> Fixture {
        let options = MemoryOptions { writers: Writers::Many, ..MemoryOptions::default() };
        Fixture::new(MemoryEngine::new(options), ())
    }

    lazuli_testkit::engine_suite!(fixture);
}

#[test]
fn expired_view_says_so() {
    let now = Arc::new(AtomicU64::new(7));
    let clock = now.clone();
    let options = MemoryOptions {
        view_clock: Some(Arc::new(move || clock.load(Ordering::SeqCst))),
        ..MemoryOptions::default()
    };
    let view_ms_max = options.limits.view_ms_max;
    let engine = MemoryEngine::new(options);
    engine_suite::expired_view_says_so(&engine, || {
        now.fetch_add(view_ms_max, Ordering::SeqCst);
    });
}

/// Loses the answers to commits while told to, and every other commit along with its answer.
#[derive(Default)]
struct BadLine {
    below: MemoryEngine,
    is_bad: AtomicBool,
    commits: AtomicU64,
}

impl Layer for BadLine {
    fn below(&self) -> &dyn Engine {
        &self.below
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async {
            if !self.is_bad.load(Ordering::SeqCst) {
                return self.below.commit(commit).await;
            }
            if self.commits.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                self.below.commit(commit).await?;
            }
            Err(CommitError::Undetermined("the answer was lost".into()))
        })
    }
}

#[test]
fn undetermined_commit_is_whole_or_nothing() {
    let line = Arc::new(Layered::<BadLine>::default());
    let engine: Arc<dyn Engine> = line.clone();
    engine_suite::undetermined_commit_is_whole_or_nothing(&engine, |is_bad| {
        line.is_bad.store(is_bad, Ordering::SeqCst);
    });
}
