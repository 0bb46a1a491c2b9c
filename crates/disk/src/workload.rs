//! What the clients do: seeded steps, each on tables that one client owns.

mod outbox;
mod queues;

use crate::bench::Lines;
use anyhow::Result;
use lazuli_testkit::acknowledged::{Entries, Name, Step, Stored};
use lazuli_testkit::http::{Connection, Operation};
use lazuli_testkit::outbox::put;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::table::{self, Outcome};
use lazuli_testkit::{expiry, feeds, indexes, queue};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Rows of a batch that fills a table: enough that dropping the table drops files.
const FILL_ROWS: usize = 100;
/// Text of each row of a batch that fills a journal: it does not compress.
const BULK_BYTES: usize = 30_000;
/// The partition of every entity.
const PARTITION: &str = "p";
/// The indexes of tables: on a number that is unique to each write, and on text.
const INDEXES: &str =
    r#"[{"name":"byN","on":["n"],"unique":true},{"name":"byText","on":["nText","n"]}]"#;
/// Maximum rows of any other batch.
const BATCH_ROWS_MAX: usize = 8;

/// The plan of one client, and its choices so far.
#[derive(Debug)]
pub struct Workload {
    client: usize,
    random: Seeded,
    tables: Vec<String>,
    /// Tables whose indexes are not yet declared.
    unindexed: Vec<String>,
    /// Tables whose entities set their own expiry time.
    expiring: BTreeSet<String>,
    tables_made: usize,
    rows: usize,
    values: u32,
    fills: usize,
    bulk: usize,
    /// Names that must not be touched again, because their content is unknown.
    frozen: BTreeSet<Name>,
    queues: queues::Queues,
    outbox: outbox::Outbox,
}

/// One request, and its intended effect.
#[derive(Debug)]
pub struct Chosen {
    request: Asked,
    pub step: Step,
}

#[derive(Debug)]
enum Asked {
    CreateTable(String),
    DeleteTable(String),
    DeclareIndexes(String),
    /// Operations, and the entity that each of them names.
    Write(Vec<Operation>, Vec<Name>),
    OfQueue(queues::Asked),
    /// The same as `Write`, with a message that is put into a queue.
    Send(Vec<Operation>, Vec<Name>),
}

/// An operation, and its effect on the entity.
type Change = (Operation, (Name, Option<Stored>));

impl Workload {
    pub fn new(client: usize, random: &Seeded) -> Self {
        Self {
            client,
            random: random.stream(client as u64),
            tables: Vec::new(),
            unindexed: Vec::new(),
            expiring: BTreeSet::new(),
            tables_made: 0,
            rows: 0,
            values: 0,
            fills: 0,
            bulk: 0,
            frozen: BTreeSet::new(),
            queues: queues::Queues::new(client, random),
            outbox: outbox::Outbox::new(client),
        }
    }

    /// Makes one large table, `fills` times [`FILL_ROWS`] rows, drops it when full, and does
    /// everything else in between.
    pub fn with_fills(self, fills: usize) -> Self {
        Self { fills, ..self }
    }

    /// Writes the same [`FILL_ROWS`] rows `bulk` times over with 3 MB, before everything else.
    pub fn with_bulk(self, bulk: usize) -> Self {
        Self { bulk, ..self }
    }

    /// The next step, given what is stored now.
    pub fn choose(&mut self, entries: &Entries) -> Chosen {
        if self.random.one_in(3)
            && let Some(table) = self.unindexed.pop()
        {
            return Chosen { request: Asked::DeclareIndexes(table), step: Step::new() };
        }
        match self.tables.as_slice() {
            [] => return self.create_table(),
            [table, ..] if self.bulk > 0 => {
                let table = table.clone();
                return self.overwrite(&table);
            }
            [table, ..] if self.fills == 0 && self.random.one_in(6) && !self.outbox.is_over() => {
                let table = table.clone();
                return self.send_message(&table);
            }
            _ if self.fills == 0 && self.random.one_in(4) => {
                let (request, step) = self.queues.choose(entries);
                return Chosen { request: Asked::OfQueue(request), step };
            }
            [_] if self.random.one_in(8) || self.fills > 0 => return self.create_table(),
            [_, second, ..] if self.fills > 0 && self.random.one_in(2) => {
                let table = second.clone();
                return self.fill(&table);
            }
            [_, second, ..]
                if self.fills == 0
                    && self.random.one_in(8)
                    && !self.frozen.iter().any(|name| name.table == *second) =>
            {
                let table = second.clone();
                return self.delete_table(&table, entries);
            }
            _ => {}
        }
        let index = self.random.below(self.tables.len());
        let table = self.tables.get(index).cloned().unwrap_or_default();
        let count =
            if self.random.one_in(3) { 2 + self.random.below(BATCH_ROWS_MAX - 1) } else { 1 };
        self.write(&table, count, entries)
    }

    /// Sends a request; if it succeeds, its step gets the ETags.
    pub fn send(&mut self, chosen: &mut Chosen, lines: &mut Lines) -> Result<Outcome> {
        let (written, names) = match &chosen.request {
            Asked::CreateTable(table) => return table::create(&mut lines.tables, table),
            Asked::DeleteTable(table) => return table::delete(&mut lines.tables, table),
            Asked::DeclareIndexes(table) => {
                let outcome = declare(&mut lines.tables, table)?;
                if matches!(outcome, Outcome::Done) {
                    self.expiring.insert(table.clone());
                }
                return Ok(outcome);
            }
            Asked::OfQueue(request) => return self.queues.send(request, &mut lines.queues),
            Asked::Write(operations, names) => {
                (table::write(&mut lines.tables, operations)?, names)
            }
            Asked::Send(operations, names) => {
                (table::transact(&mut lines.tables, operations)?, names)
            }
        };
        let etags = match written {
            Ok(etags) => etags,
            Err(outcome) => return Ok(outcome),
        };
        for (name, etag) in names.iter().zip(etags) {
            if let Some(Some(stored)) = chosen.step.get_mut(name) {
                stored.etag = etag;
            }
        }
        Ok(Outcome::Done)
    }

    /// Excludes everything that `step` names from later steps.
    pub fn freeze(&mut self, step: &Step) {
        self.queues.freeze(step);
        self.outbox.freeze(step);
        for name in step.keys() {
            self.frozen.insert(name.clone());
            if name.entity.is_none() {
                self.tables.retain(|table| *table != name.table);
                self.unindexed.retain(|table| *table != name.table);
                self.expiring.remove(&name.table);
            }
        }
    }

    /// A new row, and a message, in one transaction.
    fn send_message(&mut self, table: &str) -> Chosen {
        let Some(mark) = self.outbox.next_mark() else {
            let queue = self.outbox.create();
            let step = Step::from([(Name::queue(&queue), Some(Stored::default()))]);
            return Chosen { request: Asked::OfQueue(queues::Asked::Create(queue)), step };
        };
        let (operation, (name, after)) = self.new_row(table);
        let message = (Name::message(self.outbox.queue(), &mark), Some(queue::stored(&mark)));
        let step = Step::from([(name.clone(), after), message]);
        let operations = vec![operation, put(self.outbox.queue(), &mark)];
        Chosen { request: Asked::Send(operations, vec![name]), step }
    }

    /// Names are reused: a dropped table is recreated, and must be empty.
    fn create_table(&mut self) -> Chosen {
        self.tables_made += 1;
        let name = |number: usize| format!("Client{}Table{number}", self.client);
        let is_free = |table: &String| {
            !self.tables.contains(table) && !self.frozen.contains(&Name::table(table))
        };
        let known = (0..4).map(|ahead| name((self.tables_made + ahead) % 4));
        let table = known.into_iter().find(is_free).unwrap_or_else(|| name(self.tables_made + 4));
        self.tables.push(table.clone());
        self.unindexed.push(table.clone());
        let step = Step::from([(Name::table(&table), Some(Stored::default()))]);
        Chosen { request: Asked::CreateTable(table), step }
    }

    fn delete_table(&mut self, table: &str, entries: &Entries) -> Chosen {
        self.tables.retain(|kept| kept != table);
        self.unindexed.retain(|kept| kept != table);
        self.expiring.remove(table);
        let of_table = entries.keys().filter(|name| name.table == table);
        let step = of_table.map(|name| (name.clone(), None)).collect();
        Chosen { request: Asked::DeleteTable(table.to_owned()), step }
    }

    fn fill(&mut self, table: &str) -> Chosen {
        self.fills -= 1;
        Chosen::write((0..FILL_ROWS).map(|_| self.new_row(table)).collect())
    }

    fn overwrite(&mut self, table: &str) -> Chosen {
        self.bulk -= 1;
        let rows = (0..FILL_ROWS).map(|number| {
            let row = format!("bulk-{number:03}");
            let text: String = (0..BULK_BYTES).map(|_| letter(self.random.below(26))).collect();
            let properties = Map::from_iter([("text".to_owned(), Value::from(text))]);
            let path = entity_path(table, &row);
            let body = Value::Object(properties.clone()).to_string();
            let operation = Operation { method: "PUT", path, headers: vec![], body };
            (
                operation,
                (Name::entity(table, PARTITION, &row), Some(Stored { etag: None, properties })),
            )
        });
        Chosen::write(rows.collect())
    }

    fn write(&mut self, table: &str, count: usize, entries: &Entries) -> Chosen {
        let mut names: BTreeSet<Name> = BTreeSet::new();
        let mut parts = Vec::new();
        for _ in 0..count {
            let (operation, change) = match self.known_row(table, entries) {
                Some((name, stored)) if !names.contains(&name) => self.change_row(name, &stored),
                _ => self.new_row(table),
            };
            names.insert(change.0.clone());
            parts.push((operation, change));
        }
        Chosen::write(parts)
    }

    /// An existing row, half of the time.
    fn known_row(&mut self, table: &str, entries: &Entries) -> Option<(Name, Stored)> {
        if self.random.one_in(2) {
            return None;
        }
        let usable = |name: &&Name| {
            name.table == table && name.entity.is_some() && !self.frozen.contains(*name)
        };
        let rows: Vec<&Name> = entries.keys().filter(usable).collect();
        let name = (*rows.get(self.random.below(rows.len()))?).clone();
        let stored = entries.get(&name)?.clone();
        Some((name, stored))
    }

    fn new_row(&mut self, table: &str) -> Change {
        // Not in chronological order, so that new rows land between old ones.
        let row = format!("{:02}-{:05}", self.random.below(100), self.rows);
        self.rows += 1;
        let properties = self.properties("n", table);
        let body = self.body(Some(&row), &properties);
        let headers = vec![("Prefer", "return-no-content".to_owned())];
        let operation = Operation { method: "POST", path: format!("/{table}"), headers, body };
        (operation, (Name::entity(table, PARTITION, &row), left(properties)))
    }

    /// Replaces, merges or deletes, with or without the row's ETag.
    fn change_row(&mut self, name: Name, stored: &Stored) -> Change {
        let row = name.entity.as_ref().map_or("", |keys| &keys.row);
        let path = entity_path(&name.table, row);
        let etag = stored.etag.clone().filter(|_| self.random.one_in(2));
        let headers = vec![("If-Match", etag.unwrap_or_else(|| "*".to_owned()))];
        let (method, properties) = match self.random.below(3) {
            0 => ("DELETE", None),
            1 => ("PUT", Some(self.properties("n", &name.table))),
            _ => ("PATCH", Some(self.properties("m", &name.table))),
        };
        let body = properties.as_ref().map_or_else(String::new, |new| self.body(None, new));
        let after = properties.and_then(|new| {
            let old = if method == "PATCH" { stored.properties.clone() } else { Map::new() };
            left(old.into_iter().chain(new).collect())
        });
        (Operation { method, path, headers, body }, (name, after))
    }

    /// A number unique to this write, and some text, sometimes long.
    fn properties(&mut self, name: &str, table: &str) -> Map<String, Value> {
        self.values += 1;
        let bytes = match self.random.below(10) {
            0 => 2000 + self.random.below(12_000),
            1..=4 => 200 + self.random.below(400),
            _ => self.random.below(30),
        };
        let text: String = (0..bytes).map(|at| letter(self.values as usize + at / 7)).collect();
        let mut properties = Map::from_iter([
            (name.to_owned(), Value::from(self.values)),
            (format!("{name}Text"), Value::from(text)),
        ]);
        if self.expiring.contains(table) && self.random.one_in(4) {
            properties.extend([expiry::property(self.random.one_in(2))]);
        }
        properties
    }

    fn body(&self, row: Option<&str>, properties: &Map<String, Value>) -> String {
        let mut body = properties.clone();
        expiry::add_type(&mut body);
        if let Some(row) = row {
            body.insert("PartitionKey".to_owned(), PARTITION.into());
            body.insert("RowKey".to_owned(), row.into());
        }
        Value::Object(body).to_string()
    }
}

impl Chosen {
    fn write(changes: Vec<Change>) -> Self {
        let (operations, changes): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        let names = changes.iter().map(|(name, _)| name.clone()).collect();
        Self { request: Asked::Write(operations, names), step: changes.into_iter().collect() }
    }
}

/// Gives a table all its settings; after a fault it may have some or none of them.
fn declare(connection: &mut Connection, table: &str) -> Result<Outcome> {
    for set in [
        |connection: &mut _, table: &_| indexes::declare(connection, table, INDEXES),
        feeds::turn_on,
        expiry::turn_on,
    ] {
        match set(connection, table)? {
            Outcome::Done => {}
            failed => return Ok(failed),
        }
    }
    Ok(Outcome::Done)
}

/// What a write leaves. An entity that has already expired when written does not exist.
fn left(properties: Map<String, Value>) -> Option<Stored> {
    (!expiry::is_over(&properties)).then_some(Stored { etag: None, properties })
}

fn entity_path(table: &str, row: &str) -> String {
    format!("/{table}(PartitionKey='{PARTITION}',RowKey='{row}')")
}

fn letter(n: usize) -> char {
    char::from(b'a' + (n % 26) as u8)
}
