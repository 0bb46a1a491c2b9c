//! Counters, gauges and histograms for code that runs on every request.
//!
//! Each is one or a few relaxed atomics: an update costs a few instructions and imposes no memory
//! ordering. Their owner reports them as [`Family`] values ([`Source`]), plain data that the admin
//! listener writes in the requested format. Labels come from closed sets ([`Label`]), so that
//! clients cannot increase the number of series.

mod family;
mod histogram;
mod label;
mod spent;

pub use family::{Family, Labels, Measure, Sample, Source, Value};
pub use histogram::{DURATION_BOUNDS, Distribution, Histogram};
pub use label::{Label, PerLabel};
pub use spent::{collect_commits, record_commit};

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    pub fn add(&self, number: i64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub fn set(&self, number: i64) {
        self.0.store(number, Ordering::Relaxed);
    }

    pub fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more until the guard is dropped.
    pub fn hold(&self) -> Held<'_> {
        self.add(1);
        Held(self)
    }
}

/// A [`Gauge`] counts one while this exists.
#[derive(Debug)]
pub struct Held<'g>(&'g Gauge);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_counts_what_is_held() {
        let gauge = Gauge::default();
        let (first, _second) = (gauge.hold(), gauge.hold());
        assert_eq!(gauge.value(), 2);
        drop(first);
        assert_eq!(gauge.value(), 1);
    }

    #[test]
    fn counters_of_several_threads_add_up() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.increment()));
            }
        });
        assert_eq!(counter.value(), 4000);
    }
}
