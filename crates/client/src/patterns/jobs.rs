//! Eventually consistent transactions (P-3): a message stands for the whole, and a worker does the steps.
//!
//! Two writes that belong together may be in different partitions, tables or accounts, or in a table and a blob. No
//! transaction spans them. Instead, a worker receives a message from a queue, does the steps, each of which may be
//! repeated, and deletes the message last. If the worker does not finish, the message is delivered again.
//!
//! Every job that was sent is finished or ends up in the poison queue. There is no isolation: others see the steps
//! one by one.

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

/// A kind of job: the content of its messages, and what to do.
///
/// A job runs at least once, perhaps several times, perhaps twice concurrently. Everything it does must tolerate
/// that; the steps of [`Run`] do.
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of the kind, the same in all programs that send and run it.
    const KIND: &'static str;

    /// What the worker passes to every run: tables, clients, settings.
    type Context: Send + Sync + 'static;

    /// Does the job.
    fn run(
        &self,
        context: &Self::Context,
        run: &Run,
    ) -> impl Future<Output = Result<(), JobError>> + Send;
}

/// Why a job failed. `?` turns any error into [`JobError::Retry`].
pub enum JobError {
    /// It may succeed later.
    Retry(BoxError),
    /// It can never succeed: the message goes to the poison queue at once.
    Never(String),
}

impl JobError {
    /// It can never succeed, because of `reason`.
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
