//! Entity group transactions: parts in, one commit, parts out.

mod queue_message;
mod queue_target;
mod step;

use crate::auth::permit::Principal;
use crate::error::{ApiError, ApiResult, Stage};
use crate::http::answer_memory::AnswerMemory;
use crate::http::extensions::Used;
use crate::http::reply::{Reply, Work};
use crate::http::request::RequestContext;
use crate::queue::messages::put_reply;
use crate::table::api::TableApi;
use crate::table::asked::Asked;
use crate::table::batch_answer::{self, Answered, PART_BYTES_EXPECTED};
use crate::table::call::Call;
use crate::table::error_reply::{ErrorForm, error_reply};
use crate::table::faults;
use crate::table::handlers;
use crate::table::mutations;
use crate::table::operation::Operation;
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use lazuli_model::{EntityError, TableName, Timestamp};
use lazuli_queue::NewMessage;
use lazuli_table::{Batch, BatchFailure, Companion, Mutation, TableError};
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::multipart::{self, BatchBody, Part};
use lazuli_wire::sas::TableGrant;
use queue_message::Messages;
use step::Step;

/// Expected ratio of response to body size: an inserted entity is echoed with annotations, and its
/// keys appear escaped in several URIs.
const ANSWER_TO_BODY_EXPECTED: usize = 4;

/// Runs a batch: one change set, or one query.
pub(crate) async fn handle(
    api: &TableApi,
    answers: &AnswerMemory,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    principal: &Principal<TableGrant>,
) -> ApiResult<Reply> {
    let malformed = || ApiError::invalid_input(message::INPUT_NOT_VALID);
    let content_type = call.headers.content_type.unwrap_or_default();
    let boundary = multipart::boundary(content_type).ok_or_else(malformed)?;
    match multipart::parse_batch(call.body, boundary).map_err(|_| malformed())? {
        BatchBody::ChangeSet(parts) => {
            let bytes =
                ANSWER_TO_BODY_EXPECTED * call.body.len() + PART_BYTES_EXPECTED * parts.len();
            answers.hold(bytes, answer_changes(api, context, call, &parts, principal)).await
        }
        BatchBody::Query(_) if is_any(call) => {
            Err(ApiError::invalid_input("A transaction over partitions and tables has no queries."))
        }
        BatchBody::Query(part) => {
            answers.hold_page(answer_query(api, context, call, &part, principal)).await
        }
    }
}

async fn answer_changes(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    parts: &[Part<'_>],
    principal: &Principal<TableGrant>,
) -> ApiResult<Reply> {
    let (steps, unnamed) = resolve_all(context, call, parts);
    let changed = match is_any(call) {
        true => change_any(api, context, &steps, unnamed, principal).await,
        false => change(api, context, &steps, unnamed, principal).await,
    };
    let answers = match changed {
        Ok(answers) => answers,
        // A batch that was not executed is refused as a whole.
        Err(fault) if fault.error.code == ErrorCode::ServerBusy => return Err(fault.error),
        Err(fault) => {
            fault.error.log(context.id, Operation::EntityGroupTransaction.facts().name);
            vec![fault.reply(context, &steps, parts.len())]
        }
    };
    let work = Work { operations: parts.len() as u32, ..Work::default() };
    let mut reply = Reply { work, ..batch_answer::reply(context, &answers, true) };
    if is_any(call) {
        Used::also(&mut reply, "transaction");
    }
    Ok(reply)
}

/// Whether the transaction may span partitions and tables.
fn is_any(call: &Call<'_>) -> bool {
    call.asked.is_some_and(|asked| asked.any_transaction)
}

/// Decodes every operation, applies them atomically whatever they address, and builds a reply for each.
async fn change_any<'a>(
    api: &TableApi,
    context: &RequestContext<'_>,
    steps: &[Step<'a>],
    unnamed: Option<Fault>,
    principal: &Principal<TableGrant>,
) -> Result<Vec<Answered<'a>>, Fault> {
    let decoded = decode_any(api, context, steps, principal).await;
    let AnyDecoded { mutations, places, messages, message_places, fault } = decoded;
    if let Some(fault) = fault.or(unnamed) {
        return Err(fault);
    }
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    if steps.len() > BATCH_OPERATIONS_MAX {
        let index = BATCH_OPERATIONS_MAX - 1;
        return Err(Fault { index, error: TableError::TooManyOperations.into() });
    }
    let place = |places: &[usize], index: usize| places.get(index).copied().unwrap_or(0);
    for (index, (table, mutation)) in mutations.iter().enumerate() {
        let admitted = handlers::admit(api, context, table, mutation.key(), 1);
        admitted.map_err(|error| Fault { index: place(&places, index), error })?;
    }
    let account = &context.account.name;
    let joined = match (&api.queues, message_places.first()) {
        (_, None) => None,
        (Some(queues), Some(_)) => Some(Messages::new(queues, account, messages)),
        (None, Some(index)) => {
            let error =
                ApiError::with_text(ErrorCode::NotImplemented, "This server has no queues.");
            return Err(Fault { index: *index, error });
        }
    };
    let companion = joined.as_ref().map(|joined| joined as &dyn Companion);
    let applied = api.tables.transact_any(account, &mutations, companion).await;
    let applied = applied.map_err(Fault::from);
    let puts = match joined {
        Some(joined) if applied.is_ok() || joined.failed() => joined
            .ended()
            .map_err(|(index, error)| Fault { index: place(&message_places, index), error })?,
        _ => Vec::new(),
    };
    if api.advice.is_open() {
        let changes = mutations.iter().map(|(table, mutation)| (*table, mutation));
        let of_entities = steps.iter().filter(|step| step.queue.is_none());
        note(api, context, of_entities, changes, applied.as_ref().err());
    }
    let at_place = |fault: Fault| Fault { index: place(&places, fault.index), ..fault };
    let timestamp = applied.map_err(at_place)?;
    let (mut changes, mut puts) = (mutations.iter(), puts.iter());
    let answer = |(index, step): (usize, &Step<'a>)| {
        let failed = |error| Fault { index, error };
        // A step that is neither has already been refused.
        let missing = || failed(ErrorCode::InternalError.into());
        if step.queue.is_some() {
            let put = puts.next().ok_or_else(missing)?;
            return Ok(step.answered(put_reply(put, context.version)));
        }
        let (table, mutation) = changes.next().ok_or_else(missing)?;
        let (operation, resource) = step.request.as_ref().ok_or_else(missing)?;
        let call = step.call(*operation, resource);
        let reply = mutations::reply(context, &call, table, mutation, timestamp);
        Ok(step.answered(reply.map_err(failed)?))
    };
    steps.iter().enumerate().map(answer).collect()
}

/// The operations of a transaction across partitions and tables, up to the first invalid one.
#[derive(Default)]
struct AnyDecoded<'s> {
    mutations: Vec<(&'s TableName, Mutation<'s>)>,
    /// The part indexes of the mutations.
    places: Vec<usize>,
    messages: Vec<NewMessage>,
    /// The part indexes of the messages.
    message_places: Vec<usize>,
    fault: Option<Fault>,
}

async fn decode_any<'s>(
    api: &TableApi,
    context: &RequestContext<'_>,
    steps: &'s [Step<'_>],
    principal: &Principal<TableGrant>,
) -> AnyDecoded<'s> {
    let mut decoded = AnyDecoded::default();
    for (index, step) in steps.iter().enumerate() {
        if let Some(queue) = step.queue {
            match queue_message::decode(context, step, queue, principal) {
                Ok(message) => {
                    decoded.messages.push(message);
                    decoded.message_places.push(index);
                }
                Err(error) => return AnyDecoded { fault: Some(Fault { index, error }), ..decoded },
            }
            continue;
        }
        let Some((operation, resource)) = &step.request else { break };
        match decode(context, &step.call(*operation, resource), principal) {
            Ok(mutation) => {
                decoded.mutations.push(mutation);
                decoded.places.push(index);
            }
            Err(error) => {
                let error = mutations::check_table_first(api, context, resource, error).await;
                return AnyDecoded { fault: Some(Fault { index, error }), ..decoded };
            }
        }
    }
    decoded
}

async fn answer_query(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    part: &Part<'_>,
    principal: &Principal<TableGrant>,
) -> ApiResult<Reply> {
    let (step, named) = Step::read(context, call, part, None);
    let outcome = match named {
        Ok(()) => query(api, context, &step, principal).await,
        Err(error) => Err(error),
    };
    let reply = match outcome {
        Ok(reply) => reply,
        // A failed query names its index even though it is the only part (T-6.55).
        Err(error) => {
            error.log(context.id, Operation::EntityGroupTransaction.facts().name);
            step.error_reply(context, &error, Some(0))
        }
    };
    let (work, used) = (reply.work, Used::header_of(&reply));
    Ok(Reply {
        work,
        more: used.into_iter().collect(),
        ..batch_answer::reply(context, &[step.answered(reply)], false)
    })
}

/// Parses the parts of a change set, up to and including the first that names no operation.
fn resolve_all<'a>(
    context: &RequestContext<'_>,
    batch: &Call<'a>,
    parts: &'a [Part<'a>],
) -> (Vec<Step<'a>>, Option<Fault>) {
    let mut steps = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        let (step, outcome) = Step::read(context, batch, part, steps.last());
        steps.push(step);
        if let Err(error) = outcome {
            return (steps, Some(Fault { index, error }));
        }
    }
    (steps, None)
}

/// The first operation that failed, and why.
struct Fault {
    index: usize,
    error: ApiError,
}

impl Fault {
    /// In a change set of one operation, an execution error has no index (T-6.39, T-6.40).
    fn reply<'a>(
        &self,
        context: &RequestContext<'_>,
        steps: &[Step<'a>],
        operations: usize,
    ) -> Answered<'a> {
        let lone_at_execution = operations == 1 && self.error.stage == Stage::Execution;
        let index = (!lone_at_execution).then_some(self.index);
        let reply = match steps.get(self.index) {
            Some(step) => step.error_reply(context, &self.error, index),
            None => {
                let form = ErrorForm::Xml(context.version.atom_form());
                error_reply(&self.error, form, index, context.trailer())
            }
        };
        match self.last_read(steps) {
            Some(step) => step.answered(reply),
            None => Answered { reply, content_id: None },
        }
    }

    /// The last parsed operation, whose Content-ID the failed part repeats. During execution that
    /// is the last of the change set, whichever failed (T-6.49a).
    fn last_read<'s, 'a>(&self, steps: &'s [Step<'a>]) -> Option<&'s Step<'a>> {
        match self.error.stage {
            Stage::Execution => steps.last(),
            Stage::Addressing | Stage::Parsing | Stage::Request => steps.get(self.index),
        }
    }
}

impl From<BatchFailure> for Fault {
    fn from(failure: BatchFailure) -> Self {
        Self { index: failure.index, error: failure.error.into() }
    }
}

/// Decodes every operation, applies them atomically, and builds a reply for each.
async fn change<'a>(
    api: &TableApi,
    context: &RequestContext<'_>,
    steps: &[Step<'a>],
    unnamed: Option<Fault>,
    principal: &Principal<TableGrant>,
) -> Result<Vec<Answered<'a>>, Fault> {
    if steps.is_empty() {
        // An empty batch gets an empty response (recorded: an empty batch of an old client returns
        // 202 with an empty change set).
        return Ok(Vec::new());
    }
    let (mutations, undecoded) = decode_all(api, context, steps, principal).await;
    let fault = undecoded.or(unnamed);
    // An earlier operation that breaks a batch rule is reported before a later one that is invalid
    // itself.
    let batch = match (assemble(context, mutations), fault) {
        (Err(broken), Some(fault)) if fault.index == 0 || broken.index >= fault.index => {
            return Err(fault);
        }
        (Err(broken), _) => return Err(broken),
        (Ok(_), Some(fault)) => return Err(fault),
        (Ok(batch), None) => batch,
    };
    if let Some(first) = batch.mutations().first() {
        let admitted = handlers::admit(api, context, batch.table(), first.key(), steps.len());
        admitted.map_err(|error| Fault { index: 0, error })?;
    }
    let (batch, applied) = transact(api, context, batch).await;
    if api.advice.is_open() {
        let changes = batch.mutations().iter().map(|mutation| (batch.table(), mutation));
        note(api, context, steps.iter(), changes, applied.as_ref().err());
    }
    let timestamp = applied?;
    let answer = |(index, (step, mutation)): (usize, (&Step<'a>, &Mutation<'_>))| {
        let failed = |error| Fault { index, error };
        // A step without an operation has already been refused.
        let missing = || failed(ErrorCode::InternalError.into());
        let (operation, resource) = step.request.as_ref().ok_or_else(missing)?;
        let call = step.call(*operation, resource);
        let reply = mutations::reply(context, &call, batch.table(), mutation, timestamp);
        Ok(step.answered(reply.map_err(failed)?))
    };
    steps.iter().zip(batch.mutations()).enumerate().map(answer).collect()
}

/// The mutations of the steps up to the first invalid one, and its error.
async fn decode_all<'s>(
    api: &TableApi,
    context: &RequestContext<'_>,
    steps: &'s [Step<'_>],
    principal: &Principal<TableGrant>,
) -> (Vec<(&'s TableName, Mutation<'s>)>, Option<Fault>) {
    let mut mutations = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        let Some((operation, resource)) = &step.request else { break };
        match decode(context, &step.call(*operation, resource), principal) {
            Ok(decoded) => mutations.push(decoded),
            Err(error) => {
                let error = mutations::check_table_first(api, context, resource, error).await;
                return (mutations, Some(Fault { index, error }));
            }
        }
    }
    (mutations, None)
}

/// Builds a batch; across partitions only where that is tolerated (TR-69).
fn assemble<'a>(
    context: &RequestContext<'_>,
    operations: Vec<(&TableName, Mutation<'a>)>,
) -> Result<Batch<'a>, Fault> {
    let tolerance = &context.tolerance;
    if tolerance.is_lenient()
        && let Err(BatchFailure { index, error: error @ TableError::DifferentPartition }) =
            Batch::check(&operations)
    {
        let fault = faults::Fault::SeveralPartitions;
        let tolerated = tolerance.tolerate(fault, error.into(), || Some(()));
        tolerated.map_err(|error| Fault { index, error })?;
        return Ok(Batch::across_partitions(operations)?);
    }
    Ok(Batch::new(operations)?)
}

/// Applies a batch. Only the store can find that a merge makes an entity too wide (TR-29).
async fn transact<'a>(
    api: &TableApi,
    context: &RequestContext<'_>,
    batch: Batch<'a>,
) -> (Batch<'a>, Result<Timestamp, Fault>) {
    let account = &context.account.name;
    match api.tables.transact(account, &batch).await {
        Err(BatchFailure { index, error: TableError::Entity(error) })
            if context.tolerance.is_lenient() && error == EntityError::TooManyProperties =>
        {
            if let Err(error) = context.tolerance.tolerate_properties(error) {
                return (batch, Err(Fault { index, error }));
            }
            let batch = batch.relaxed();
            let applied = api.tables.transact(account, &batch).await;
            (batch, applied.map_err(Fault::from))
        }
        outcome => (batch, outcome.map_err(Fault::from)),
    }
}

/// Reports the changes of a batch to the advice; if it failed, only the change that made it fail.
#[cold]
fn note<'m, 's, 'a: 's>(
    api: &TableApi,
    context: &RequestContext<'_>,
    steps: impl Iterator<Item = &'s Step<'a>>,
    changes: impl Iterator<Item = (&'m TableName, &'m Mutation<'m>)>,
    fault: Option<&Fault>,
) {
    for (index, (step, (table, mutation))) in steps.zip(changes).enumerate() {
        if fault.is_none_or(|fault| fault.index == index) {
            let error = fault.map(|fault| &fault.error);
            api.advice.written(context, table, mutation, error, (step.part.body.len(), true));
        }
    }
}

/// Each operation is permitted separately; its key is known once it is decoded.
fn decode<'a>(
    context: &RequestContext<'_>,
    call: &Call<'a>,
    principal: &Principal<TableGrant>,
) -> ApiResult<(&'a TableName, Mutation<'a>)> {
    principal.permit(call.operation.facts(), call.resource)?;
    let (table, mutation) = mutations::decode(context, call)?;
    principal.permit_key(mutation.key())?;
    Ok((table, mutation))
}

async fn query(
    api: &TableApi,
    context: &RequestContext<'_>,
    step: &Step<'_>,
    principal: &Principal<TableGrant>,
) -> ApiResult<Reply> {
    match &step.request {
        Some((operation @ (Operation::QueryEntity | Operation::QueryEntities), resource)) => {
            principal.permit(operation.facts(), resource)?;
            // Extension headers apply to the whole request, extension syntax to its query.
            let asked = context.extensions.then(Asked::default);
            let call = Call { asked: asked.as_ref(), ..step.call(*operation, resource) };
            handlers::handle(api, context, &call, principal).await
        }
        _ => Err(ErrorCode::NotImplemented.into()),
    }
}
