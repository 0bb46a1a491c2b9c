//! All metrics of the process.

use lazuli_meter::{Family, Sample, Source, Value};
use std::collections::BTreeMap;
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

    /// All non-zero samples except histograms, as text for one log line.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for family in self.families() {
            for Sample { labels, value } in &family.samples {
                let (Value::Counter(number) | Value::Gauge(number)) = value else { continue };
                if *number != 0.0 {
                    let labels = labels.iter().map(|(_, value)| value.as_ref());
                    let name = std::iter::once(family.name).chain(labels).collect::<Vec<_>>();
                    text += &format!("{}={number} ", name.join("."));
                }
            }
        }
        text.trim_end().to_owned()
    }

    /// What all sources report, by name; samples of one name are together.
    pub(crate) fn families(&self) -> Vec<Family> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut families = BTreeMap::<(&'static str, bool), Family>::new();
        for family in sources.iter().flat_map(|source| source.report()) {
            // A counter is written with a suffix, so it may share its name with another metric.
            let key = (family.name, family.is_counter());
            match families.get_mut(&key) {
                Some(known) => known.samples.extend(family.samples),
                None => drop(families.insert(key, family)),
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
