//! The few table operations that the chores share.

use anyhow::{Result, bail, ensure};
use lazuli_testkit::http::{Connection, Request, Response};
use std::io;

/// What became of a request that the server had no reason to refuse.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// The server had no room for it, and did nothing.
    Busy,
    /// The server could not say: it may be done or not.
    Failed(String),
    /// The connection broke: it may be done or not.
    Cut(io::Error),
}

impl Outcome {
    /// What an answer of the server's own failing means; `None` for all other answers.
    pub(crate) fn of_failure(status: u16, body: &str) -> Option<Self> {
        match status {
            503 => Some(Self::Busy),
            500.. => Some(Self::Failed(format!("{status} {}", code(body)))),
            _ => None,
        }
    }

    pub(crate) fn done(self) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            other => bail!("not done: {other:?}"),
        }
    }
}

/// The error code that a body names.
fn code(body: &str) -> &str {
    let rest = body.split_once("\"code\":\"").map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or("without a code")
}

/// Sends one request; `Err` is what became of it when there is no answer to look at.
pub(crate) fn send(
    connection: &mut Connection,
    request: &Request<'_>,
) -> Result<Response, Outcome> {
    let response = connection.send(request).map_err(Outcome::Cut)?;
    match Outcome::of_failure(response.status, &response.text()) {
        Some(failure) => Err(failure),
        None => Ok(response),
    }
}

pub(crate) fn create(connection: &mut Connection, table: &str) -> Result<Outcome> {
    let body = format!("{{\"TableName\":\"{table}\"}}");
    match send(connection, &Request::new("POST", "/Tables").json(&body)) {
        Ok(answer) => expect(&answer, 201, || format!("create {table}")),
        Err(outcome) => Ok(outcome),
    }
}

pub(crate) fn drop_table(connection: &mut Connection, table: &str) -> Result<Outcome> {
    let path = format!("/Tables('{table}')");
    match send(connection, &Request::new("DELETE", &path)) {
        Ok(answer) => expect(&answer, 204, || format!("drop {table}")),
        Err(outcome) => Ok(outcome),
    }
}

/// An answer that must have this status.
pub(crate) fn expect(
    answer: &Response,
    status: u16,
    what: impl FnOnce() -> String,
) -> Result<Outcome> {
    ensure!(answer.status == status, "{}: {} {}", what(), answer.status, answer.text());
    Ok(Outcome::Done)
}

/// Follows a query through all its pages and shows the body of each.
pub(crate) fn scan(
    connection: &mut Connection,
    table: &str,
    query: &str,
    mut page: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Outcome> {
    let mut continuation = String::new();
    loop {
        let path = format!("/{table}()?{query}{continuation}");
        let answer = match send(connection, &Request::new("GET", &path)) {
            Ok(answer) => answer,
            Err(outcome) => return Ok(outcome),
        };
        expect(&answer, 200, || path)?;
        page(&answer.body)?;
        let Some(partition) = answer.header("x-ms-continuation-NextPartitionKey") else {
            return Ok(Outcome::Done);
        };
        continuation = format!("&NextPartitionKey={partition}");
        if let Some(row) = answer.header("x-ms-continuation-NextRowKey") {
            continuation.push_str(&format!("&NextRowKey={row}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_own_failings_leave_a_request_undone() {
        assert!(matches!(Outcome::of_failure(503, ""), Some(Outcome::Busy)));
        let body = "{\"odata.error\":{\"code\":\"OperationTimedOut\"}}";
        let failed = Outcome::of_failure(500, body);
        assert!(matches!(failed, Some(Outcome::Failed(why)) if why == "500 OperationTimedOut"));
        assert!(Outcome::of_failure(404, "").is_none());
        assert!(Outcome::Busy.done().is_err());
    }
}
