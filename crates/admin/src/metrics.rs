//! All metrics of the process.

use lazuli_meter::{Family, Labels, Sample, Source, Value};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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

    /// All families reported by the sources, by name. Samples of two sources with the same labels,
    /// such as services that share a metric, are merged: no format allows two.
    pub(crate) fn families(&self) -> Vec<Family> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut families = BTreeMap::<(&'static str, bool), Joined>::new();
        for family in sources.iter().flat_map(|source| source.report()) {
            // A counter is written with a suffix, so it may share its name with another metric.
            let key = (family.name, family.is_counter());
            families.entry(key).or_default().add(family);
        }
        let families = families.into_iter();
        families
            .map(|((name, _), Joined { help, samples })| {
                let samples = samples.into_iter().map(|(labels, value)| Sample { labels, value });
                Family { name, help, samples: samples.collect() }
            })
            .collect()
    }
}

/// The samples of one name.
#[derive(Default)]
struct Joined {
    help: &'static str,
    samples: BTreeMap<Labels, Value>,
}

impl Joined {
    fn add(&mut self, family: Family) {
        self.help = family.help;
        for Sample { labels, value } in family.samples {
            match self.samples.entry(labels) {
                Entry::Occupied(mut known) => known.get_mut().add(&value),
                Entry::Vacant(place) => drop(place.insert(value)),
            }
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_meter::{Counter, Histogram};

    struct Service(&'static str);

    impl Source for Service {
        fn report(&self) -> Vec<Family> {
            let (one, groups) = (Counter::default(), Histogram::of_numbers(&[1, 10]));
            one.increment();
            groups.observe(7);
            let own = Family::new("requests", "Requests");
            vec![
                own.with(vec![("service", self.0.into())], &one),
                Family::of("conflicts", "Conflicts", &one),
                Family::of("groups", "Groups", &groups),
            ]
        }
    }

    #[test]
    fn what_two_services_measure_under_the_same_labels_is_one_sample() {
        let metrics = Metrics::default();
        metrics.add(Arc::new(Service("table")));
        metrics.add(Arc::new(Service("queue")));
        assert_eq!(metrics.summary(), "conflicts=2 requests.queue=1 requests.table=1");
        let families = metrics.families();
        let groups = families.iter().find(|family| family.name == "groups").unwrap();
        let [Sample { value: Value::Histogram(sum), .. }] = groups.samples.as_slice() else {
            panic!("{groups:?}")
        };
        assert_eq!((sum.count(), sum.sum), (2, 14.0));
    }
}
