//! A transaction on its way, and what its answer means for each write (C-11.2, C-11.3, C-13).

use super::messages::SentMessage;
use super::{ChangeSet, Committed, Operation, Prepared};
use crate::account::Account;
use crate::call::{Answer, CallOptions, kind_of};
use crate::entity::{ETag, Entity, Loaded};
use crate::error::{Error, ErrorAnswer, ErrorKind};
use crate::extensions::{EXTENSIONS, TRANSACTION};
use crate::index::violation;
use crate::write::{self, Proof, WriteVerb};
use crate::write_ids::{Fate, WRITE_IDS, WriteIds};
use crate::{table, tables};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use lazuli_model::{Guid, TableName};
use lazuli_wire::error_body::ErrorText;
use lazuli_wire::multipart::{
    MultipartError, ResponsePart, boundary, is_all_done, parse_batch_response,
};

/// Says where it happened.
pub(super) fn place(error: Error, table: &TableName) -> Error {
    error.at("batch", Some(table.as_str()), None)
}

/// Sends `operations` as one transaction. If there is a write among them, it carries the id `own`.
pub(crate) async fn send_with_id(
    account: &Account,
    table: &TableName,
    mut operations: Vec<Operation>,
    own: Guid,
    options: CallOptions,
) -> Result<Committed, Error> {
    let own = mark(&mut operations, own).then_some(own);
    let changes = ChangeSet::of(account, table, operations).map_err(|error| place(error, table))?;
    let prepared = changes.finish().await.map_err(|error| place(error, table))?;
    send(account, table, &prepared, own, false, options).await
}

/// Sends a transaction. `own` is an id that one of its writes carries.
pub(crate) async fn send(
    account: &Account,
    table: &TableName,
    prepared: &Prepared,
    own: Option<Guid>,
    trusts_content: bool,
    options: CallOptions,
) -> Result<Committed, Error> {
    let mut again: Option<Prepared> = None;
    loop {
        let prepared = again.as_ref().unwrap_or(prepared);
        match send_once(account, table, prepared, own, trusts_content, options.clone()).await {
            Err(Failure { error, missing_copy: None }) => return Err(error),
            // A copy that should be removed is not there: somebody else removed it. The rest is sent again
            // without it (P-1.7). Ends: each round has one write less.
            Err(Failure { missing_copy: Some(rest), .. }) => {
                let first = rest.iter().filter(|operation| operation.copy.is_none()).count();
                let changes = match prepared.spans {
                    true => ChangeSet::spanning(account, table, rest),
                    false => ChangeSet::of(account, table, rest),
                };
                let messages = prepared.messages.clone();
                let changes = changes.and_then(|changes| changes.with_messages(first, messages));
                let changes = changes.map_err(|error| place(error, table))?;
                again = Some(changes.finish().await.map_err(|error| place(error, table))?);
            }
            Ok(committed) => return Ok(committed),
        }
    }
}

/// Why a transaction was not carried out.
struct Failure {
    error: Error,
    /// The other writes, if the one that failed removes a copy of an index which is not there.
    missing_copy: Option<Vec<Operation>>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, missing_copy: None }
    }
}

async fn send_once(
    account: &Account,
    table: &TableName,
    prepared: &Prepared,
    own: Option<Guid>,
    trusts_content: bool,
    options: CallOptions,
) -> Result<Committed, Failure> {
    let Prepared { content_type, body, operations, spans, .. } = prepared;
    let count = operations.len();
    if count == 0 {
        return Ok(Committed::nothing());
    }
    // Whoever sent it knows nothing of copies.
    let of_entities = |etags: Vec<Option<ETag>>| {
        let own = etags.into_iter().zip(operations).filter(|(_, op)| op.copy.is_none());
        own.map(|(etag, _)| etag).collect()
    };
    let mut call = tables::write("batch", Method::POST, "/$batch".to_owned(), body.clone());
    call.headers.insert(CONTENT_TYPE, content_type.clone());
    if *spans {
        call.headers.insert(EXTENSIONS, HeaderValue::from_static("on"));
        call.headers.insert(TRANSACTION, HeaderValue::from_static("any"));
    }
    call.options = options;
    call.about.table = Some(table.as_str().to_owned());
    call.about.operations = count + prepared.messages.len();
    call.is_once = prepared.is_once();
    #[cfg(feature = "patterns")]
    {
        let keys = operations.iter().map(|operation| {
            let written = operation.verb.map(|_| &operation.properties);
            (operation.name(), &operation.key, written)
        });
        call.about.subjects = account.subjects(keys);
    }
    let answer = account.exchange(&call).await.map_err(|error| place(error, table))?;
    let is_after_lost = answer.is_after_lost;
    let (error, failed) = match read_answer(answer, prepared) {
        Ok((etags, messages)) => {
            let etags = of_entities(etags);
            return Ok(Committed { etags, messages, proof: Proof::Answered });
        }
        Err((error, part)) => {
            let is_missing_copy = |op: &Operation| op.copy.is_some() && op.verb.is_none();
            let failed = part.and_then(|part| operations.get(part));
            if failed.is_some_and(is_missing_copy) && error.is_not_found() && !is_after_lost {
                let rest = operations.iter().enumerate().filter(|(index, _)| Some(*index) != part);
                let rest = rest.map(|(_, operation)| operation.clone()).collect();
                return Err(Failure { error, missing_copy: Some(rest) });
            }
            (place(error, table), part)
        }
    };
    let is_ours_perhaps = is_after_lost
        && matches!(error.status().map(|status| status.as_u16()), Some(404 | 409 | 412));
    if !is_ours_perhaps {
        return Err(error.into());
    }
    // All or nothing: what became of one operation became of all (C-13).
    let Some(index) = decisive(operations, failed) else { return Err(error.into()) };
    let Some(operation) = operations.get(index) else { return Err(error.into()) };
    let read_from = operation.table.as_ref().unwrap_or(table);
    let found: Option<Loaded<Entity>> =
        table::get(&account.unprotected(), read_from, &operation.key, CallOptions::default())
            .await
            .map_err(|cause| place(write::unknown(cause, "batch"), table))?;
    let done = |proof| {
        let mut etags = vec![None; count];
        if let (Some(slot), Some(found)) = (etags.get_mut(index), &found) {
            *slot = Some(found.etag().clone());
        }
        Ok(Committed { etags: of_entities(etags), messages: Vec::new(), proof })
    };
    let is_as_read =
        |row: &Loaded<Entity>| operation.if_match.as_deref() == Some(row.etag().as_str());
    let outcome = match (&found, operation.verb) {
        // It has the very version that the transaction would have replaced or deleted.
        (Some(row), _) if is_as_read(row) => {
            Err(error.with(|context| context.may_have_been_applied = false))
        }
        // That the row is gone is what a deletion wants, but it does not tell who deleted it, and so nothing of messages.
        (None, None) if prepared.messages.is_empty() => done(Proof::State),
        (None, None) => Err(error),
        (None, Some(_)) | (Some(_), None) => Err(error),
        (Some(row), Some(verb)) => {
            match own.map(|own| row.write_ids().fate_of(own, &operation.base)) {
                Some(Fate::Applied) => done(Proof::WriteIds),
                Some(Fate::NotApplied) => {
                    Err(error.with(|context| context.may_have_been_applied = false))
                }
                Some(Fate::Unknown) => Err(error),
                None if !write::holds(row, &operation.properties, verb) => Err(error),
                None if trusts_content => done(Proof::Content),
                None => Err(error.with_kind(ErrorKind::OutcomeUnknown)),
            }
        }
    };
    // A message leaves no trace that could be looked up: only a proof counts.
    let is_open = |error: &Error| error.may_have_been_applied() && !prepared.messages.is_empty();
    outcome.map_err(|error| match is_open(&error) {
        true => error.with_kind(ErrorKind::OutcomeUnknown).into(),
        false => error.into(),
    })
}

/// The operation whose row tells most: an insert, else another write, else a deletion. That the row of a
/// failed deletion is gone tells nothing.
fn decisive(operations: &[Operation], failed: Option<usize>) -> Option<usize> {
    let first = |wanted: fn(&Operation) -> bool| operations.iter().position(wanted);
    first(|operation| operation.properties.has(WRITE_IDS))
        .or_else(|| first(|operation| operation.verb == Some(WriteVerb::Insert)))
        .or_else(|| first(|operation| operation.verb.is_some()))
        .or_else(|| (0..operations.len()).find(|index| Some(*index) != failed))
        .or_else(|| first(|_| true))
}

/// Gives the id of the transaction to one of its writes, best to one of an entity that was read: the ids it
/// had tell also what did not happen. False if there is no write.
pub(crate) fn mark(operations: &mut [Operation], own: Guid) -> bool {
    let is_write = |op: &Operation| op.verb.is_some() && op.copy.is_none();
    let read = operations.iter().position(|op| is_write(op) && op.base != WriteIds::default());
    let index = read.or_else(|| operations.iter().position(is_write));
    let Some(operation) = index.and_then(|index| operations.get_mut(index)) else { return false };
    operation.properties.set(WRITE_IDS, operation.base.followed_by(own).to_value());
    true
}

/// What was written, if that is wanted; or the error, and which part of the request failed.
fn read_answer(answer: Answer, prepared: &Prepared) -> Result<Answered, (Error, Option<usize>)> {
    let Prepared { operations, messages, wants_tags, .. } = prepared;
    let count = operations.len() + messages.len();
    let fault = |error| (error, None);
    if answer.status != StatusCode::ACCEPTED {
        return Err(fault(answer.into_error("batch")));
    }
    if !wants_tags && is_all_done(&answer.body, count) {
        return Ok(Answered::default());
    }
    let content_type = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let boundary = content_type.and_then(boundary);
    let boundary = boundary.ok_or_else(|| fault(Error::protocol("the answer has no boundary")))?;
    let parts = parse_batch_response(&answer.body, boundary)
        .map_err(|error| fault(Error::protocol(error)))?;
    if let Some(failed) = parts.iter().find(|part| part.status >= 300) {
        return Err(failure(failed, &answer, prepared));
    }
    if parts.len() != count {
        let error = "the answer has another number of parts than the request";
        return Err(fault(Error::protocol(error)));
    }
    if !wants_tags {
        return Ok(Answered::default());
    }
    let (parts, messages) = parts.split_at(operations.len());
    let etag = |part: &ResponsePart<'_>| Ok(part.split()?.0.get("etag").map(ETag::new));
    let etags: Result<_, MultipartError> = parts.iter().map(etag).collect();
    let etags = etags.map_err(|error| fault(Error::protocol(error)))?;
    let message = |part: &ResponsePart<'_>| {
        let (_, body) = part.split().map_err(Error::protocol)?;
        SentMessage::read(body)
    };
    let messages: Result<_, Error> = messages.iter().map(message).collect();
    Ok((etags, messages.map_err(fault)?))
}

/// The versions of what was written, and the messages that were put.
type Answered = (Vec<Option<ETag>>, Vec<SentMessage>);

/// The error of the one operation that failed the transaction (C-11.2).
fn failure(
    part: &ResponsePart<'_>,
    answer: &Answer,
    prepared: &Prepared,
) -> (Error, Option<usize>) {
    let Prepared { operations, messages, .. } = prepared;
    let body = part.split().map_or(&[][..], |(_, body)| body);
    let mut text = ErrorText::read(body).unwrap_or_default();
    let failed = text.take_index();
    // Copies follow the write of their entity, which is what the caller counts.
    let index = failed.map(|failed| {
        let before = operations.iter().take(failed.saturating_add(1));
        let writes = before.filter(|operation| operation.copy.is_none()).count();
        // Messages follow the writes.
        (writes + (failed + 1).saturating_sub(operations.len())).saturating_sub(1)
    });
    let status = StatusCode::from_u16(part.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let operation = failed.and_then(|failed| operations.get(failed));
    // The kind of a lone operation helps nobody who does not know which one it was.
    let kind = match kind_of(status, &text.code) {
        kind @ (ErrorKind::TableNotFound | ErrorKind::Throttled) => kind,
        ErrorKind::Conflict if operation.is_some_and(|operation| operation.copy.is_some()) => {
            operation.map_or(ErrorKind::Conflict, |operation| violation(operation).kind().clone())
        }
        _ => ErrorKind::Batch { index },
    };
    let answered = ErrorAnswer {
        status,
        code: text.code,
        message: text.message,
        request_id: text.request_id,
        details: text.details,
    };
    let error = Error::new(kind).with(|context| {
        context.answer = Some(answered);
        context.batch_index = index;
        context.key = operation.map(|operation| operation.key.clone());
        let message = failed.and_then(|failed| messages.get(failed.checked_sub(operations.len())?));
        let name = operation.map(|operation| operation.name().to_owned());
        let name = name.or_else(|| Some(format!("a message to the queue {}", message?.queue)));
        context.hint = name.map(|name| format!("the operation was {name}"));
        context.attempts = answer.attempts;
        context.client_request_id = Some(answer.client_request_id.clone());
        context.may_have_been_applied = answer.is_after_lost;
    });
    (error, failed)
}
