//! Engines on a stand-in cluster.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part of this, and fails by panicking"
)]

use lazuli_engine_tikv::{TikvEngine, TikvOptions};
use lazuli_testkit::stores::TestPace;
use lazuli_testkit::stores::tikv::StandIn;
use std::sync::Arc;

/// Calls may wait ten times as long for the cluster as in production, so that a busy machine causes
/// no errors.
const SLOWNESS: u64 = 10;

pub(crate) fn options(cluster: &StandIn) -> TikvOptions {
    let address = format!("tikv://{}", cluster.driver()).parse().unwrap();
    TikvOptions::new(address, Arc::new(TestPace::slowed(SLOWNESS)))
}

/// One more process on the cluster.
pub(crate) fn engine_on(cluster: &StandIn) -> TikvEngine {
    TikvEngine::new(&options(cluster)).unwrap()
}
