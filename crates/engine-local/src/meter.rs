//! The engine's metrics.

use crate::view::Snapshot;
use lazuli_engine::meter::CommitMeter;
use lazuli_engine::{CommitError, Revision};
use lazuli_meter::{Counter, Family, Histogram, Value};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Histogram bounds for the number of commits per sync.
const GROUP_BOUNDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Replaced snapshots that may be listed before unused ones are removed.
const REPLACED_MAX: usize = 1024;

/// The metrics of an engine. They outlive the engine, which may be reopened.
pub struct EngineMeter {
    commits: CommitMeter,
    group_commits: Histogram,
    sync: Histogram,
    flushes: Counter,
    /// Snapshots that a newer one has replaced, oldest first; some may no longer be held.
    replaced: Mutex<VecDeque<Weak<Snapshot>>>,
}

impl Default for EngineMeter {
    fn default() -> Self {
        Self {
            commits: CommitMeter::default(),
            group_commits: Histogram::of_numbers(&GROUP_BOUNDS),
            sync: Histogram::of_durations(),
            flushes: Counter::default(),
            replaced: Mutex::default(),
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
        self.commits.committed(result, waited);
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

    /// A newer snapshot is published.
    pub(crate) fn view_replaced(&self, snapshot: &Arc<Snapshot>) {
        let mut replaced = self.replaced();
        if replaced.len() >= REPLACED_MAX {
            replaced.retain(is_held);
        }
        while replaced.front().is_some_and(|oldest| !is_held(oldest)) {
            replaced.pop_front();
        }
        replaced.push_back(Arc::downgrade(snapshot));
    }

    /// How many replaced snapshots are still held, and when the oldest of them was replaced.
    fn held_views(&self) -> (usize, Option<Instant>) {
        let replaced = self.replaced();
        let held = replaced.iter().filter_map(Weak::upgrade);
        held.fold((0, None), |(count, oldest), snapshot| {
            (count + 1, oldest.or_else(|| snapshot.replaced()))
        })
    }

    fn replaced(&self) -> MutexGuard<'_, VecDeque<Weak<Snapshot>>> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn report(&self) -> Vec<Family> {
        let (open, oldest) = self.held_views();
        let oldest = oldest.map_or(0.0, |replaced| replaced.elapsed().as_secs_f64());
        let mut families = self.commits.report();
        families.extend([
            Family::of("lazuli_commit_group_commits", "Commits per group", &self.group_commits),
            Family::of("lazuli_sync_seconds", "Time to write and sync one group", &self.sync),
            Family::of("lazuli_flushes", "Write buffer flushes", &self.flushes),
            Family::of(
                "lazuli_views_open",
                "Snapshots held after a newer one was published",
                &Value::Gauge(open as f64),
            ),
            Family::of(
                "lazuli_oldest_view_seconds",
                "Age of the oldest of them since it was replaced",
                &Value::Gauge(oldest),
            ),
        ]);
        families
    }
}

fn is_held(snapshot: &Weak<Snapshot>) -> bool {
    snapshot.strong_count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalEngine, LocalOptions};
    use lazuli_engine::{Commit, Engine, Key, Write};

    #[tokio::test]
    async fn views_are_open_from_their_replacement_to_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let options = LocalOptions::default();
        let meter = options.meter.clone();
        let engine = LocalEngine::open(dir.path(), options).unwrap();
        let put = || {
            let writes = vec![Write::Put(Key::from(b"Lk".to_vec()), "value".into())];
            engine.commit(Commit::new(Revision(0), writes))
        };
        let view = engine.view().await.unwrap();
        assert_eq!(meter.held_views(), (0, None));
        put().await.unwrap();
        put().await.unwrap();
        let (open, oldest) = meter.held_views();
        assert_eq!((open, oldest.is_some()), (1, true));
        drop(view);
        assert_eq!(meter.held_views(), (0, None));
    }
}
