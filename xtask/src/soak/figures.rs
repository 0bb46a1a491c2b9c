//! What the soak counts and measures, and its report.

use super::Options;
use super::watch::{Sample, Watch, slope_per_minute};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The share of the time after which caches and buffers are full.
const SETTLED: f64 = 0.25;

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Insert, replace, merge, delete, with and without conditions; one in three is a batch.
    Write,
    /// A write that must be refused.
    RefusedWrite,
    Point,
    /// All pages of one partition.
    Partition,
    /// Some pages of the whole table.
    Walk,
    /// A table created or deleted.
    Table,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::RefusedWrite => "refused write",
            Self::Point => "point read",
            Self::Partition => "partition",
            Self::Walk => "walk",
            Self::Table => "table",
        }
    }
}

/// The counts of all connections.
pub(super) struct Figures {
    start: Instant,
    time: Duration,
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    operations: u64,
    /// How long requests took, by their kind and the quarter of the time in which they ended.
    times: BTreeMap<(Kind, u32), Histogram<u64>>,
    errors: BTreeMap<String, u64>,
    lost_writes: usize,
    failed: bool,
    samples: Vec<Sample>,
}

impl Figures {
    pub(super) fn new(time: Duration) -> Self {
        Self { start: Instant::now(), time, counts: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn done(&self, kind: Kind, took: Duration) {
        let quarter = self.quarter();
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mut counts = self.counts();
        counts.operations += 1;
        // Requests of the load that ends with the kill are counted but not timed.
        if quarter < 4 {
            counts.times.entry((kind, quarter)).or_insert_with(histogram).saturating_record(micros);
        }
        drop(counts);
        self.changed.notify_all();
    }

    pub(super) fn error(&self, what: &str) {
        *self.counts().errors.entry(what.to_owned()).or_default() += 1;
    }

    /// Lost acknowledged writes.
    pub(super) fn lost(&self, writes: usize) {
        self.counts().lost_writes += writes;
    }

    /// A connection got a wrong response, or none.
    pub(super) fn fail(&self) {
        self.counts().failed = true;
        self.changed.notify_all();
    }

    /// Waits for `time`, or until a connection fails; returns whether one has.
    pub(super) fn failed_within(&self, time: Duration) -> bool {
        self.wait(time, |counts| counts.failed)
    }

    /// Waits until this many operations are done; returns whether they are.
    pub(super) fn wait_for(&self, operations: u64, time: Duration) -> bool {
        self.wait(time, |counts| counts.operations >= operations || counts.failed)
    }

    fn wait(&self, time: Duration, until: impl Fn(&Counts) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.counts(), time, |c| !until(c));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    pub(super) fn operations(&self) -> u64 {
        self.counts().operations
    }

    pub(super) fn watched(&self, watch: Watch) {
        self.counts().samples = watch.samples;
    }

    fn quarter(&self) -> u32 {
        let passed = self.start.elapsed().as_secs_f64() / self.time.as_secs_f64();
        (passed * 4.0) as u32
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn report(&self, options: &Options, seed: u64) -> Report {
        let counts = self.counts();
        let of = |kinds: &dyn Fn(Kind) -> bool, quarters: std::ops::Range<u32>| {
            let mut sum = histogram();
            for ((kind, quarter), times) in &counts.times {
                if kinds(*kind) && quarters.contains(quarter) {
                    // Both have the same bounds.
                    let _ = sum.add(times);
                }
            }
            Times::of(&sum)
        };
        let mut kinds: Vec<Kind> = counts.times.keys().map(|(kind, _)| *kind).collect();
        kinds.dedup();
        let samples = &counts.samples;
        let last = samples.last().copied();
        let slope = |part: f64, value: fn(&Sample) -> f64| slope_per_minute(samples, part, value);
        Report {
            seed,
            seconds: options.seconds,
            connections: options.connections,
            operations: counts.operations,
            kinds: kinds.iter().map(|kind| (kind.name(), of(&|k| k == *kind, 0..4))).collect(),
            errors: counts.errors.clone(),
            lost_writes: counts.lost_writes,
            p99_ms_first_quarter: of(&|_| true, 0..1).p99_ms,
            p99_ms_last_quarter: of(&|_| true, 3..4).p99_ms,
            rss_mib_peak: samples.iter().map(|sample| sample.rss_mib).fold(0.0, f64::max),
            rss_mib_last: last.map_or(0.0, |sample| sample.rss_mib),
            rss_mib_per_minute: slope(SETTLED, |sample| sample.rss_mib),
            rss_mib_per_minute_second_half: slope(0.5, |sample| sample.rss_mib),
            descriptors_last: last.map_or(0, |sample| sample.descriptors),
            descriptors_per_minute: slope(SETTLED, |sample| sample.descriptors as f64),
            disk_mib_last: last.map_or(0.0, |sample| sample.disk_mib),
            disk_mib_per_minute: slope(SETTLED, |sample| sample.disk_mib),
            samples: samples.clone(),
        }
    }
}

/// From microseconds to minutes, with two significant digits.
#[expect(clippy::expect_used, reason = "the bounds are constant, and good")]
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 2).expect("good bounds")
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Times {
    count: u64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl Times {
    fn of(times: &Histogram<u64>) -> Self {
        let ms = |micros: u64| micros as f64 / 1000.0;
        Self {
            count: times.len(),
            p50_ms: ms(times.value_at_quantile(0.5)),
            p99_ms: ms(times.value_at_quantile(0.99)),
            max_ms: ms(times.max()),
        }
    }
}

/// The figures of one run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    seed: u64,
    seconds: u64,
    connections: usize,
    operations: u64,
    kinds: BTreeMap<&'static str, Times>,
    errors: BTreeMap<String, u64>,
    lost_writes: usize,
    p99_ms_first_quarter: f64,
    p99_ms_last_quarter: f64,
    rss_mib_peak: f64,
    rss_mib_last: f64,
    rss_mib_per_minute: f64,
    rss_mib_per_minute_second_half: f64,
    descriptors_last: usize,
    descriptors_per_minute: f64,
    disk_mib_last: f64,
    disk_mib_per_minute: f64,
    samples: Vec<Sample>,
}

impl Report {
    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:14} {:>9} {:>10} {:>10} {:>10}", "", "count", "p50 ms", "p99 ms", "max ms")?;
        for (name, Times { count, p50_ms, p99_ms, max_ms }) in &self.kinds {
            writeln!(f, "{name:14} {count:9} {p50_ms:10.1} {p99_ms:10.1} {max_ms:10.1}")?;
        }
        writeln!(f, "operations     {}", self.operations)?;
        writeln!(f, "lost writes    {}", self.lost_writes)?;
        match self.errors.is_empty() {
            true => writeln!(f, "errors         none")?,
            false => writeln!(f, "errors         {:?}", self.errors)?,
        }
        let (first, last) = (self.p99_ms_first_quarter, self.p99_ms_last_quarter);
        writeln!(f, "p99            {first:.1} ms in the first quarter, {last:.1} ms in the last")?;
        let (last, peak, slope) = (self.rss_mib_last, self.rss_mib_peak, self.rss_mib_per_minute);
        let half = self.rss_mib_per_minute_second_half;
        write!(f, "memory         {last:.0} MiB, at most {peak:.0}, {slope:+.1} a minute, ")?;
        writeln!(f, "{half:+.2} in the second half")?;
        let (last, slope) = (self.descriptors_last, self.descriptors_per_minute);
        writeln!(f, "descriptors    {last}, {slope:+.1} a minute")?;
        let (last, slope) = (self.disk_mib_last, self.disk_mib_per_minute);
        write!(f, "disk           {last:.0} MiB, {slope:+.1} a minute")
    }
}
