//! Eventually consistent transactions (P-3): a message stands for the whole, a worker does the steps.
//!
//! Two writes that belong together may lie in different partitions, tables, accounts, or in a table and a
//! blob. No transaction spans them. A message in a queue does: a worker takes it, does the steps, each of
//! which may be done again, and deletes the message last. What a worker could not finish comes back.
//!
//! Every job that was sent is finished, or lies in the poison queue. There is no isolation: others see the
//! steps one by one.

mod envelope;
mod moved;
mod poison;
mod run;
mod send;
mod worker;

pub use moved::{MoveEntity, MoveOutcome, Seen, get_moved};
pub use poison::{PoisonQueue, PoisonedJob};
pub use run::Run;
pub use send::Jobs;
pub use worker::{WorkReport, Worker};

use crate::BoxError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// A kind of job: what a message holds, and what is done.
///
/// A job runs at least once, perhaps several times, perhaps twice at one time. All that it does must
/// bear that: the steps of [`Run`] do.
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of the kind, the same in all programs that send and run it.
    const KIND: &'static str;

    /// What the worker gives to every run: tables, clients, settings.
    type Context: Send + Sync + 'static;

    /// Does the job.
    fn run(
        &self,
        context: &Self::Context,
        run: &Run,
    ) -> impl Future<Output = Result<(), JobError>> + Send;
}

/// Why a job is not done. Any error turns into [`JobError::Retry`] by `?`.
pub enum JobError {
    /// It may work later.
    Retry(BoxError),
    /// It never will: the message goes to the poison queue at once.
    Never(String),
}

impl JobError {
    /// It never will, because of `reason`.
    pub fn never(reason: impl Into<String>) -> Self {
        Self::Never(reason.into())
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for JobError {
    fn from(error: E) -> Self {
        Self::Retry(error.into())
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(error) => write!(f, "{error:#}"),
            Self::Never(reason) => f.write_str(reason),
        }
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(error) => f.debug_tuple("Retry").field(error).finish(),
            Self::Never(reason) => f.debug_tuple("Never").field(reason).finish(),
        }
    }
}
