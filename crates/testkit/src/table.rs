//! The table operations that xtask and the trials share, and their outcomes.

use crate::http::{Connection, Operation, Request, Response, error_code};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};
use std::{fmt, io};

/// The continuation headers of a query, without their common prefix.
const CONTINUATIONS: [&str; 3] = ["NextTableName", "NextPartitionKey", "NextRowKey"];

/// The outcome of a valid request.
#[derive(Debug)]
pub enum Outcome {
    Done,
    /// The server had no room for it, and did nothing.
    Busy,
    /// The outcome is unknown to the server: it may or may not be done.
    Failed {
        status: u16,
        code: String,
    },
    /// The connection broke: it may or may not be done.
    Cut(io::Error),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Busy => f.write_str("503 ServerBusy"),
            Self::Failed { status, code } => write!(f, "{status} {code}"),
            Self::Cut(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

impl Outcome {
    /// The meaning of a response with a status of 500 or more; `None` for all others.
    pub fn of_failure(status: u16, body: &str) -> Option<Self> {
        let code = error_code(body).unwrap_or("without a code");
        match (status, code) {
            (503, "ServerBusy") => Some(Self::Busy),
            (500.., _) => Some(Self::Failed { status, code: code.to_owned() }),
            _ => None,
        }
    }

    /// An error unless the request is done.
    pub fn done(self) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            other => bail!("not done: {other}"),
        }
    }
}

/// Sends one request; `Err` is its outcome if there is no usable response.
pub fn send(connection: &mut Connection, request: &Request<'_>) -> Result<Response, Outcome> {
    let response = connection.send(request).map_err(Outcome::Cut)?;
    match Outcome::of_failure(response.status, &response.text()) {
        Some(failure) => Err(failure),
        None => Ok(response),
    }
}

pub fn create(connection: &mut Connection, table: &str) -> Result<Outcome> {
    let body = format!("{{\"TableName\":\"{table}\"}}");
    match send(connection, &Request::new("POST", "/Tables").json(&body)) {
        Ok(answer) => expect(&answer, 201, || format!("create {table}")),
        Err(outcome) => Ok(outcome),
    }
}

pub fn delete(connection: &mut Connection, table: &str) -> Result<Outcome> {
    let path = format!("/Tables('{table}')");
    match send(connection, &Request::new("DELETE", &path)) {
        Ok(answer) => expect(&answer, 204, || format!("delete {table}")),
        Err(outcome) => Ok(outcome),
    }
}

pub fn exists(connection: &mut Connection, table: &str) -> Result<bool> {
    let answer = connection.send(&Request::new("GET", &format!("/Tables('{table}')")))?;
    match answer.status {
        200 => Ok(true),
        404 => Ok(false),
        status => bail!("look for {table}: {status} {}", answer.text()),
    }
}

/// Writes to entities: one operation alone, several as one batch, each with status 204. Returns the
/// ETag of each, or the outcome of the request.
pub fn write(
    connection: &mut Connection,
    operations: &[Operation],
) -> Result<Result<Vec<Option<String>>, Outcome>> {
    let sent = match operations {
        [lone] => connection.send_operation(lone).map(|answer| {
            let etag = answer.header("etag").map(str::to_owned);
            (answer.status, vec![(answer.status, etag)], answer.text())
        }),
        several => {
            connection.send_batch(several).map(|answer| (answer.status, answer.parts, answer.body))
        }
    };
    etags(operations, sent)
}

/// Writes to entities, and messages put into queues, in one transaction. Returns the same.
pub fn transact(
    connection: &mut Connection,
    operations: &[Operation],
) -> Result<Result<Vec<Option<String>>, Outcome>> {
    let sent = connection.send_transaction(operations);
    etags(operations, sent.map(|answer| (answer.status, answer.parts, answer.body)))
}

/// The status of an answer, those of its parts with their ETags, and its body.
type Answered = (u16, Vec<(u16, Option<String>)>, String);

fn etags(
    operations: &[Operation],
    sent: io::Result<Answered>,
) -> Result<Result<Vec<Option<String>>, Outcome>> {
    let (status, parts, body) = match sent {
        Ok(answer) => answer,
        Err(error) => return Ok(Err(Outcome::Cut(error))),
    };
    // A batch fails as a whole, by its own status or by that of its only part.
    let worst = parts.first().map_or(status, |(part, _)| status.max(*part));
    if let Some(failure) = Outcome::of_failure(worst, &body) {
        return Ok(Err(failure));
    }
    let expected = |operation: &Operation| match operation.path.ends_with("/messages") {
        true => 201,
        false => 204,
    };
    let good = parts.iter().map(|(status, _)| *status).eq(operations.iter().map(expected));
    ensure!(good, "{operations:?} answered {status} with parts {parts:?}: {body}");
    Ok(Ok(parts.into_iter().map(|(_, etag)| etag).collect()))
}

/// An error unless the response has this status.
pub fn expect(answer: &Response, status: u16, what: impl FnOnce() -> String) -> Result<Outcome> {
    ensure!(answer.status == status, "{}: {} {}", what(), answer.status, answer.text());
    Ok(Outcome::Done)
}

/// Follows a query through all its pages, passing on the body of each.
pub fn scan(
    connection: &mut Connection,
    path: &str,
    mut page: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Outcome> {
    let mut continuation = String::new();
    loop {
        let separator = match (continuation.is_empty(), path.contains('?')) {
            (true, _) => "",
            (false, true) => "&",
            (false, false) => "?",
        };
        let target = format!("{path}{separator}{continuation}");
        let answer = match send(connection, &Request::new("GET", &target)) {
            Ok(answer) => answer,
            Err(outcome) => return Ok(outcome),
        };
        expect(&answer, 200, || target)?;
        page(&answer.body)?;
        match next_page(&answer) {
            Some(next) => continuation = next,
            None => return Ok(Outcome::Done),
        }
    }
}

/// The parameters that request the next page.
pub fn next_page(answer: &Response) -> Option<String> {
    let next = CONTINUATIONS.into_iter().filter_map(|name| {
        let value = answer.header(&format!("x-ms-continuation-{name}"))?;
        Some(format!("{name}={value}"))
    });
    let next: Vec<String> = next.collect();
    (!next.is_empty()).then(|| next.join("&"))
}

/// The items of a page.
pub fn items(body: &[u8]) -> Result<Vec<Map<String, Value>>> {
    #[derive(serde::Deserialize)]
    struct Page {
        value: Vec<Map<String, Value>>,
    }
    Ok(serde_json::from_slice::<Page>(body).context("read a page")?.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_statuses_from_500_leave_a_request_undone() {
        let body = |code: &str| format!("{{\"odata.error\":{{\"code\":\"{code}\"}}}}");
        let of_failure = |status, code| Outcome::of_failure(status, &body(code));
        assert!(matches!(of_failure(503, "ServerBusy"), Some(Outcome::Busy)));
        let failed = of_failure(500, "OperationTimedOut").map(|failed| failed.to_string());
        assert_eq!(failed.as_deref(), Some("500 OperationTimedOut"));
        assert!(Outcome::of_failure(404, "").is_none());
        assert!(Outcome::Busy.done().is_err());
    }

    #[test]
    fn every_part_of_a_continuation_is_sent_back() {
        let header = |name: &str| (format!("x-ms-continuation-{name}"), "1!0!".to_owned());
        let answer = |headers| Response { headers, ..Response::default() };
        let keys = answer(vec![header("nextrowkey"), header("NextPartitionKey")]);
        assert_eq!(next_page(&keys).as_deref(), Some("NextPartitionKey=1!0!&NextRowKey=1!0!"));
        let table = answer(vec![header("NextTableName")]);
        assert_eq!(next_page(&table).as_deref(), Some("NextTableName=1!0!"));
        assert_eq!(next_page(&answer(vec![])), None);
    }
}
