//! A message that a transaction puts into a queue.

use super::step::Step;
use crate::auth::permit::Principal;
use crate::error::{ApiError, ApiResult};
use crate::http::request::RequestContext;
use crate::operation::letters::{ADD, OBJECT};
use crate::queue::messages::read_text;
use crate::queue::parameters::put_times;
use lazuli_engine::Commit;
use lazuli_model::{AccountName, QueueName};
use lazuli_queue::{NewMessage, PutFailure, PutMessage, QueueError, QueueService};
use lazuli_table::{Companion, CompanionCommit};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::{SasError, TableGrant};
use std::sync::{Mutex, PoisonError};

/// Reads the message of a part whose path names `queue`.
pub(super) fn decode(
    context: &RequestContext<'_>,
    step: &Step<'_>,
    queue: &str,
    principal: &Principal<TableGrant>,
) -> ApiResult<NewMessage> {
    if !step.part.method.eq_ignore_ascii_case("POST") {
        let text = "A transaction can put messages into a queue, and nothing else: POST.";
        return Err(ApiError::invalid_input(text));
    }
    permit(principal)?;
    Ok(NewMessage {
        queue: QueueName::parse(queue)?,
        times: put_times(&step.query, context.version)?,
        text: read_text(step.part.body, context.version)?,
    })
}

/// A message needs the account key, or a token for the account with `a` on objects of its queues.
fn permit(principal: &Principal<TableGrant>) -> ApiResult<()> {
    match principal {
        Principal::Owner { .. } => Ok(()),
        Principal::Account(grant) if grant.reaches_queues() => Ok(grant.check(OBJECT, &[ADD])?),
        Principal::Account(_) => Err(SasError::Service.into()),
        Principal::Service(_) | Principal::Bearer(..) => Err(SasError::Permission.into()),
    }
}

/// The messages of a transaction, and their outcome.
pub(super) struct Messages<'a> {
    queues: &'a QueueService,
    account: &'a AccountName,
    messages: Vec<NewMessage>,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
enum Outcome {
    #[default]
    Open,
    Put(Vec<PutMessage>),
    Failed(usize, QueueError),
}

impl<'a> Messages<'a> {
    pub(super) fn new(
        queues: &'a QueueService,
        account: &'a AccountName,
        messages: Vec<NewMessage>,
    ) -> Self {
        Self { queues, account, messages, outcome: Mutex::default() }
    }

    /// The messages that were put, or the index of the one that could not be, and why.
    pub(super) fn ended(self) -> Result<Vec<PutMessage>, (usize, ApiError)> {
        match self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Outcome::Put(puts) => Ok(puts),
            Outcome::Failed(index, error) => Err((index, error.into())),
            Outcome::Open => Err((0, ErrorCode::InternalError.into())),
        }
    }

    /// Whether a message made the transaction fail.
    pub(super) fn failed(&self) -> bool {
        matches!(*self.lock(), Outcome::Failed(..))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Companion for Messages<'_> {
    fn commit(&self, commit: Commit) -> CompanionCommit<'_> {
        Box::pin(async move {
            let put = self.queues.put_with(self.account, &self.messages, commit).await;
            let (outcome, result) = match put {
                Ok((revision, puts)) => (Outcome::Put(puts), Ok(revision)),
                Err(PutFailure::Commit(error)) => (Outcome::Open, Err(Some(error))),
                Err(PutFailure::Message(index, error)) => {
                    (Outcome::Failed(index, error), Err(None))
                }
            };
            *self.lock() = outcome;
            result
        })
    }
}
