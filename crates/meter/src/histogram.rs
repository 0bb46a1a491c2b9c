//! A histogram with fixed bounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds for how long something takes, in nanoseconds: 50 µs to 30 s.
pub const DURATION_BOUNDS: [u64; 18] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
];

/// How often values fell below each of some bounds. A value counts in the first bucket whose bound
/// is not below it.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One per bound, and one for values above the last.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
    /// How many units are one reported unit: a second has 10⁹ nanoseconds.
    scale: f64,
}

impl Histogram {
    /// A histogram of durations, reported in seconds.
    pub fn of_durations() -> Self {
        Self::new(&DURATION_BOUNDS, 1e9)
    }

    /// A histogram of numbers.
    pub fn of_numbers(bounds: &'static [u64]) -> Self {
        Self::new(bounds, 1.0)
    }

    fn new(bounds: &'static [u64], scale: f64) -> Self {
        assert!(bounds.is_sorted(), "the bounds of a histogram rise");
        let buckets = std::iter::repeat_with(AtomicU64::default).take(bounds.len() + 1).collect();
        Self { bounds, buckets, sum: AtomicU64::default(), scale }
    }

    pub fn observe(&self, value: u64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub fn observe_duration(&self, duration: Duration) {
        self.observe(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The values so far. Concurrent values may be partly included.
    pub fn distribution(&self) -> Distribution {
        let bounds = self.bounds.iter().map(|bound| *bound as f64 / self.scale);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        Distribution {
            buckets: bounds.chain([f64::INFINITY]).zip(counts).collect(),
            sum: self.sum.load(Ordering::Relaxed) as f64 / self.scale,
        }
    }
}

/// The content of a histogram at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The upper bound of each bucket and how many values are in it alone; the last is unbounded.
    pub buckets: Vec<(f64, u64)>,
    pub sum: f64,
}

impl Distribution {
    /// Adds what another histogram with the same bounds holds.
    pub fn add(&mut self, other: &Self) {
        for ((_, count), (_, more)) in self.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
        }
        self.sum += other.sum;
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::of_numbers(&[1, 2, 5]);
        for value in [0, 1, 2, 3, 5, 6, 1000] {
            histogram.observe(value);
        }
        let distribution = histogram.distribution();
        let expect = vec![(1.0, 2), (2.0, 1), (5.0, 2), (f64::INFINITY, 2)];
        assert_eq!(distribution, Distribution { buckets: expect, sum: 1017.0 });
        assert_eq!(distribution.count(), 7);
    }

    #[test]
    fn durations_are_reported_in_seconds() {
        let histogram = Histogram::of_durations();
        histogram.observe_duration(Duration::from_micros(50));
        histogram.observe_duration(Duration::from_secs(31));
        let Distribution { buckets, sum } = histogram.distribution();
        assert_eq!(buckets.first(), Some(&(0.000_05, 1)));
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, 1)));
        assert!((sum - 31.000_05).abs() < 1e-9, "{sum}");
    }
}
