//! Indexes of tables on a running server: declared, rebuilt, and compared with the entities.

use crate::http::{Connection, Request};
use crate::table::{Outcome, expect, send};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::time::{Duration, Instant};

const HEADERS: &[(&str, &str)] = &[("x-lazuli-extensions", "on")];
/// How long a small table may take to be indexed, even after a failed step.
const PATIENCE: Duration = Duration::from_secs(120);
const REST: Duration = Duration::from_millis(20);

/// Declares all indexes of a table; `indexes` is the JSON of the list.
pub fn declare(connection: &mut Connection, table: &str, indexes: &str) -> Result<Outcome> {
    let (path, body) = (path(table, "indexes"), format!("{{\"indexes\":{indexes}}}"));
    match send(connection, &Request::new("PUT", &path).headers(HEADERS).json(&body)) {
        Ok(answer) => expect(&answer, 202, || format!("declare indexes of {table}")),
        Err(outcome) => Ok(outcome),
    }
}

/// Makes the server rebuild an index.
pub fn rebuild(connection: &mut Connection, table: &str, index: &str) -> Result<Outcome> {
    let path = format!("{}&index={index}", path(table, "rebuild"));
    match send(connection, &Request::new("PUT", &path).headers(HEADERS)) {
        Ok(answer) => expect(&answer, 202, || format!("rebuild {index} of {table}")),
        Err(outcome) => Ok(outcome),
    }
}

/// Waits until all indexes of a table are built, and compares them with the entities (X-3.12a): nothing
/// may be missing or surplus.
pub fn verify(connection: &mut Connection, table: &str) -> Result<()> {
    wait_until_built(connection, table)?;
    let mut from = String::new();
    loop {
        let page: Page = read(connection, &format!("{}{from}", path(table, "verify")))?;
        ensure!(page.found.is_empty(), "indexes of {table}: {:?}", page.found);
        match page.next {
            Some(next) => from = format!("&from={next}"),
            None => return Ok(()),
        }
    }
}

/// Waits until all indexes of a table are built; fails if one cannot be.
pub fn wait_until_built(connection: &mut Connection, table: &str) -> Result<()> {
    let start = Instant::now();
    loop {
        let shown: Shown = read(connection, &path(table, "indexes"))?;
        let failed = shown.indexes.iter().find(|index| index.state == "failed");
        ensure!(failed.is_none(), "an index of {table} failed: {failed:?}");
        if shown.indexes.iter().all(|index| index.state == "ready") {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "{table} is still being indexed: {shown:?}");
        std::thread::park_timeout(REST);
    }
}

/// Retries as long as the server is busy, as clients do: after a fault, a store may end connections
/// later.
fn read<T: for<'d> Deserialize<'d>>(connection: &mut Connection, path: &str) -> Result<T> {
    let start = Instant::now();
    let answer = loop {
        let answer = connection.send(&Request::new("GET", path).headers(HEADERS))?;
        if answer.status != 503 || start.elapsed() > PATIENCE {
            break answer;
        }
        std::thread::park_timeout(REST);
    };
    ensure!(answer.status == 200, "{path}: {} {}", answer.status, answer.text());
    serde_json::from_slice(&answer.body).with_context(|| format!("read the answer of {path}"))
}

fn path(table: &str, resource: &str) -> String {
    format!("/{table}?comp=lazuli-{resource}")
}

#[derive(Debug, Deserialize)]
struct Shown {
    indexes: Vec<Index>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "a failure shows all of it")]
struct Index {
    name: String,
    state: String,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Page {
    found: Vec<serde_json::Value>,
    next: Option<String>,
}
