//! A writer of the kill test and of the soak: what it does, and what was acknowledged to it.

use anyhow::{Context, Result, bail, ensure};
use lazuli_model::{ETag, Timestamp};
use lazuli_testkit::acknowledged::{
    Acknowledged, Entries, Name, Step, Stored, parse_entity, parse_etag, read_entities,
};
use lazuli_testkit::expiry;
use lazuli_testkit::http::{Connection, Operation, Request};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::table::{self, Outcome};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Maximum operations of one batch.
const BATCH_MAX: usize = 12;

/// Writes to one partition that no other writer touches.
pub(crate) struct Writer {
    table: String,
    partition: String,
    /// Rows that it writes to repeatedly.
    rows_max: u32,
    /// Whether entities of its table expire at the time in their property.
    expires: bool,
    random: Seeded,
    acknowledged: Acknowledged,
    next_row: u32,
    next_value: u32,
}

/// An operation, and its effect on the entity.
type Change = (Operation, (Name, Option<Stored>));

impl Writer {
    pub(crate) fn new(table: &str, partition: String, rows_max: u32, random: Seeded) -> Self {
        Self {
            table: table.to_owned(),
            partition,
            rows_max,
            expires: false,
            random,
            acknowledged: Acknowledged::default(),
            next_row: 0,
            next_value: 0,
        }
    }

    /// Entities of its table expire by the property of [`expiry::turn_on`].
    pub(crate) fn expiring(self) -> Self {
        Self { expires: true, ..self }
    }

    pub(crate) fn rows_present(&self) -> usize {
        self.acknowledged.settled.keys().filter(|name| name.entity.is_some()).count()
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.acknowledged.doubts.is_empty()
    }

    /// Whether it has created its table, which is then its own.
    pub(crate) fn has_table(&self) -> bool {
        self.acknowledged.settled.contains_key(&Name::table(&self.table))
    }

    /// Creates its table, or deletes it with everything in it.
    pub(crate) fn create_or_delete_table(
        &mut self,
        connection: &mut Connection,
    ) -> Result<Outcome> {
        let (step, outcome) = if self.has_table() {
            let all = self.acknowledged.settled.keys().map(|name| (name.clone(), None));
            (all.collect(), table::delete(connection, &self.table)?)
        } else {
            let created = Step::from([(Name::table(&self.table), Some(Stored::default()))]);
            (created, table::create(connection, &self.table)?)
        };
        self.note(step, &outcome)?;
        Ok(outcome)
    }

    /// Sends requests one after another until the connection breaks, which is not an error.
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

    /// One request: a single operation, or a batch one time in three.
    pub(crate) fn write(&mut self, connection: &mut Connection) -> Result<Outcome> {
        let (operations, mut changes): (Vec<_>, Vec<_>) = self.choose().into_iter().unzip();
        let outcome = match table::write(connection, &operations)? {
            Ok(etags) => {
                for ((name, after), etag) in changes.iter_mut().zip(etags) {
                    if let Some(stored) = after {
                        ensure!(etag.is_some(), "{name}: no ETag");
                        stored.etag = etag;
                    }
                }
                Outcome::Done
            }
            Err(outcome) => outcome,
        };
        self.note(changes.into_iter().collect(), &outcome)?;
        Ok(outcome)
    }

    /// A replace with an outdated ETag, or an insert of an existing row: the server must refuse it.
    pub(crate) fn write_refused(&mut self, connection: &mut Connection) -> Result<Outcome> {
        let row = self.choose_row();
        let Some(stored) = self.stored(&row) else { return self.write(connection) };
        let (properties, stale) = (stored.properties.clone(), stale_etag(stored)?);
        let (method, condition, status) = match self.random.one_in(2) {
            true => ("POST", None, 409),
            false => ("PUT", Some(stale), 412),
        };
        let operation = self.operation(method, &row, condition, properties);
        let answer = match connection.send_operation(&operation) {
            Ok(answer) => answer,
            Err(error) => return Ok(Outcome::Cut(error)),
        };
        if let Some(failure) = Outcome::of_failure(answer.status, &answer.text()) {
            return Ok(failure);
        }
        table::expect(&answer, status, || {
            format!("{method} of {} that must be refused", self.name(&row))
        })
    }

    /// Reads one row and compares.
    pub(crate) fn read_one(&mut self, connection: &mut Connection) -> Result<Outcome> {
        let row = self.choose_row();
        let path = self.path(&row);
        let answer = match table::send(connection, &Request::new("GET", &path)) {
            Ok(answer) => answer,
            Err(outcome) => return Ok(outcome),
        };
        let found = match answer.status {
            200 => Some(parse_entity(&self.table, serde_json::from_slice(&answer.body)?)?.1),
            404 => None,
            status => bail!("{path}: {status} {}", answer.text()),
        };
        let expected = self.stored(&row);
        ensure!(expected == found.as_ref(), "{path}: acknowledged {expected:?}, found {found:?}");
        Ok(Outcome::Done)
    }

    /// Reads the partition in pages of random size, and compares.
    pub(crate) fn read_all(&mut self, connection: &mut Connection) -> Result<Outcome> {
        // A handful of pages at most.
        let rows_max = self.rows_max.min(900) as usize;
        let top = rows_max.div_ceil(8) + self.random.below(rows_max);
        let mut found = self.found_table(self.has_table());
        let outcome = self.fetch(connection, top, &mut found)?;
        if matches!(outcome, Outcome::Done) {
            self.acknowledged.check(&found)?;
        }
        Ok(outcome)
    }

    /// Reads everything back, settles the requests in doubt, and compares the rest.
    pub(crate) fn compare(&mut self, connection: &mut Connection) -> Result<()> {
        let found = self.found_table(false);
        self.compare_from(connection, found)
    }

    /// The same for a writer that creates and deletes its table. A recreated table must be empty.
    pub(crate) fn compare_with_table(&mut self, connection: &mut Connection) -> Result<()> {
        if table::exists(connection, &self.table)? {
            let found = self.found_table(true);
            self.compare_from(connection, found)
        } else {
            self.acknowledged.resolve(&Entries::new())
        }
    }

    fn compare_from(&mut self, connection: &mut Connection, mut found: Entries) -> Result<()> {
        let outcome = self.fetch(connection, 1000, &mut found)?;
        outcome.done().with_context(|| format!("read {}", self.partition))?;
        self.acknowledged.resolve(&found)
    }

    fn fetch(
        &self,
        connection: &mut Connection,
        top: usize,
        found: &mut Entries,
    ) -> Result<Outcome> {
        let filter = format!("PartitionKey%20eq%20'{}'", self.partition);
        let path = format!("/{}()?$filter={filter}&$top={top}", self.table);
        read_entities(connection, &self.table, &path, found)
    }

    fn found_table(&self, is_there: bool) -> Entries {
        let name = Name::table(&self.table);
        is_there.then(|| (name, Stored::default())).into_iter().collect()
    }

    /// Records the outcome of a request.
    fn note(&mut self, step: Step, outcome: &Outcome) -> Result<()> {
        match outcome {
            Outcome::Done => self.acknowledged.settle(&step)?,
            Outcome::Busy => {}
            Outcome::Failed { .. } | Outcome::Cut(_) => self.acknowledged.doubts.push(step),
        }
        Ok(())
    }

    fn choose(&mut self) -> Vec<Change> {
        let count = if self.random.one_in(3) { 2 + self.random.below(BATCH_MAX - 1) } else { 1 };
        let rows: BTreeSet<String> = (0..count).map(|_| self.choose_row()).collect();
        rows.into_iter().map(|row| self.choose_operation(&row)).collect()
    }

    /// A new row half of the time, else one that was written before, deleted or not.
    fn choose_row(&mut self) -> String {
        if self.random.one_in(2) {
            self.next_row = (self.next_row + 1).min(self.rows_max - 1);
        }
        format!("{:06}", self.random.below(self.next_row as usize + 1))
    }

    /// Inserts and replaces set the property `replaced`, merges set `merged`; no number is used
    /// twice.
    fn choose_operation(&mut self, row: &str) -> Change {
        self.next_value += 1;
        let property = |name: &str| Map::from_iter([(name.to_owned(), self.next_value.into())]);
        let (mut replaced, mut merged) = (property("replaced"), property("merged"));
        // An entity that has already expired when written counts as deleted.
        if self.expires && self.random.one_in(4) {
            let expires = expiry::property(self.random.one_in(2));
            replaced.extend([expires.clone()]);
            merged.extend([expires]);
        }
        let choice = self.random.below(4);
        let stored = self.stored(row);
        let etag = stored.and_then(|stored| stored.etag.clone());
        let (method, condition, sent) = match (stored, choice) {
            (None, 0 | 1) => ("POST", None, replaced),
            (_, 2) => ("PUT", None, replaced),
            (None, _) => ("PATCH", None, merged),
            (Some(_), 0) => ("DELETE", etag, Map::new()),
            (Some(_), 1) => ("PUT", etag, replaced),
            (Some(_), _) => ("PATCH", Some("*".to_owned()), merged),
        };
        let kept = stored.filter(|_| method == "PATCH").map(|stored| stored.properties.clone());
        let properties: Map<_, _> = kept.into_iter().flatten().chain(sent.clone()).collect();
        let is_gone = method == "DELETE" || self.expires && expiry::is_over(&properties);
        let after = (!is_gone).then_some(Stored { etag: None, properties });
        (self.operation(method, row, condition, sent), (self.name(row), after))
    }

    fn operation(
        &self,
        method: &'static str,
        row: &str,
        condition: Option<String>,
        mut properties: Map<String, Value>,
    ) -> Operation {
        let mut headers: Vec<_> = condition.map(|etag| ("If-Match", etag)).into_iter().collect();
        let path = if method == "POST" {
            headers.push(("Prefer", "return-no-content".to_owned()));
            format!("/{}", self.table)
        } else {
            self.path(row)
        };
        if properties.is_empty() {
            return Operation { method, path, headers, body: String::new() };
        }
        expiry::add_type(&mut properties);
        properties.insert("PartitionKey".to_owned(), self.partition.as_str().into());
        properties.insert("RowKey".to_owned(), row.into());
        Operation { method, path, headers, body: Value::Object(properties).to_string() }
    }

    fn stored(&self, row: &str) -> Option<&Stored> {
        self.acknowledged.settled.get(&self.name(row))
    }

    fn name(&self, row: &str) -> Name {
        Name::entity(&self.table, &self.partition, row)
    }

    fn path(&self, row: &str) -> String {
        format!("/{}(PartitionKey='{}',RowKey='{row}')", self.table, self.partition)
    }
}

/// An ETag that is a little older than the entity's own.
fn stale_etag(stored: &Stored) -> Result<String> {
    let etag = parse_etag(stored.etag.as_deref().context("no ETag is known")?)?;
    let older = Timestamp::from_ticks(etag.ticks() - 1).context("no time is older")?;
    Ok(ETag(older).to_string())
}
