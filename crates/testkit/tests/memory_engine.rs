//! The reference engine keeps what every engine promises.

use lazuli_engine::{MemoryEngine, MemoryOptions, Writers};
use lazuli_testkit::engine_suite::{self, Fixture};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
