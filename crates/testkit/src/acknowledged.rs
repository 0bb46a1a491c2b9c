//! What was acknowledged to clients, and must therefore be stored: the checker for lost writes.
//!
//! Everything is an entry: a table under its name, an entity under its table and keys. So a batch
//! and the deletion of a table are both a [`Step`]: entries that change together.
//!
//! An acknowledged step is *settled*. A step without a response, or whose response says that the
//! outcome is unknown, is *in doubt*: it happened entirely or not at all.

use crate::http::Connection;
use crate::table;
use anyhow::{Context, Result, bail, ensure};
use lazuli_model::{ETag, IfMatch, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// A table, or an entity of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name {
    pub table: String,
    pub entity: Option<Keys>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Keys {
    pub partition: String,
    pub row: String,
}

impl Name {
    pub fn table(table: &str) -> Self {
        Self { table: table.to_owned(), entity: None }
    }

    pub fn entity(table: &str, partition: &str, row: &str) -> Self {
        let keys = Keys { partition: partition.to_owned(), row: row.to_owned() };
        Self { table: table.to_owned(), entity: Some(keys) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.entity {
            None => write!(f, "table {}", self.table),
            Some(Keys { partition, row }) => write!(f, "{}/{partition}/{row}", self.table),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// `None` if no response gave it: for steps in doubt, and for tables.
    pub etag: Option<String>,
    /// All properties except the keys and the Timestamp.
    pub properties: Map<String, Value>,
}

impl Stored {
    fn is(&self, expected: &Self) -> bool {
        self.properties == expected.properties
            && (expected.etag.is_none() || self.etag == expected.etag)
    }
}

pub type Entries = BTreeMap<Name, Stored>;

/// Entries that change together: the new state of each, `None` if it is deleted.
pub type Step = BTreeMap<Name, Option<Stored>>;

/// What must be stored, and the steps in doubt.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    pub settled: Entries,
    /// Steps in doubt; no two of them touch the same entry.
    pub doubts: Vec<Step>,
    /// The newest ETag of each entity, including deleted ones.
    newest: BTreeMap<Name, Timestamp>,
}

/// Entries that differ from what was acknowledged.
#[derive(Debug)]
pub struct LostWrites(pub Vec<String>);

impl fmt::Display for LostWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entries are wrong: {}", self.0.len(), self.0.join("; "))
    }
}

impl std::error::Error for LostWrites {}

impl Acknowledged {
    pub fn new(settled: Entries, doubts: Vec<Step>) -> Self {
        Self { settled, doubts, newest: BTreeMap::new() }
    }

    /// The step was acknowledged. The ETags of an entity only increase, even across deletion.
    pub fn settle(&mut self, step: &Step) -> Result<()> {
        for (name, after) in step {
            let etag = after.as_ref().and_then(|stored| stored.etag.as_deref());
            if let Some(etag) = etag.map(parse_etag).transpose()? {
                let newest = self.newest.insert(name.clone(), etag);
                ensure!(newest < Some(etag), "{name}: ETag {etag} comes after {newest:?}");
            }
        }
        apply(&mut self.settled, step);
        Ok(())
    }

    /// Compares with what was found. Returns for each step in doubt whether it happened.
    pub fn check(&self, found: &Entries) -> Result<Vec<bool>> {
        let mut wrong = Vec::new();
        let mut happened = Vec::new();
        for step in &self.doubts {
            let after = step.iter().all(|(name, after)| matches(found.get(name), after.as_ref()));
            let before = step.keys().all(|name| matches(found.get(name), self.settled.get(name)));
            happened.push(after && !before);
            if !after && !before {
                wrong.push(format!("half of a step has happened:{}", self.half(step, found)));
            }
        }
        let in_doubt = |name: &Name| self.doubts.iter().any(|step| step.contains_key(name));
        let strangers = found.keys().filter(|name| !self.settled.contains_key(*name));
        for name in self.settled.keys().chain(strangers).filter(|name| !in_doubt(name)) {
            let (expected, found) = (self.settled.get(name), found.get(name));
            if !matches(found, expected) {
                let (expected, found) = (brief(expected), brief(found));
                wrong.push(format!("{name}: acknowledged {expected}, found {found}"));
            }
        }
        if wrong.is_empty() { Ok(happened) } else { Err(LostWrites(wrong).into()) }
    }

    /// Compares with what was found, and settles the steps in doubt accordingly.
    pub fn resolve(&mut self, found: &Entries) -> Result<()> {
        let happened = self.check(found)?;
        let doubts = std::mem::take(&mut self.doubts).into_iter().zip(happened);
        for (step, _) in doubts.filter(|(_, happened)| *happened) {
            let as_found = |name: Name| {
                let stored = found.get(&name).cloned();
                (name, stored)
            };
            self.settle(&step.into_keys().map(as_found).collect())?;
        }
        Ok(())
    }

    fn half(&self, step: &Step, found: &Entries) -> String {
        let line = |(name, after): (&Name, &Option<Stored>)| {
            let before = brief(self.settled.get(name));
            let (after, found) = (brief(after.as_ref()), brief(found.get(name)));
            format!("\n  {name}: from {before} to {after}, found {found}")
        };
        step.iter().map(line).collect()
    }
}

pub fn apply(entries: &mut Entries, step: &Step) {
    for (name, after) in step {
        match after {
            Some(stored) => entries.insert(name.clone(), stored.clone()),
            None => entries.remove(name),
        };
    }
}

/// The time in one of our ETags.
pub fn parse_etag(text: &str) -> Result<Timestamp> {
    match IfMatch::parse(text) {
        Ok(IfMatch::Version(ETag(time))) => Ok(time),
        _ => bail!("not an ETag of ours: {text}"),
    }
}

/// Reads every table and every entity of the account.
pub fn read_all(connection: &mut Connection) -> Result<Entries> {
    let mut tables = Vec::new();
    let outcome = table::scan(connection, "/Tables", |body| {
        for table in table::items(body)? {
            let name = table.get("TableName").and_then(Value::as_str);
            tables.push(name.context("a table without a name")?.to_owned());
        }
        Ok(())
    })?;
    done(outcome, "/Tables")?;
    let mut entries = Entries::new();
    for table in tables {
        entries.insert(Name::table(&table), Stored::default());
        let path = format!("/{table}()");
        done(read_entities(connection, &table, &path, &mut entries)?, &path)?;
    }
    Ok(entries)
}

/// Reads the entities of `table` that a query returns.
pub fn read_entities(
    connection: &mut Connection,
    table: &str,
    path: &str,
    entries: &mut Entries,
) -> Result<table::Outcome> {
    table::scan(connection, path, |body| {
        for entity in table::items(body)? {
            let (name, stored) = parse_entity(table, entity)?;
            ensure!(!entries.contains_key(&name), "{name} came twice");
            entries.insert(name, stored);
        }
        Ok(())
    })
}

pub fn parse_entity(table: &str, entity: Map<String, Value>) -> Result<(Name, Stored)> {
    let text = |name: &str| {
        let text = entity.get(name).and_then(Value::as_str).map(str::to_owned);
        text.with_context(|| format!("an entity without {name}"))
    };
    let name = Name::entity(table, &text("PartitionKey")?, &text("RowKey")?);
    let etag = Some(text("odata.etag")?);
    let is_property = |name: &str| {
        !name.contains("odata.") && !["PartitionKey", "RowKey", "Timestamp"].contains(&name)
    };
    let properties = entity.into_iter().filter(|(name, _)| is_property(name)).collect();
    Ok((name, Stored { etag, properties }))
}

fn done(outcome: table::Outcome, path: &str) -> Result<()> {
    match outcome {
        table::Outcome::Done => Ok(()),
        other => bail!("{path}: {other}"),
    }
}

fn matches(found: Option<&Stored>, expected: Option<&Stored>) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => found.is(expected),
        (None, None) => true,
        _ => false,
    }
}

fn brief(stored: Option<&Stored>) -> String {
    let text = stored.map_or_else(
        || "nothing".to_owned(),
        |stored| {
            let etag = stored.etag.as_deref().unwrap_or("no etag");
            format!("{etag} {}", Value::Object(stored.properties.clone()))
        },
    );
    text.chars().take(160).collect()
}

#[cfg(test)]
mod tests;
