//! Commits without functions: how they are sent, and what follows from the answer.

use crate::Store;
use crate::fault::Fault;
use crate::many_writes::ManyWrites;
use crate::one_write::OneWrite;
use crate::patience::Patience;
use crate::pool::Use;
use crate::session::Session;
use crate::settle::{Outcome, Sent};
use crate::statement::Statement;
use lazuli_engine::meter::Retry;
use lazuli_engine::{BoxError, Commit, CommitError, Revision};
use tokio::time::Instant;

/// What the database answers to a commit.
#[derive(Debug)]
pub(crate) enum Answer {
    Done {
        revision: Revision,
        clock: i64,
    },
    GuardFailed {
        index: usize,
        found: Option<Revision>,
    },
    CheckFailed {
        index: usize,
        found: Option<Revision>,
    },
    /// Not done, for a reason that one statement cannot report.
    NotDone,
}

impl Answer {
    pub(crate) fn into_result(self) -> Result<Revision, CommitError> {
        match self {
            Self::Done { revision, .. } => Ok(revision),
            Self::GuardFailed { index, found } => Err(CommitError::GuardFailed { index, found }),
            Self::CheckFailed { index, found } => Err(CommitError::CheckFailed { index, found }),
            // The optimistic loop reads, then reports the reason or commits again.
            Self::NotDone => Err(CommitError::Conflict),
        }
    }
}

/// A commit in the form in which it is sent.
pub(crate) enum Shape<'c> {
    One(OneWrite<'c>),
    Many(ManyWrites<'c>),
}

impl<'c> Shape<'c> {
    /// `revisions` is how many revisions the commit takes; more than one only for a group (`group.rs`).
    pub(crate) fn of(commit: &'c Commit, revisions: u64) -> Self {
        match OneWrite::of(commit) {
            Some(one) => Self::One(one.taking(revisions)),
            None => Self::Many(ManyWrites::of(commit)),
        }
    }

    pub(crate) fn statement(&self) -> Statement {
        match self {
            Self::One(one) => one.statement(),
            Self::Many(_) => Statement::Commit,
        }
    }

    pub(crate) async fn send(
        &self,
        session: &Session,
        id: i64,
        deadline: Instant,
    ) -> Result<Answer, Fault> {
        let answer = match self {
            Self::One(one) => one.send(session, id, deadline).await?,
            Self::Many(many) => many.send(session, id, deadline).await?,
        };
        if let Answer::Done { clock, .. } = answer {
            session.heard_clock(clock);
        }
        Ok(answer)
    }
}

/// The outcome of sending a commit.
pub(crate) enum Tried {
    Done(Result<Revision, CommitError>),
    /// Nothing was done, and sending it again may help.
    Unsent(BoxError),
    /// It may have been done.
    Lost(Sent, BoxError),
}

impl Store {
    /// Commits in one round trip. If the answer is lost, finds out what happened, and commits again if
    /// nothing did (K-5.1). Returns the last of the revisions that it takes.
    pub(crate) async fn commit_once(
        &self,
        commit: &Commit,
        revisions: u64,
        patience: Patience,
    ) -> Result<Revision, CommitError> {
        let (shape, id) = (Shape::of(commit, revisions), self.commit_id());
        let tried = self.try_once(&shape, id, patience).await;
        self.conclude(commit, &shape, id, patience, tried).await
    }

    /// Sends a commit.
    pub(crate) async fn try_once(&self, shape: &Shape<'_>, id: i64, patience: Patience) -> Tried {
        let lease = match self.pool.get(Use::OneStatement, patience.sent_by()).await {
            Ok(lease) => lease,
            Err(error) => return Tried::Done(Err(error.into())),
        };
        let sent = Sent::now(id, &lease);
        match shape.send(&lease, id, patience.deadline()).await {
            Ok(answer) => {
                lease.give_back();
                Tried::Done(answer.into_result())
            }
            Err(Fault::Lost(reason)) => Tried::Lost(sent, reason),
            Err(Fault::Unsent(reason)) => Tried::Unsent(reason),
            Err(fault) => {
                lease.give_back();
                Tried::Done(Err(fault.into_commit_error()))
            }
        }
    }

    /// Continues until the outcome of a commit that was tried is known.
    pub(crate) async fn conclude(
        &self,
        commit: &Commit,
        shape: &Shape<'_>,
        id: i64,
        patience: Patience,
        mut tried: Tried,
    ) -> Result<Revision, CommitError> {
        loop {
            let reason = match tried {
                Tried::Done(done) => return done,
                Tried::Unsent(reason) => reason,
                Tried::Lost(sent, reason) => {
                    match self.settle(commit, &sent, patience, reason).await? {
                        Outcome::Happened(revision) => return Ok(revision),
                        Outcome::DidNot(reason) => reason,
                    }
                }
            };
            if patience.check().is_err() {
                return Err(Fault::Unsent(reason).into_commit_error());
            }
            self.meter.retried(Retry::Store);
            tried = self.try_once(shape, id, patience).await;
        }
    }
}
