//! All that is measured, from every part of the process.

use lazuli_meter::{Family, Source};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The sources of metrics. A source can be added while others are read: the store is opened after
/// the listener.
#[derive(Default)]
pub struct Metrics(Mutex<Vec<Arc<dyn Source>>>);

impl Metrics {
    pub fn add(&self, source: Arc<dyn Source>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// What all sources report, by name; samples of one name are together.
    pub(crate) fn families(&self) -> Vec<Family> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut families = std::collections::BTreeMap::<&'static str, Family>::new();
        for family in sources.iter().flat_map(|source| source.report()) {
            match families.get_mut(family.name) {
                Some(known) => known.samples.extend(family.samples),
                None => drop(families.insert(family.name, family)),
            }
        }
        families.into_values().collect()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics(..)")
    }
}
