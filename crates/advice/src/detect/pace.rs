//! Distribution of traffic over time: ADV-20.

use crate::stored::stored;
use crate::{Code, Findings, Sample, Thresholds};
use std::collections::VecDeque;

/// The number of minutes remembered.
const MINUTES_MAX: usize = 60;
/// Minutes needed for a median to compare with.
const MINUTES_MIN: usize = 10;
/// The least requests in a minute that can be a spike.
const SPIKE_MIN: u64 = 1000;

#[derive(Debug, Default)]
pub(super) struct Pace {
    minute: u64,
    count: u64,
    past: VecDeque<u64>,
}

stored!(Pace { minute, count, past });

impl Pace {
    pub(super) fn observe(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        self.pass(sample, thresholds, findings);
        self.count += 1;
    }

    /// Closes the minutes that have ended by the time of `sample`.
    pub(super) fn pass(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let minute = sample.second() / 60;
        if minute > self.minute {
            if self.minute != 0 {
                self.close(self.count, sample, thresholds, findings);
                // Minutes without traffic count too.
                for _ in 0..(minute - self.minute - 1).min(MINUTES_MAX as u64) {
                    self.close(0, sample, thresholds, findings);
                }
            }
            (self.minute, self.count) = (minute, 0);
        }
    }

    /// Compares a minute that has ended with those before it.
    fn close(
        &mut self,
        count: u64,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        if self.past.len() >= MINUTES_MIN && count >= SPIKE_MIN {
            let mut sorted: Vec<u64> = self.past.iter().copied().collect();
            sorted.sort_unstable();
            let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0).max(1);
            if count >= median.saturating_mul(thresholds.spike) {
                findings.report(Code::Spikes, sample, "", || {
                    format!("{count} requests in a minute, {median} in the median one")
                });
            }
        }
        if self.past.len() >= MINUTES_MAX {
            self.past.pop_front();
        }
        self.past.push_back(count);
    }
}
