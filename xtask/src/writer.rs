//! A writer of the kill test and of the soak: what it does, and what it knows must be stored.

use crate::table::{self, Outcome};
use anyhow::{Context, Result, bail, ensure};
use lazuli_model::{ETag, IfMatch, Timestamp};
use lazuli_testkit::http::{Connection, Operation, Request, Response};
use lazuli_testkit::seed::Seeded;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Operations of one batch, at most.
const BATCH_MAX: usize = 12;

/// Writes to one partition, which is its own, and remembers.
pub(crate) struct Writer {
    table: String,
    partition: String,
    /// Rows that it writes to, one after the other and over again.
    rows_max: u32,
    random: Seeded,
    rows: BTreeMap<String, Row>,
    /// The request whose answer never came: it has happened entirely or not at all.
    doubt: Vec<Change>,
    next_row: u32,
    next_value: u32,
}

/// Rows that are not as was acknowledged.
#[derive(Debug)]
pub(crate) struct LostWrites(pub(crate) Vec<String>);

impl fmt::Display for LostWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows are wrong: {}", self.0.len(), self.0.join("; "))
    }
}

impl std::error::Error for LostWrites {}

/// What is known of one row that was ever written.
#[derive(Debug, Default)]
struct Row {
    /// `None`: deleted, or never acknowledged.
    stored: Option<Stored>,
    /// The greatest time of any ETag this row has had.
    newest: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    content: Content,
    etag: Timestamp,
}

/// `replaced` is set by inserts and replaces, `merged` by merges; no number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    replaced: Option<u32>,
    merged: Option<u32>,
}

/// What a request asks one row to become; `None` when it shall go.
#[derive(Debug)]
struct Change {
    row: String,
    content: Option<Content>,
}

impl Writer {
    pub(crate) fn new(table: &str, partition: String, rows_max: u32, random: Seeded) -> Self {
        Self {
            table: table.to_owned(),
            partition,
            rows_max,
            random,
            rows: BTreeMap::new(),
            doubt: Vec::new(),
            next_row: 0,
            next_value: 0,
        }
    }

    pub(crate) fn rows_present(&self) -> usize {
        self.rows.values().filter(|row| row.stored.is_some()).count()
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.doubt.is_empty()
    }

    /// Sends one request after the other until the connection breaks, which is no error.
    pub(crate) fn write_until_cut_off(
        &mut self,
        mut connection: Connection,
        acknowledge: impl Fn(),
    ) -> Result<()> {
        loop {
            match self.write(&mut connection)? {
                Outcome::Cut(_) => return Ok(()),
                outcome => outcome.done()?,
            }
            acknowledge();
        }
    }

    /// One request: mostly a lone operation, one time in three a batch.
    pub(crate) fn write(&mut self, connection: &mut Connection) -> Result<Outcome> {
        let (operations, changes): (Vec<_>, Vec<_>) = self.choose().into_iter().unzip();
        match send(connection, &operations)? {
            Ok(etags) => {
                self.acknowledged(changes, &etags)?;
                Ok(Outcome::Done)
            }
            Err(outcome) => {
                if !matches!(outcome, Outcome::Busy) {
                    self.doubt = changes;
                }
                Ok(outcome)
            }
        }
    }

    /// A replace with an ETag that the row no longer has, or an insert of a row that is there: the
    /// server must refuse it.
    pub(crate) fn write_in_vain(&mut self, connection: &mut Connection) -> Result<Outcome> {
        let row = self.choose_row();
        let stored = self.rows.get(&row).and_then(|row| row.stored);
        let Some(Stored { content, etag }) = stored else { return self.write(connection) };
        let stale = Timestamp::from_ticks(etag.ticks() - 1).map(|time| ETag(time).to_string());
        let (method, condition, status) = match self.random.one_in(2) {
            true => ("POST", None, 409),
            false => ("PUT", stale, 412),
        };
        let operation = self.operation(method, &row, condition, Some(content));
        match send_lone(connection, &operation) {
            Err(outcome) => Ok(outcome),
            Ok(answer) => {
                ensure!(
                    answer.status == status,
                    "{}/{row}: {method} in vain was answered {}",
                    self.partition,
                    answer.status
                );
                Ok(Outcome::Done)
            }
        }
    }

    /// Reads one row and compares.
    pub(crate) fn read_one(&mut self, connection: &mut Connection) -> Result<Outcome> {
        let row = self.choose_row();
        let path = format!("/{}(PartitionKey='{}',RowKey='{row}')", self.table, self.partition);
        let answer = match table::send(connection, &Request::new("GET", &path)) {
            Ok(answer) => answer,
            Err(outcome) => return Ok(outcome),
        };
        let found = match answer.status {
            200 => Some(parse_entity(&serde_json::from_slice(&answer.body)?)?.1),
            404 => None,
            status => bail!("{path}: {status} {}", answer.text()),
        };
        let expected = self.rows.get(&row).and_then(|row| row.stored);
        ensure!(expected == found, "{path}: acknowledged {expected:?}, found {found:?}");
        Ok(Outcome::Done)
    }

    /// Reads the partition in pages of its choice, and compares.
    pub(crate) fn read_all(&mut self, connection: &mut Connection) -> Result<Outcome> {
        // A handful of pages at most.
        let rows_max = self.rows_max.min(900) as usize;
        let top = rows_max.div_ceil(8) + self.random.below(rows_max);
        let (outcome, found) = self.fetch(connection, top)?;
        if matches!(outcome, Outcome::Done) {
            self.check(&found)?;
        }
        Ok(outcome)
    }

    /// Reads the partition back, settles what was in doubt, and compares the rest.
    pub(crate) fn compare(&mut self, connection: &mut Connection) -> Result<()> {
        let (outcome, found) = self.fetch(connection, 1000)?;
        outcome.done().with_context(|| format!("read {}", self.partition))?;
        self.check(&found)
    }

    fn check(&mut self, found: &BTreeMap<String, Stored>) -> Result<()> {
        self.settle_doubt(found)?;
        let wrong = self.differences(found);
        if wrong.is_empty() { Ok(()) } else { Err(LostWrites(wrong).into()) }
    }

    fn differences(&self, found: &BTreeMap<String, Stored>) -> Vec<String> {
        let partition = &self.partition;
        let differing = self.rows.iter().filter_map(|(row, known)| {
            let (expected, found) = (known.stored.as_ref(), found.get(row));
            (expected != found)
                .then(|| format!("{partition}/{row}: acknowledged {expected:?}, found {found:?}"))
        });
        let strangers = found.keys().filter(|row| !self.rows.contains_key(*row));
        differing.chain(strangers.map(|row| format!("{partition}: nobody wrote {row}"))).collect()
    }

    fn settle_doubt(&mut self, found: &BTreeMap<String, Stored>) -> Result<()> {
        let doubt = std::mem::take(&mut self.doubt);
        let happened =
            |change: &Change| found.get(&change.row).map(|stored| stored.content) == change.content;
        let count = doubt.iter().filter(|change| happened(change)).count();
        ensure!(
            count == 0 || count == doubt.len(),
            "{}: {count} of {} operations of one batch have happened: {doubt:?}, found {found:?}",
            self.partition,
            doubt.len()
        );
        if count > 0 {
            for change in doubt {
                let etag = found.get(&change.row).map(|stored| stored.etag);
                self.remember(change, etag)?;
            }
        }
        Ok(())
    }

    fn acknowledged(&mut self, changes: Vec<Change>, etags: &[Option<String>]) -> Result<()> {
        for (change, etag) in changes.into_iter().zip(etags) {
            let etag = etag.as_deref().map(parse_etag).transpose()?;
            self.remember(change, etag)?;
        }
        Ok(())
    }

    fn remember(&mut self, change: Change, etag: Option<Timestamp>) -> Result<()> {
        let row = self.rows.entry(change.row.clone()).or_default();
        row.stored = match (change.content, etag) {
            (None, _) => None,
            (Some(_), None) => bail!("{}/{}: no ETag", self.partition, change.row),
            (Some(content), Some(etag)) => {
                ensure!(
                    row.newest < Some(etag),
                    "{}/{}: ETag {etag} comes after {:?}",
                    self.partition,
                    change.row,
                    row.newest
                );
                row.newest = Some(etag);
                Some(Stored { content, etag })
            }
        };
        Ok(())
    }

    fn choose(&mut self) -> Vec<(Operation, Change)> {
        let count = if self.random.one_in(3) { 2 + self.random.below(BATCH_MAX - 1) } else { 1 };
        let rows: BTreeSet<String> = (0..count).map(|_| self.choose_row()).collect();
        rows.into_iter().map(|row| self.choose_operation(row)).collect()
    }

    /// A new row one time in two, else one that was written before, deleted or not.
    fn choose_row(&mut self) -> String {
        if self.random.one_in(2) {
            self.next_row = (self.next_row + 1).min(self.rows_max - 1);
        }
        format!("{:06}", self.random.below(self.next_row as usize + 1))
    }

    fn choose_operation(&mut self, row: String) -> (Operation, Change) {
        self.next_value += 1;
        let value = self.next_value;
        let stored = self.rows.get(&row).and_then(|row| row.stored);
        let replaced = Content { replaced: Some(value), merged: None };
        let merged = Content {
            replaced: stored.and_then(|stored| stored.content.replaced),
            merged: Some(value),
        };
        let choice = self.random.below(4);
        let (method, condition, content) = match (stored, choice) {
            (None, 0 | 1) => ("POST", None, Some(replaced)),
            (_, 2) => ("PUT", None, Some(replaced)),
            (None, _) => ("PATCH", None, Some(merged)),
            (Some(stored), 0) => ("DELETE", Some(ETag(stored.etag).to_string()), None),
            (Some(stored), 1) => ("PUT", Some(ETag(stored.etag).to_string()), Some(replaced)),
            (Some(_), _) => ("PATCH", Some("*".to_owned()), Some(merged)),
        };
        let operation = self.operation(method, &row, condition, content);
        (operation, Change { row, content })
    }

    fn operation(
        &self,
        method: &'static str,
        row: &str,
        condition: Option<String>,
        content: Option<Content>,
    ) -> Operation {
        let partition = &self.partition;
        let mut headers: Vec<_> = condition.map(|etag| ("If-Match", etag)).into_iter().collect();
        let path = if method == "POST" {
            headers.push(("Prefer", "return-no-content".to_owned()));
            format!("/{}", self.table)
        } else {
            format!("/{}(PartitionKey='{partition}',RowKey='{row}')", self.table)
        };
        let body = content.map_or_else(String::new, |content| {
            let keys = format!("\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"");
            let member = match content.merged {
                Some(merged) => format!("\"merged\":{merged}"),
                None => format!("\"replaced\":{}", content.replaced.unwrap_or_default()),
            };
            format!("{{{keys},{member}}}")
        });
        Operation { method, path, headers, body }
    }

    fn fetch(
        &self,
        connection: &mut Connection,
        top: usize,
    ) -> Result<(Outcome, BTreeMap<String, Stored>)> {
        let query = format!("$filter=PartitionKey%20eq%20'{}'&$top={top}", self.partition);
        let mut found = BTreeMap::new();
        let outcome = table::scan(connection, &self.table, &query, |body| {
            let page: Value = serde_json::from_slice(body).context("read a page")?;
            let entities = page.get("value").and_then(Value::as_array);
            for entity in entities.context("a page without value")? {
                let (row, stored) = parse_entity(entity)?;
                ensure!(found.insert(row, stored).is_none(), "an entity came twice: {entity}");
            }
            Ok(())
        })?;
        Ok((outcome, found))
    }
}

/// The ETags of the answer, one per operation, or why there are none.
fn send(
    connection: &mut Connection,
    operations: &[Operation],
) -> Result<Result<Vec<Option<String>>, Outcome>> {
    let answer = match operations {
        [lone] => send_lone(connection, lone).map(|answer| {
            let etag = answer.header("etag").map(str::to_owned);
            (answer.status, vec![(answer.status, etag)])
        }),
        several => send_batch(connection, several),
    };
    let (status, parts) = match answer {
        Ok(answer) => answer,
        Err(outcome) => return Ok(Err(outcome)),
    };
    let good = parts.len() == operations.len() && parts.iter().all(|(status, _)| *status == 204);
    ensure!(good, "{operations:?} answered {status} with parts {parts:?}");
    Ok(Ok(parts.into_iter().map(|(_, etag)| etag).collect()))
}

type Answered = (u16, Vec<(u16, Option<String>)>);

/// A batch fails as one, by its own status or by that of its only part.
fn send_batch(connection: &mut Connection, operations: &[Operation]) -> Result<Answered, Outcome> {
    let answer = connection.send_batch(operations).map_err(Outcome::Cut)?;
    let status = answer.parts.first().map_or(answer.status, |(part, _)| answer.status.max(*part));
    match Outcome::of_failure(status, &answer.body) {
        Some(failure) => Err(failure),
        None => Ok((answer.status, answer.parts)),
    }
}

fn send_lone(connection: &mut Connection, operation: &Operation) -> Result<Response, Outcome> {
    let headers: Vec<_> =
        operation.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut request = Request::new(operation.method, &operation.path).headers(&headers);
    if !operation.body.is_empty() {
        request = request.json(&operation.body);
    }
    table::send(connection, &request)
}

fn parse_entity(entity: &Value) -> Result<(String, Stored)> {
    let number = |name: &str| entity[name].as_u64().and_then(|number| u32::try_from(number).ok());
    let content = Content { replaced: number("replaced"), merged: number("merged") };
    let row = entity["RowKey"].as_str().context("an entity without RowKey")?;
    let etag = entity["odata.etag"].as_str().context("an entity without ETag")?;
    Ok((row.to_owned(), Stored { content, etag: parse_etag(etag)? }))
}

fn parse_etag(text: &str) -> Result<Timestamp> {
    match IfMatch::parse(text) {
        Some(IfMatch::Version(ETag(time))) => Ok(time),
        _ => bail!("not an ETag of ours: {text}"),
    }
}

#[cfg(test)]
mod tests;
