//! Watches the server's process from outside: memory, descriptors, disk.

use super::figures::Figures;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Watch {
    pid: u32,
    data: PathBuf,
    pub(super) samples: Vec<Sample>,
}

/// The process at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) rss_mib: f64,
    pub(super) descriptors: usize,
    pub(super) disk_mib: f64,
}

impl Watch {
    pub(super) fn new(pid: u32, data: &Path) -> Self {
        Self { pid, data: data.to_owned(), samples: Vec::new() }
    }

    /// Watches for some time, or until a connection fails.
    pub(super) fn run(&mut self, figures: &Figures, time: Duration) -> Result<()> {
        let start = Instant::now();
        while let Some(left) = time.checked_sub(start.elapsed()) {
            let seconds = start.elapsed().as_secs_f64();
            self.samples.push(self.sample(seconds).context("sample the server's process")?);
            ensure!(!figures.failed_within(left.min(INTERVAL)), "a connection failed");
        }
        Ok(())
    }

    fn sample(&self, seconds: f64) -> Result<Sample> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        Ok(Sample {
            seconds,
            rss_mib: kib.context("no VmRSS in /proc")? / 1024.0,
            descriptors: fs::read_dir(format!("/proc/{}/fd", self.pid))?.count(),
            disk_mib: bytes_below(&self.data) as f64 / (1024.0 * 1024.0),
        })
    }
}

/// Files that are removed during the walk count as zero.
fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

/// The growth of `value` per minute, by linear regression over the samples after this `part` of the
/// time, because caches and buffers fill at first.
pub(super) fn slope_per_minute(
    samples: &[Sample],
    part: f64,
    value: impl Fn(&Sample) -> f64,
) -> f64 {
    let settled = samples.get((samples.len() as f64 * part) as usize..).unwrap_or_default();
    let count = settled.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Sample) -> f64| settled.iter().map(of).sum::<f64>() / count;
    let (mean_time, mean_value) = (mean(&|sample| sample.seconds), mean(&value));
    let (mut along, mut spread) = (0.0, 0.0);
    for sample in settled {
        let time = sample.seconds - mean_time;
        along += time * (value(sample) - mean_value);
        spread += time * time;
    }
    if spread == 0.0 { 0.0 } else { 60.0 * along / spread }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rss: impl Fn(f64) -> f64, expected: f64) {
        let sample = |second: u32| {
            let seconds = f64::from(second);
            Sample { seconds, rss_mib: rss(seconds), descriptors: 0, disk_mib: 0.0 }
        };
        let samples: Vec<_> = (0..100).map(sample).collect();
        let slope = slope_per_minute(&samples, 0.25, |sample| sample.rss_mib);
        assert!((slope - expected).abs() < 1e-6, "{slope}");
    }

    #[test]
    fn a_slope_is_what_is_gained_in_a_minute_once_settled() {
        check(|_| 100.0, 0.0);
        check(|second| 100.0 + second, 60.0);
        check(|second| if second < 25.0 { second } else { 7.0 }, 0.0);
    }

    #[test]
    fn too_few_samples_have_no_slope() {
        assert_eq!(slope_per_minute(&[], 0.5, |sample| sample.rss_mib), 0.0);
    }
}
