//! The metric that only an engine on PostgreSQL has (K-8.8).

use lazuli_meter::{Family, Histogram};
use std::time::Duration;

/// How long calls waited for a connection.
pub(crate) struct ConnectionMeter {
    wait: Histogram,
}

impl Default for ConnectionMeter {
    fn default() -> Self {
        Self { wait: Histogram::of_durations() }
    }
}

impl ConnectionMeter {
    pub(crate) fn waited(&self, waited: Duration) {
        self.wait.observe_duration(waited);
    }

    pub(crate) fn report(&self) -> Vec<Family> {
        vec![Family::of(
            "lazuli_store_connection_wait_seconds",
            "Time a call waited for a connection to the store",
            &self.wait,
        )]
    }
}
