//! Metrics that several engines report under the same names.

use crate::{CommitError, EngineError, Revision};
use lazuli_meter::{Counter, Family, Histogram, PerLabel};
use std::future::Future;
use std::time::{Duration, Instant};

lazuli_meter::label! {
    /// The outcome of a commit.
    pub enum CommitOutcome {
        Done => "done",
        CheckFailed => "check_failed",
        Refused => "refused",
        Busy => "busy",
        Undetermined => "undetermined",
        Unavailable => "unavailable",
    }
}

impl CommitOutcome {
    pub fn of(result: &Result<Revision, CommitError>) -> Self {
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

/// Commits by outcome, and how long they took.
#[derive(Debug)]
pub struct CommitMeter {
    outcomes: PerLabel<CommitOutcome, Counter>,
    wait: Histogram,
}

impl Default for CommitMeter {
    fn default() -> Self {
        Self { outcomes: PerLabel::default(), wait: Histogram::of_durations() }
    }
}

impl CommitMeter {
    pub fn committed(&self, result: &Result<Revision, CommitError>, waited: Duration) {
        self.outcomes.of(CommitOutcome::of(result)).increment();
        self.wait.observe_duration(waited);
        lazuli_meter::record_commit(waited);
    }

    pub fn report(&self) -> Vec<Family> {
        let busy = self.outcomes.of(CommitOutcome::Busy);
        vec![
            Family::by("lazuli_commits", "Commits by outcome", "outcome", &self.outcomes),
            Family::of(
                "lazuli_commit_wait_seconds",
                "Duration of a commit, from call to result",
                &self.wait,
            ),
            Family::new("lazuli_busy", "Requests refused with ServerBusy, by exhausted bound")
                .with(vec![("bound", "commit_queue".into())], busy),
        ]
    }
}

lazuli_meter::label! {
    /// A kind of call of an engine whose store is elsewhere.
    pub enum Call {
        Read => "read",
        View => "view",
        Commit => "commit",
        Upkeep => "upkeep",
    }
}

lazuli_meter::label! {
    /// A call whose duration is measured.
    pub enum TimedCall {
        /// Point reads, of one key or several.
        Get => "get",
        Scan => "scan",
        Commit => "commit",
    }
}

lazuli_meter::label! {
    /// Why a call was sent to the store a second time.
    pub enum Retry {
        /// Another commit changed what this one depends on.
        Conflict => "conflict",
        /// The store could not serve it: a broken connection, a region that moved, a lock.
        Store => "store",
    }
}

lazuli_meter::label! {
    /// The outcome found for a commit whose answer was lost.
    pub enum Settled {
        Happened => "happened",
        DidNot => "did_not",
        Undetermined => "undetermined",
    }
}

/// Histogram bounds for the rows of a chunk.
const ROW_BOUNDS: [u64; 9] = [1, 4, 16, 32, 64, 128, 512, 2048, 8192];

/// The metrics of an engine on a store that several processes share (K-8.8).
#[derive(Debug)]
pub struct StoreMeter {
    calls: PerLabel<Call, Counter>,
    seconds: PerLabel<TimedCall, Histogram>,
    retries: PerLabel<Retry, Counter>,
    lost: PerLabel<Settled, Counter>,
    commits: CommitMeter,
    contended: Counter,
    chunk_rows: Histogram,
}

impl Default for StoreMeter {
    fn default() -> Self {
        Self {
            calls: PerLabel::default(),
            seconds: PerLabel::new(Histogram::of_durations),
            retries: PerLabel::default(),
            lost: PerLabel::default(),
            commits: CommitMeter::default(),
            contended: Counter::default(),
            chunk_rows: Histogram::of_numbers(&ROW_BOUNDS),
        }
    }
}

impl StoreMeter {
    pub fn called(&self, call: Call) {
        self.calls.of(call).increment();
    }

    /// Measures how long `work` takes.
    pub async fn timed<T>(&self, call: TimedCall, work: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let result = work.await;
        self.seconds.of(call).observe_duration(began.elapsed());
        result
    }

    pub fn committed(&self, result: &Result<Revision, CommitError>, waited: Duration) {
        self.commits.committed(result, waited);
        self.seconds.of(TimedCall::Commit).observe_duration(waited);
    }

    /// A call is sent again.
    pub fn retried(&self, reason: Retry) {
        self.retries.of(reason).increment();
    }

    /// The outcome of a commit whose answer was lost is known, or stays unknown.
    pub fn settled(&self, settled: Settled) {
        self.lost.of(settled).increment();
    }

    /// A commit left the fast path because other commits conflicted with it.
    pub fn contended(&self) {
        self.contended.increment();
    }

    /// A chunk of a scan has arrived.
    pub fn fetched(&self, rows: usize) {
        self.chunk_rows.observe(rows as u64);
    }

    pub fn report(&self) -> Vec<Family> {
        let mut families = self.commits.report();
        families.extend([
            Family::by("lazuli_store_calls", "Calls of the store, by kind", "call", &self.calls),
            Family::by(
                "lazuli_engine_call_seconds",
                "Duration of calls of the store",
                "call",
                &self.seconds,
            ),
            Family::by(
                "lazuli_engine_retries",
                "Calls that were sent to the store again, by reason",
                "reason",
                &self.retries,
            ),
            Family::by(
                "lazuli_store_lost_answers",
                "Commits whose answer was lost, by what became of them",
                "outcome",
                &self.lost,
            ),
            Family::of(
                "lazuli_store_contended_commits",
                "Commits that queued or locked their rows after conflicts",
                &self.contended,
            ),
            Family::of("lazuli_store_chunk_rows", "Rows per chunk of a scan", &self.chunk_rows),
        ]);
        families
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_meter::Label;

    #[test]
    fn each_result_of_a_commit_has_its_outcome() {
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
}
