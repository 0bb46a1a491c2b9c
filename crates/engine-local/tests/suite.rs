//! The local engine keeps what every engine promises, under each durability.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_engine_local::{Durability, LocalEngine, LocalOptions};
use lazuli_testkit::engine_suite::Fixture;
use std::time::Duration;

fn fixture(durability: Durability) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let options = LocalOptions { durability, ..LocalOptions::default() };
    Fixture::new(LocalEngine::open(dir.path(), options).unwrap(), dir)
}

mod sync {
    lazuli_testkit::engine_suite!(|| super::fixture(super::Durability::Sync));
}

mod interval {
    use super::{Durability, Duration, fixture};
    lazuli_testkit::engine_suite!(|| fixture(Durability::Interval(Duration::from_millis(5))));
}

mod memory {
    lazuli_testkit::engine_suite!(|| super::fixture(super::Durability::Memory));
}
