//! Sends a transaction and interprets the answer for each write (C-11.2, C-11.3, C-13).

use super::messages::SentMessage;
use super::{ChangeSet, Committed, Operation, Prepared, lookup};
use crate::account::Account;
use crate::call::{Answer, CallOptions, kind_of};
use crate::entity::ETag;
use crate::error::{Error, ErrorAnswer, ErrorKind};
use crate::extensions::{EXTENSIONS, TRANSACTION};
use crate::index::violation;
use crate::tables;
use crate::write::Proof;
use crate::write_ids::{WINDOW, WriteIds};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use lazuli_model::{Guid, TableName};
use lazuli_wire::error_body::ErrorText;
use lazuli_wire::multipart::{
    MultipartError, ResponsePart, boundary, is_all_done, parse_batch_response,
};

/// Adds the operation and the table to an error.
pub(super) fn place(error: Error, table: &TableName) -> Error {
    error.at("batch", Some(table.as_str()), None)
}

/// What counts as success, if an answer was lost and no row has the id of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trust {
    /// Nothing: only the id counts.
    Ids,
    /// All rows that were to be deleted are gone.
    State,
    /// All rows have the content they were to have.
    Content,
}

impl Trust {
    /// The account's setting (C-13.7).
    pub(crate) fn of(account: &Account) -> Self {
        if account.0.retry.trusts_content() { Self::Content } else { Self::State }
    }
}

/// Sends `operations` as one transaction. If there is a write among them, it gets the id `own`.
pub(crate) async fn send_with_id(
    account: &Account,
    table: &TableName,
    operations: Vec<Operation>,
    own: Guid,
    options: CallOptions,
) -> Result<Committed, Error> {
    send_trusting(account, table, operations, own, Trust::State, options).await
}

/// The same, with its own level of trust.
pub(crate) async fn send_trusting(
    account: &Account,
    table: &TableName,
    mut operations: Vec<Operation>,
    own: Guid,
    trust: Trust,
    options: CallOptions,
) -> Result<Committed, Error> {
    mark(&mut operations);
    let changes = ChangeSet::new(account, table).map_err(|error| place(error, table))?;
    let changes = changes.identified(own).with(operations).map_err(|error| place(error, table))?;
    let prepared = changes.finish().await.map_err(|error| place(error, table))?;
    send(account, table, &prepared, trust, options).await
}

/// Sends a transaction.
pub(crate) async fn send(
    account: &Account,
    table: &TableName,
    prepared: &Prepared,
    trust: Trust,
    options: CallOptions,
) -> Result<Committed, Error> {
    let env = &account.0.env;
    let deadline = options.deadline(env);
    let mut again: Option<Prepared> = None;
    loop {
        let prepared = again.as_ref().unwrap_or(prepared);
        match send_once(account, table, prepared, trust, options.until(deadline, env)).await {
            Err(Failure { error, missing_copy: None }) => return Err(error),
            // A copy that should be removed does not exist: another client removed it. Retry the rest without it
            // (P-1.7). Terminates: each round has one write less.
            Err(Failure { missing_copy: Some(rest), .. }) => {
                let first = rest.iter().filter(|operation| operation.copy.is_none()).count();
                let changes = ChangeSet::new(account, table).map(|changes| {
                    let changes = changes.identified(prepared.own);
                    if prepared.spans { changes.spanning() } else { changes }
                });
                let messages = prepared.messages.clone();
                let changes = changes.and_then(|changes| changes.with(rest));
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
    /// The other writes, if the one that failed removes an index copy that does not exist.
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
    trust: Trust,
    options: CallOptions,
) -> Result<Committed, Failure> {
    let Prepared { content_type, body, operations, spans, .. } = prepared;
    let count = operations.len();
    if count == 0 {
        return Ok(Committed::nothing());
    }
    // The caller does not count the copies.
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
    let deadline = options.deadline(&account.0.env);
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
    let error = match read_answer(answer, prepared) {
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
            place(error, table)
        }
    };
    let is_ours_perhaps = is_after_lost
        && matches!(error.status().map(|status| status.as_u16()), Some(404 | 409 | 412));
    if !is_ours_perhaps {
        return Err(error.into());
    }
    let found = lookup::resolve(account, table, prepared, trust, deadline, error).await?;
    let mut etags = found.etags;
    etags.resize(count, None);
    Ok(Committed { etags: of_entities(etags), messages: Vec::new(), proof: found.proof })
}

/// Puts the id of the transaction into one of the writes, preferably of an entity that was read: its previous ids
/// also show if the transaction did not happen. False if there is no write.
pub(crate) fn mark(operations: &mut [Operation]) -> bool {
    let is_write = |op: &Operation| op.verb.is_some() && op.copy.is_none();
    let read = operations.iter().position(|op| is_write(op) && op.base != WriteIds::default());
    let index = read.or_else(|| operations.iter().position(is_write));
    let Some(operation) = index.and_then(|index| operations.get_mut(index)) else { return false };
    operation.properties.keep_ids(WINDOW);
    true
}

/// The new versions, if wanted; or the error, and which part of the request failed.
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

/// The new versions, and the messages that were put.
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
    // The caller does not count copies, which follow the write of their entity.
    let index = failed.map(|failed| {
        let before = operations.iter().take(failed.saturating_add(1));
        let writes = before.filter(|operation| operation.copy.is_none()).count();
        // Messages follow the writes.
        (writes + (failed + 1).saturating_sub(operations.len())).saturating_sub(1)
    });
    let status = StatusCode::from_u16(part.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let operation = failed.and_then(|failed| operations.get(failed));
    // The kind of a single operation's error is useless without knowing which operation it was.
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
