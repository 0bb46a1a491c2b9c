//! `lazuli entities transact`: several writes, all of them or none (X-4.6).

mod dry_run;

use crate::entity_text::from_object;
use crate::exit::Exit;
use crate::failure::{ending, exit_of_client, usage, without_hint};
use crate::input::{aside, not_read, objects};
use crate::output::counted;
use crate::session::Session;
use anyhow::{Context, Result};
use clap::Args;
use lazuli_client::queue::SendMessage;
use lazuli_client::{Commit, Committed, ETag, Entity, Error, Table, WriteOp};
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli entities transact People changes.jsonl
  lazuli entities transact People --json < changes.jsonl")]
pub(crate) struct TransactArguments {
    /// Default table of the operations
    table: String,

    /// File with up to 100 JSON objects such as {"insert":{…}}, {"put":{…}}, {"replace":{…},"ifMatch":"…"},
    /// {"merge":{…}}, {"mergeOrInsert":{…}}, {"delete":{…}}, each with "table" if it is another one, and
    /// {"send":"text","queue":"…"}; `-` or nothing reads standard input
    file: Option<String>,

    /// Check the transaction and send nothing
    #[arg(long)]
    dry_run: bool,
}

/// One operation, as the input has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an operation")]
struct Line {
    insert: Option<Box<RawValue>>,
    put: Option<Box<RawValue>>,
    replace: Option<Box<RawValue>>,
    merge: Option<Box<RawValue>>,
    merge_or_insert: Option<Box<RawValue>>,
    delete: Option<Box<RawValue>>,
    send: Option<String>,
    table: Option<String>,
    queue: Option<String>,
    if_match: Option<String>,
}

const FORM: &str = "an operation is {\"insert\":{\"PartitionKey\":…,\"RowKey\":…,…}}, or put, replace, merge, mergeOrInsert \
                    or delete instead of insert, or {\"send\":\"text\",\"queue\":\"jobs\"}";

/// One operation, ready to be sent.
enum Operation {
    Write { table: Table, partition: String, write: WriteOp },
    Message(SendMessage),
}

/// A transaction, and the place in the input of each of its operations: messages follow the writes.
struct Collected {
    commit: Commit,
    places: Vec<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    operations: usize,
    dry_run: bool,
    /// The versions of the entities that were written, in the order of the input; `null` for a deletion, for a message, and
    /// in a dry run.
    etags: Vec<Option<String>>,
}

pub(super) async fn run(session: &Session, arguments: TransactArguments) -> Result<Exit> {
    let TransactArguments { table, file, dry_run } = arguments;
    session.table(&table)?;
    let dry = if dry_run { Some(dry_run::without_network(session)?) } else { None };
    let session = dry.as_ref().unwrap_or(session);
    let lines = aside(move || read(file)).await??;
    let parse = |(at, line): (usize, Line)| {
        let operation = operation(session, &table, line);
        operation.with_context(|| format!("operation {} of the input", at + 1))
    };
    let operations: Vec<Operation> =
        lines.into_iter().enumerate().map(parse).collect::<Result<_>>()?;
    if operations.is_empty() {
        return Err(usage("there is nothing to write", FORM));
    }
    let Collected { commit, places } = collect(session, operations);
    let committed = match dry_run {
        true => dry_run::check(commit).await.map(|()| None),
        false => commit.await.map(Some),
    };
    let committed = committed.map_err(|error| failed(error, &places))?;
    let report = Report::new(committed.as_ref(), &places);
    let deed = if dry_run { "would carry out" } else { "carried out" };
    let number = counted(places.len() as u64, "operation", "operations");
    session.out.done(&report, format_args!("{deed} {number} in one transaction"))?;
    Ok(Exit::Done)
}

/// The operations of a file, or of standard input: one more than a transaction can have, at most.
fn read(file: Option<String>) -> Result<Vec<Line>> {
    let input: Box<dyn Read> = match file.as_deref() {
        None if io::stdin().is_terminal() => {
            return Err(usage("there is nothing to write", "give a file, or - for standard input"));
        }
        None | Some("-") => Box::new(io::stdin()),
        Some(path) => Box::new(File::open(path).map_err(|error| {
            usage(format!("cannot read {path}: {error}"), "give a file, or - for standard input")
        })?),
    };
    let lines = objects::<Line>(BufReader::new(input)).take(BATCH_OPERATIONS_MAX + 1).enumerate();
    let lines = lines.map(|(at, line)| {
        line.map_err(|error| not_read(&error, &format!("operation {} of the input", at + 1), FORM))
    });
    lines.collect()
}

fn operation(session: &Session, table: &str, line: Line) -> Result<Operation> {
    let etag = line.if_match.map(ETag::new);
    let verbs: [(Option<Box<RawValue>>, Verb); 6] = [
        (line.insert, Verb::Plain(WriteOp::insert)),
        (line.put, Verb::Plain(WriteOp::upsert)),
        (line.merge_or_insert, Verb::Plain(WriteOp::upsert_merge)),
        (line.replace, Verb::OfVersion(replace)),
        (
            line.merge,
            Verb::OfVersion(|table, entity, etag| {
                WriteOp::merge(super::merge(table, entity, etag))
            }),
        ),
        (line.delete, Verb::OfVersion(delete)),
    ];
    let mut given = verbs.into_iter().filter_map(|(object, verb)| Some((object?, verb)));
    match (given.next(), given.next(), line.send, line.queue) {
        (Some((object, verb)), None, None, None) => {
            let table = session.table(line.table.as_deref().unwrap_or(table))?;
            let entity = from_object(object.get().as_bytes())?;
            let write = match (verb, &etag) {
                (Verb::Plain(_), Some(_)) => {
                    return Err(usage("ifMatch is for replace, merge and delete", FORM));
                }
                (Verb::Plain(write), None) => write(&entity),
                (Verb::OfVersion(write), etag) => write(&table, &entity, etag.as_ref()),
            };
            Ok(Operation::Write { table, partition: entity.partition_key().to_owned(), write })
        }
        (None, None, Some(body), Some(queue)) if line.table.is_none() && etag.is_none() => {
            Ok(Operation::Message(session.account.queues().queue(&queue)?.send(body)))
        }
        _ => Err(usage("it is not one write, and not a message with its queue", FORM)),
    }
}

/// How an entity is written.
enum Verb {
    Plain(fn(&Entity) -> WriteOp),
    /// May ask for the version of the entity that is stored.
    OfVersion(fn(&Table, &Entity, Option<&ETag>) -> WriteOp),
}

fn replace(_: &Table, entity: &Entity, etag: Option<&ETag>) -> WriteOp {
    match etag {
        Some(etag) => WriteOp::replace_if_match(entity, etag),
        None => WriteOp::overwrite(entity),
    }
}

fn delete(_: &Table, entity: &Entity, etag: Option<&ETag>) -> WriteOp {
    match etag {
        Some(etag) => WriteOp::delete_if_match(keys(entity), etag),
        None => WriteOp::delete_key(keys(entity)),
    }
}

fn keys(entity: &Entity) -> (&str, &str) {
    (entity.partition_key(), entity.row_key())
}

/// Writes of one partition are a transaction of any service; others need a Lazuli server.
fn collect(session: &Session, operations: Vec<Operation>) -> Collected {
    let (mut writes, mut messages, mut places, mut behind) = (vec![], vec![], vec![], vec![]);
    for (at, operation) in operations.into_iter().enumerate() {
        match operation {
            Operation::Write { table, partition, write } => {
                writes.push((table, partition, write));
                places.push(at);
            }
            Operation::Message(message) => {
                messages.push(message);
                behind.push(at);
            }
        }
    }
    places.extend(behind);
    let is_one_partition = writes.windows(2).all(|pair| match pair {
        [one, other] => one.1 == other.1 && one.0.name().eq_ignore_ascii_case(other.0.name()),
        _ => true,
    });
    let commit = match writes.first() {
        Some((table, partition, _)) if is_one_partition && messages.is_empty() => {
            let batch = table.batch(partition);
            writes.into_iter().fold(batch, |batch, (_, _, write)| batch.write(write)).commit()
        }
        _ => {
            let whole = session.account.atomically();
            let whole = writes
                .into_iter()
                .fold(whole, |whole, (table, _, write)| whole.write(&table, write));
            messages.into_iter().fold(whole, |whole, message| whole.send(message)).commit()
        }
    };
    Collected { commit, places }
}

/// The error of a transaction, with the place in the input of the operation that is to blame.
fn failed(error: Error, places: &[usize]) -> anyhow::Error {
    let Some((index, at)) = error.batch_index().and_then(|index| Some((index, places.get(index)?)))
    else {
        return error.into();
    };
    // The client counts from 0, and messages behind the writes.
    let text = without_hint(&error).replacen(&format!("operation {index}: "), "", 1);
    let problem = format!("operation {} of the input: {text}", at + 1);
    let advice = match error.may_have_been_applied() {
        true => "an answer was lost: look whether all of it was written before you send it again",
        false => "nothing was written: mend it, and send all of it again",
    };
    ending(exit_of_client(&error), problem, advice)
}

impl Report {
    /// Without what was committed, of a dry run.
    fn new(committed: Option<&Committed>, places: &[usize]) -> Self {
        let mut etags = vec![None; places.len()];
        for (index, at) in places.iter().enumerate() {
            if let Some(place) = etags.get_mut(*at) {
                *place = committed.and_then(|all| all.etag(index)).map(|etag| etag.to_string());
            }
        }
        Self { operations: places.len(), dry_run: committed.is_none(), etags }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use lazuli_client::{
        Account, Body, BoxFuture, Credential, Retry, Sent, Transport, TransportError,
    };
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// The answer to an insert is lost; the entity is changed by others before the next attempt.
    struct Rival(AtomicUsize);

    const REFUSED: &str = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\
        Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
        HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\n\r\n\
        {\"odata.error\":{\"code\":\"EntityAlreadyExists\",\"message\":{\"lang\":\"en-US\",\
        \"value\":\"0:The specified entity already exists.\"}}}\r\n--c--\r\n--b--\r\n";
    const CHANGED: &str = r#"{"odata.etag":"W/\"2\"","PartitionKey":"p","RowKey":"r","Timestamp":"2026-11-15T12:00:00Z","N":2}"#;

    impl Transport for Rival {
        fn send(
            &self,
            _: http::Request<Bytes>,
        ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
            let answer = |status: u16, kind: &str, body: &'static str| {
                let answer = http::Response::builder().status(status).header("content-type", kind);
                Ok(answer.body(Bytes::from(body).into()).unwrap())
            };
            let answer = match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Err(TransportError { sent: Sent::Maybe, source: "lost".into() }),
                1 => answer(202, "multipart/mixed; boundary=b", REFUSED),
                _ => answer(200, "application/json;odata=fullmetadata", CHANGED),
            };
            Box::pin(std::future::ready(answer))
        }
    }

    /// C-13.5: what a lost answer said is not known.
    #[tokio::test]
    async fn a_transaction_that_may_have_been_carried_out_is_not_said_to_have_written_nothing() {
        let key = Credential::shared_key("acct", "a2V5").unwrap();
        let retry = Retry::default().pauses(Duration::ZERO, Duration::ZERO);
        let account = Account::builder("http://127.0.0.1:1/acct").credential(key).retry(retry);
        let account = account.transport(Rival(AtomicUsize::new(0))).build().unwrap();
        let table = account.tables().table("People").unwrap();
        let batch = table.batch("p").write(WriteOp::insert(&Entity::new("p", "r").with("N", 1)));
        let error = batch.commit().await.unwrap_err();
        assert!(error.may_have_been_applied() && error.batch_index() == Some(0), "{error}");
        let failed = failed(error, &[4]);
        let hint = failed.downcast_ref::<crate::failure::Hint>().unwrap();
        assert!(hint.problem.starts_with("operation 5 of the input: "), "{}", hint.problem);
        assert!(hint.advice.contains("look whether"), "{}", hint.advice);
    }
}
