//! The reference engine keeps what every engine promises.

use lazuli_engine::MemoryEngine;
use lazuli_testkit::engine_suite::Fixture;

lazuli_testkit::engine_suite!(|| Fixture::new(MemoryEngine::default(), ()));
