//! One writer of the kill test: what it does, and what it knows must be stored.

use crate::table;
use anyhow::{Context, Result, bail, ensure};
use lazuli_model::{ETag, IfMatch, Timestamp};
use lazuli_testkit::http::{Connection, Operation, Request};
use lazuli_testkit::seed::Seeded;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

pub(super) const TABLE: &str = "Kill";

/// Operations of one batch, at most.
const BATCH_MAX: usize = 12;

/// Writes to one partition, and remembers.
pub(super) struct Writer {
    partition: String,
    random: Seeded,
    rows: BTreeMap<String, Row>,
    /// The request that was cut off: it has happened entirely or not at all.
    doubt: Vec<Change>,
    next_row: u32,
    next_value: u32,
}

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
    pub(super) fn new(number: usize, random: Seeded) -> Self {
        Self {
            partition: format!("writer-{number}"),
            random,
            rows: BTreeMap::new(),
            doubt: Vec::new(),
            next_row: 0,
            next_value: 0,
        }
    }

    pub(super) fn rows_present(&self) -> usize {
        self.rows.values().filter(|row| row.stored.is_some()).count()
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        !self.doubt.is_empty()
    }

    /// Sends one request after the other until the connection breaks, which is no error.
    pub(super) fn write_until_cut_off(
        &mut self,
        mut connection: Connection,
        acknowledge: impl Fn(),
    ) -> Result<()> {
        loop {
            let (operations, changes): (Vec<_>, Vec<_>) = self.choose().into_iter().unzip();
            match send(&mut connection, &operations)? {
                Some(etags) => self.acknowledged(changes, &etags)?,
                None => {
                    self.doubt = changes;
                    return Ok(());
                }
            }
            acknowledge();
        }
    }

    /// Reads the partition back, settles what was in doubt, and compares the rest.
    pub(super) fn compare(&mut self, connection: &mut Connection) -> Result<()> {
        let found = self.read(connection).with_context(|| format!("read {}", self.partition))?;
        self.check(&found)
    }

    fn check(&mut self, found: &BTreeMap<String, Stored>) -> Result<()> {
        self.settle_doubt(found)?;
        for (row, known) in &self.rows {
            let (expected, found) = (known.stored.as_ref(), found.get(row));
            ensure!(
                expected == found,
                "{}/{row}: acknowledged {expected:?}, found {found:?}",
                self.partition
            );
        }
        let stranger = found.keys().find(|row| !self.rows.contains_key(*row));
        ensure!(stranger.is_none(), "{}: nobody wrote {stranger:?}", self.partition);
        Ok(())
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

    /// One request: mostly a lone operation, one time in three a batch.
    fn choose(&mut self) -> Vec<(Operation, Change)> {
        let count = if self.random.one_in(3) { 2 + self.random.below(BATCH_MAX - 1) } else { 1 };
        let rows: BTreeSet<String> = (0..count).map(|_| self.choose_row()).collect();
        rows.into_iter().map(|row| self.choose_operation(row)).collect()
    }

    /// A new row one time in two, else one that was written before, deleted or not.
    fn choose_row(&mut self) -> String {
        if self.random.one_in(2) {
            self.next_row += 1;
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
            format!("/{TABLE}")
        } else {
            format!("/{TABLE}(PartitionKey='{partition}',RowKey='{row}')")
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

    fn read(&self, connection: &mut Connection) -> Result<BTreeMap<String, Stored>> {
        let query = format!("$filter=PartitionKey%20eq%20'{}'", self.partition);
        let mut found = BTreeMap::new();
        table::scan(connection, TABLE, &query, |body| {
            let page: Value = serde_json::from_slice(body).context("read a page")?;
            let entities = page.get("value").and_then(Value::as_array);
            for entity in entities.context("a page without value")? {
                let (row, stored) = parse_entity(entity)?;
                ensure!(found.insert(row, stored).is_none(), "an entity came twice: {entity}");
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// The ETags of the answer, one per operation; `None` when the connection broke.
fn send(
    connection: &mut Connection,
    operations: &[Operation],
) -> Result<Option<Vec<Option<String>>>> {
    let answer = match operations {
        [lone] => send_lone(connection, lone),
        several => connection.send_batch(several).map(|batch| (batch.status, batch.parts)),
    };
    let Ok((status, parts)) = answer else {
        return Ok(None);
    };
    let good = parts.len() == operations.len() && parts.iter().all(|(status, _)| *status == 204);
    ensure!(good, "{operations:?} answered {status} with parts {parts:?}");
    Ok(Some(parts.into_iter().map(|(_, etag)| etag).collect()))
}

type Answered = (u16, Vec<(u16, Option<String>)>);

fn send_lone(connection: &mut Connection, operation: &Operation) -> io::Result<Answered> {
    let headers: Vec<_> =
        operation.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut request = Request::new(operation.method, &operation.path).headers(&headers);
    if !operation.body.is_empty() {
        request = request.json(&operation.body);
    }
    let response = connection.send(&request)?;
    let etag = response.header("etag").map(str::to_owned);
    Ok((response.status, vec![(response.status, etag)]))
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
mod tests {
    use super::*;

    /// A writer that was told that rows a and b are stored, and that c is deleted.
    fn writer() -> (Writer, BTreeMap<String, Stored>) {
        let mut writer = Writer::new(0, Seeded::new(0));
        for (row, time) in [("a", 1), ("b", 2), ("c", 3)] {
            writer.remember(change(row, Some(time)), etag(time)).unwrap();
        }
        writer.remember(change("c", None), None).unwrap();
        let found = BTreeMap::from([stored("a", 1), stored("b", 2)]);
        writer.check(&found).unwrap();
        (writer, found)
    }

    fn content(value: u32) -> Content {
        Content { replaced: Some(value), merged: None }
    }

    fn change(row: &str, value: Option<u32>) -> Change {
        Change { row: row.to_owned(), content: value.map(content) }
    }

    fn stored(row: &str, value: u32) -> (String, Stored) {
        let etag = Timestamp::from_unix_seconds(value.into());
        (row.to_owned(), Stored { content: content(value), etag })
    }

    fn etag(seconds: u32) -> Option<Timestamp> {
        Some(Timestamp::from_unix_seconds(seconds.into()))
    }

    #[track_caller]
    fn check_fails(doubt: Vec<Change>, spoil: impl Fn(&mut BTreeMap<String, Stored>), why: &str) {
        let (mut writer, mut found) = writer();
        writer.doubt = doubt;
        spoil(&mut found);
        let error = writer.check(&found).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn a_lost_write_is_noticed() {
        check_fails(vec![], |found| found.retain(|row, _| row != "a"), "found None");
    }

    #[test]
    fn an_older_state_is_noticed() {
        check_fails(vec![], |found| found.extend([stored("b", 1)]), "acknowledged");
    }

    #[test]
    fn a_row_that_rises_from_the_dead_is_noticed() {
        check_fails(vec![], |found| found.extend([stored("c", 3)]), "acknowledged None");
        check_fails(vec![], |found| found.extend([stored("z", 9)]), "nobody wrote");
    }

    #[test]
    fn half_a_batch_is_noticed() {
        let batch = || vec![change("a", Some(7)), change("b", None), change("d", Some(8))];
        check_fails(batch(), |found| found.extend([stored("a", 7)]), "1 of 3 operations");
        check_fails(batch(), |found| found.retain(|row, _| row != "b"), "1 of 3 operations");
    }

    #[test]
    fn an_etag_that_steps_back_is_noticed() {
        let (mut writer, _) = writer();
        assert!(writer.remember(change("c", Some(9)), etag(3)).is_err());
        assert!(writer.remember(change("c", Some(9)), etag(4)).is_ok());
        check_fails(vec![change("b", Some(1))], |found| found.extend([stored("b", 1)]), "ETag");
    }

    #[test]
    fn a_request_in_doubt_may_have_happened_or_not() {
        let batch = || vec![change("a", Some(7)), change("b", None), change("d", Some(8))];
        let (mut writer, mut found) = writer();
        writer.doubt = batch();
        writer.check(&found).unwrap();
        writer.doubt = batch();
        found = BTreeMap::from([stored("a", 7), stored("d", 8)]);
        writer.check(&found).unwrap();
        assert_eq!(writer.rows_present(), 2);
    }
}
