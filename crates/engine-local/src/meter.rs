//! What the engine measures of itself.

use lazuli_engine::{CommitError, EngineError, Revision};
use lazuli_meter::{Counter, Family, Histogram, PerLabel, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

lazuli_meter::label! {
    /// What became of a commit.
    enum CommitOutcome {
        Done => "done",
        CheckFailed => "check_failed",
        Refused => "refused",
        Busy => "busy",
        Undetermined => "undetermined",
        Unavailable => "unavailable",
    }
}

impl CommitOutcome {
    fn of(result: &Result<Revision, CommitError>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(CommitError::CheckFailed { .. } | CommitError::GuardFailed { .. }) => {
                Self::CheckFailed
            }
            Err(CommitError::Busy | CommitError::Conflict) => Self::Busy,
            Err(CommitError::Undetermined(_)) => Self::Undetermined,
            Err(CommitError::Engine(EngineError::Unavailable(_))) => Self::Unavailable,
            Err(_) => Self::Refused,
        }
    }
}

/// Bounds of the number of commits that share a sync.
const GROUP_BOUNDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// What is measured of an engine. It outlives the engine, which may be reopened.
pub struct EngineMeter {
    commits: PerLabel<CommitOutcome, Counter>,
    commit_wait: Histogram,
    group_commits: Histogram,
    sync: Histogram,
    flushes: Counter,
    /// Snapshots that are still held though a newer one is published, by when that was.
    views: Mutex<BTreeMap<Instant, usize>>,
}

impl Default for EngineMeter {
    fn default() -> Self {
        Self {
            commits: PerLabel::default(),
            commit_wait: Histogram::of_durations(),
            group_commits: Histogram::of_numbers(&GROUP_BOUNDS),
            sync: Histogram::of_durations(),
            flushes: Counter::default(),
            views: Mutex::default(),
        }
    }
}

impl fmt::Debug for EngineMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineMeter(..)")
    }
}

impl EngineMeter {
    pub(crate) fn committed(&self, result: &Result<Revision, CommitError>, waited: Duration) {
        self.commits.of(CommitOutcome::of(result)).increment();
        self.commit_wait.observe_duration(waited);
    }

    pub(crate) fn grouped(&self, commits: usize) {
        self.group_commits.observe(commits as u64);
    }

    pub(crate) fn synced(&self, took: Duration) {
        self.sync.observe_duration(took);
    }

    pub(crate) fn flushing(&self) {
        self.flushes.increment();
    }

    /// A snapshot was replaced by a newer one.
    pub(crate) fn view_replaced(&self, when: Instant) {
        *self.views().entry(when).or_default() += 1;
    }

    /// A snapshot that was replaced is no longer held.
    pub(crate) fn view_dropped(&self, replaced: Instant) {
        let mut views = self.views();
        if let Some(count) = views.get_mut(&replaced) {
            *count -= 1;
            if *count == 0 {
                views.remove(&replaced);
            }
        }
    }

    fn views(&self) -> MutexGuard<'_, BTreeMap<Instant, usize>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn report(&self) -> Vec<Family> {
        let views = self.views();
        let open: usize = views.values().sum();
        let oldest = views.keys().next().map_or(0.0, |replaced| replaced.elapsed().as_secs_f64());
        drop(views);
        let busy = self.commits.of(CommitOutcome::Busy);
        vec![
            Family::by(
                "lazuli_commits",
                "Commits by what became of them",
                "outcome",
                &self.commits,
            ),
            Family::of(
                "lazuli_commit_wait_seconds",
                "From the call of a commit to its answer",
                &self.commit_wait,
            ),
            Family::of(
                "lazuli_commit_group_commits",
                "Commits that were written together",
                &self.group_commits,
            ),
            Family::of("lazuli_sync_seconds", "Writing and syncing one group", &self.sync),
            Family::of("lazuli_flushes", "Write buffers handed over to be flushed", &self.flushes),
            Family::new("lazuli_busy", "Requests refused with ServerBusy, by the bound they met")
                .with(vec![("bound", "commit_queue".into())], busy),
            Family::of(
                "lazuli_views_open",
                "Snapshots still held though a newer one is published",
                &Value::Gauge(open as f64),
            ),
            Family::of(
                "lazuli_oldest_view_seconds",
                "How long ago the oldest of them was replaced",
                &Value::Gauge(oldest),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_meter::Label;

    #[test]
    fn outcomes_of_commits_are_told_apart() {
        let check = |error: CommitError, expect: &str| {
            assert_eq!(CommitOutcome::of(&Err(error)).name(), expect);
        };
        assert_eq!(CommitOutcome::of(&Ok(Revision(1))).name(), "done");
        check(CommitError::CheckFailed { index: 0, found: None }, "check_failed");
        check(CommitError::Busy, "busy");
        check(CommitError::Undetermined("lost".into()), "undetermined");
        check(EngineError::Unavailable("closed".into()).into(), "unavailable");
        check(CommitError::TooLarge { what: "x", max: 1, got: 2 }, "refused");
    }

    #[test]
    fn views_are_open_from_their_replacement_to_their_end() {
        let meter = EngineMeter::default();
        let when = Instant::now();
        meter.view_replaced(when);
        meter.view_replaced(when);
        meter.view_dropped(when);
        assert_eq!(meter.views().values().sum::<usize>(), 1);
        meter.view_dropped(when);
        assert!(meter.views().is_empty());
    }
}
