//! Commits whose answer was lost: whether they happened (K-5.3, K-7.12).
//!
//! Rows carry the id of the commit that wrote them, also deleted ones. So once the session that sent the
//! commit is gone, the rows tell: one with the id means that it happened; one that is older than the commit
//! could have made it, or that is missing, means that it did not.

use crate::Store;
use crate::expected::revision;
use crate::fault::Fault;
use crate::patience::Patience;
use crate::pool::{Lease, Use};
use crate::session::Backend;
use crate::statement::Statement;
use crate::stored::StoredKey;
use lazuli_engine::meter::Settled;
use lazuli_engine::{BoxError, Commit, CommitError, Expect, Key, Revision, Write};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Keys of a commit that are looked at. One tells if it happened; several, because others may have written
/// the first meanwhile.
const KEYS_MAX: usize = 64;

/// Pause until the old session is looked for again.
const GONE_PAUSE: Duration = Duration::from_millis(10);

/// What is known of a commit that was sent.
pub(crate) struct Sent {
    pub(crate) id: i64,
    /// The database's clock before the commit was sent: its revision is not lower.
    pub(crate) clock: i64,
    pub(crate) backend: Backend,
}

impl Sent {
    /// About to be sent on `lease`.
    pub(crate) fn now(id: i64, lease: &Lease) -> Self {
        Self { id, clock: lease.clock(), backend: lease.backend }
    }
}

/// What became of it.
pub(crate) enum Outcome {
    Happened(Revision),
    /// With the reason why the answer was lost.
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
            match look(&lease, commit, sent, first).await {
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
                // Looking may be done again.
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
    /// The look itself failed.
    Failed,
}

impl From<Fault> for Look {
    fn from(_: Fault) -> Self {
        Self::Failed
    }
}

/// The revision of the commit if it happened.
async fn look(
    lease: &Lease,
    commit: &Commit,
    sent: &Sent,
    deadline: Instant,
) -> Result<Option<Revision>, Look> {
    wait_until_gone(lease, sent.backend, deadline).await?;
    let written: Vec<&Key> = commit.writes.iter().filter_map(Write::key).take(KEYS_MAX).collect();
    if written.is_empty() {
        // Without writes there is nothing to lose; appends alone leave no key to look for.
        return if commit.writes.is_empty() { Ok(None) } else { Err(Look::CannotTell) };
    }
    let keys: Vec<StoredKey<'_>> = written.iter().map(|key| StoredKey::from(*key)).collect();
    let (k, d): (Vec<&[u8]>, Vec<&[u8]>) = keys.iter().map(|key| (key.k, key.d())).unzip();
    let rows = lease.query(Statement::Marks, &[&k, &d], deadline).await?;
    let mut did_not = rows.len() < written.len();
    if let Some(row) = rows.first() {
        lease.heard_clock(row.get(3));
    }
    for row in &rows {
        let (place, r, id): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        if id == sent.id {
            return Ok(Some(revision(r)));
        }
        let key = usize::try_from(place - 1).ok().and_then(|place| written.get(place));
        did_not |= r < sent.clock || key.is_some_and(|key| is_unchanged(commit, key, r));
    }
    if did_not { Ok(None) } else { Err(Look::CannotTell) }
}

/// Whether a key still has the revision on whose condition the commit would have changed it.
fn is_unchanged(commit: &Commit, key: &Key, r: i64) -> bool {
    let unchanged = Expect::At(revision(r));
    commit.checks.iter().any(|check| check.key == *key && check.expect == unchanged)
}

/// Ends the session that sent the commit, if it is still there: from then on the commit cannot happen late.
async fn wait_until_gone(lease: &Lease, backend: Backend, deadline: Instant) -> Result<(), Fault> {
    loop {
        let parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&backend.pid, &backend.started_us];
        if lease.query(Statement::Terminate, parameters, deadline).await?.is_empty() {
            return Ok(());
        }
        sleep(GONE_PAUSE).await;
    }
}
