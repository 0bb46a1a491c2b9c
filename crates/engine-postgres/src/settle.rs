//! Commits whose answer was lost: finds out whether they happened (K-5.3, K-7.12).
//!
//! Rows carry the id of the commit that wrote them, deleted rows too. So once the session that sent the
//! commit is gone, the rows decide: a row with the id means that it happened; a row that is missing, or
//! older than the commit could have made it, means that it did not.

use crate::Store;
use crate::expected::revision;
use crate::fault::Fault;
use crate::patience::Patience;
use crate::pool::{Lease, Use};
use crate::session::{Backend, Parameters};
use crate::statement::Statement;
use crate::stored::StoredKey;
use lazuli_engine::meter::Settled;
use lazuli_engine::{BoxError, Commit, CommitError, Expect, Key, Revision, Write};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Maximum keys of a commit to look at. One shows whether it happened; several, because others may have
/// overwritten the first.
const KEYS_MAX: usize = 64;

/// Pause before checking for the old session again.
const GONE_PAUSE: Duration = Duration::from_millis(10);

/// The same if it waits for a standby.
const STANDBY_PAUSE: Duration = Duration::from_millis(100);

/// A session that still waits for a standby so long before the end is terminated. If it stayed, such sessions
/// would use up the connections of the database.
const STANDBY_GIVEN_UP: Duration = Duration::from_secs(1);

/// What is known of a commit that was sent.
pub(crate) struct Sent {
    pub(crate) id: i64,
    /// The database's clock before the commit was sent.
    pub(crate) clock: i64,
    /// When that was.
    pub(crate) at: Instant,
    pub(crate) backend: Backend,
}

impl Sent {
    /// About to be sent on `lease`.
    pub(crate) fn now(id: i64, lease: &Lease) -> Self {
        Self { id, clock: lease.clock(), at: Instant::now(), backend: lease.backend }
    }

    /// The lowest revision that the commit can have, if the database's clock was `now` at some time between
    /// `asked` and `answered`. If it was set back since the commit was sent, that may have been before the
    /// commit was done.
    fn lowest(&self, now: i64, asked: Instant, answered: Instant) -> i64 {
        let was = |at: Instant| now.saturating_sub(ticks(at.saturating_duration_since(self.at)));
        if was(asked) < self.clock { was(answered) } else { self.clock }
    }
}

fn ticks(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos() / 100).unwrap_or(i64::MAX)
}

/// What became of the commit.
pub(crate) enum Outcome {
    Happened(Revision),
    /// With the reason for the lost answer.
    DidNot(BoxError),
}

impl Store {
    /// Finds out what became of a commit; `reason` is why its answer was lost.
    pub(crate) async fn settle(
        &self,
        commit: &Commit,
        sent: &Sent,
        patience: Patience,
        reason: BoxError,
    ) -> Result<Outcome, CommitError> {
        let deadline = patience.settled_by();
        loop {
            let lease = match self.pool.get(Use::OneStatement, deadline).await {
                Ok(lease) => lease,
                Err(_) => return Err(self.undetermined(reason)),
            };
            // Another connection may answer when this one does not.
            let first = self.patience().first().min(deadline);
            let is_last = Instant::now() + STANDBY_GIVEN_UP >= deadline;
            match look(&lease, commit, sent, is_last, first).await {
                Ok(Some(revision)) => {
                    lease.give_back();
                    self.meter.settled(Settled::Happened);
                    return Ok(Outcome::Happened(revision));
                }
                Ok(None) => {
                    lease.give_back();
                    self.meter.settled(Settled::DidNot);
                    return Ok(Outcome::DidNot(reason));
                }
                Err(Look::CannotTell) => {
                    lease.give_back();
                    return Err(self.undetermined(reason));
                }
                Err(Look::WaitsForStandby) => {
                    lease.give_back();
                    sleep(STANDBY_PAUSE).await;
                }
                // Looking is safe to repeat.
                Err(Look::Failed) if Instant::now() < deadline => drop(lease),
                Err(Look::Failed) => return Err(self.undetermined(reason)),
            }
        }
    }

    fn undetermined(&self, reason: BoxError) -> CommitError {
        self.meter.settled(Settled::Undetermined);
        CommitError::Undetermined(reason)
    }
}

enum Look {
    CannotTell,
    /// The commit happens when a standby has it.
    WaitsForStandby,
    /// The look itself failed.
    Failed,
}

impl From<Fault> for Look {
    fn from(_: Fault) -> Self {
        Self::Failed
    }
}

/// The revision of the commit if it happened. `is_last`: there is no time to look again.
async fn look(
    lease: &Lease,
    commit: &Commit,
    sent: &Sent,
    is_last: bool,
    deadline: Instant,
) -> Result<Option<Revision>, Look> {
    wait_until_gone(lease, sent.backend, is_last, deadline).await?;
    let written: Vec<&Key> = commit.writes.iter().filter_map(Write::key).take(KEYS_MAX).collect();
    if written.is_empty() {
        // Without writes there is nothing to lose; appends alone leave no key to look for.
        return if commit.writes.is_empty() { Ok(None) } else { Err(Look::CannotTell) };
    }
    let keys: Vec<StoredKey<'_>> = written.iter().map(|key| StoredKey::from(*key)).collect();
    let (k, d): (Vec<&[u8]>, Vec<&[u8]>) = keys.iter().map(|key| (key.k, key.d())).unzip();
    let asked = Instant::now();
    let rows = lease.query(Statement::Marks, &[&k, &d], deadline).await?;
    let mut did_not = rows.len() < written.len();
    let Some(now) = rows.first().map(|row| row.get(3)) else { return Ok(None) };
    lease.heard_clock(now);
    let lowest = sent.lowest(now, asked, Instant::now());
    for row in &rows {
        let (place, r, id): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        if id == sent.id {
            return Ok(Some(revision(r)));
        }
        let key = usize::try_from(place - 1).ok().and_then(|place| written.get(place));
        did_not |= r < lowest || key.is_some_and(|key| is_unchanged(commit, key, r));
    }
    if did_not { Ok(None) } else { Err(Look::CannotTell) }
}

/// Whether a key still has the revision that the commit required in order to change it.
fn is_unchanged(commit: &Commit, key: &Key, r: i64) -> bool {
    let unchanged = Expect::At(revision(r));
    commit.checks.iter().any(|check| check.key == *key && check.expect == unchanged)
}

/// Ends the session that sent the commit, if it still exists, so that the commit cannot happen late.
async fn wait_until_gone(
    lease: &Lease,
    backend: Backend,
    is_last: bool,
    deadline: Instant,
) -> Result<(), Look> {
    let parameters: Parameters<'_> = &[&backend.pid, &backend.started_us, &is_last];
    loop {
        let rows = lease.query(Statement::Terminate, parameters, deadline).await?;
        match (rows.first().map(|row| row.get(0)), is_last) {
            (None, _) => return Ok(()),
            (Some(true), true) => return Err(Look::CannotTell),
            (Some(true), false) => return Err(Look::WaitsForStandby),
            (Some(false), _) => sleep(GONE_PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 10_000_000;

    /// K-5.3: what is certainly older than the commit proves that it was not done, whatever the clock does.
    #[test]
    fn a_clock_that_is_set_back_lowers_what_the_commit_can_have() {
        let at = Instant::now();
        let backend = Backend { pid: 1, started_us: 1 };
        let sent = Sent { id: 1, clock: 1_000 * SECOND, at, backend };
        let after = |seconds| at + Duration::from_secs(seconds);
        // What was heard of the clock was half a second old, and the answer takes two.
        let lowest = |now| sent.lowest(now, after(3), after(5));
        assert_eq!(lowest(1_004 * SECOND), sent.clock);
        assert_eq!(lowest(1_003 * SECOND), sent.clock);
        // Set back by 100 s, at once: a commit that was done at once has a revision of 900 s or more.
        assert_eq!(lowest(904 * SECOND), 899 * SECOND);
        // By two seconds. The clock has caught up with what it was.
        assert_eq!(lowest(1_002 * SECOND), 997 * SECOND);
    }
}
