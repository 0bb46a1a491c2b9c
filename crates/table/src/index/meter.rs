//! Metrics of building indexes.

use lazuli_meter::{Counter, Family, Gauge, Value};

/// The builds of this process.
#[derive(Debug, Default)]
pub(crate) struct BuildMeter {
    /// As of the last step.
    pub(super) building: Gauge,
    /// Since start-up.
    pub(super) ready: Counter,
    pub(super) failed: Counter,
    /// Entries that builds have added.
    pub(super) entries: Counter,
}

impl BuildMeter {
    pub(crate) fn report(&self) -> Vec<Family> {
        let state = |name: &'static str| vec![("state", name.into())];
        let ended = |counter: &Counter| Value::Gauge(counter.value() as f64);
        vec![
            Family::new(
                "lazuli_index_builds",
                "Indexes being built, and builds ended since the start",
            )
            .with(state("building"), &self.building)
            .with(state("ready"), &ended(&self.ready))
            .with(state("failed"), &ended(&self.failed)),
            Family::of(
                "lazuli_index_entries",
                "Entries that were added while indexes were built",
                &self.entries,
            ),
        ]
    }
}
