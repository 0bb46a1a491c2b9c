//! What a client was told, and what must therefore be stored.
//!
//! Everything is an entry: a table under its name, an entity under table and row. So a table that
//! is dropped and a batch are the same: entries that change together.

use anyhow::{Context, Result, ensure};
use lazuli_testkit::http::{Connection, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A table, or a row of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name {
    pub table: String,
    pub row: Option<String>,
}

impl Name {
    pub fn table(table: &str) -> Self {
        Self { table: table.to_owned(), row: None }
    }

    pub fn row(table: &str, row: &str) -> Self {
        Self { table: table.to_owned(), row: Some(row.to_owned()) }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// `None` where nobody was told; a table has none.
    pub etag: Option<String>,
    pub properties: Map<String, Value>,
}

impl Stored {
    fn is(&self, expected: &Self) -> bool {
        self.properties == expected.properties
            && (expected.etag.is_none() || self.etag == expected.etag)
    }
}

pub type Entries = BTreeMap<Name, Stored>;

/// Entries that change together: what each becomes, `None` where it goes.
pub type Step = BTreeMap<Name, Option<Stored>>;

/// What must be stored, but for steps of which nobody knows whether they happened.
#[derive(Clone, Debug, Default)]
pub struct Account {
    pub settled: Entries,
    pub doubts: Vec<Step>,
}

impl Account {
    pub fn settle(&mut self, step: &Step) {
        apply(&mut self.settled, step);
    }

    /// Compares with what was found; the names in `doubts` that happened all the same are told.
    pub fn check(&self, found: &Entries) -> Result<Vec<bool>> {
        let happened = |step: &Step| {
            let is =
                |(name, after): (&Name, &Option<Stored>)| matches(found.get(name), after.as_ref());
            let was = |(name, _): (&Name, &Option<Stored>)| {
                matches(found.get(name), self.settled.get(name))
            };
            let (after, before) = (step.iter().all(is), step.iter().all(was));
            ensure!(after || before, "half of a step has happened: {}", self.half(step, found));
            Ok(after && !before)
        };
        let happened = self.doubts.iter().map(happened).collect::<Result<_>>()?;
        let in_doubt = |name: &&Name| self.doubts.iter().any(|step| step.contains_key(*name));
        let names = self.settled.keys().chain(found.keys()).filter(|name| !in_doubt(name));
        for name in names {
            let (expected, found) = (self.settled.get(name), found.get(name));
            ensure!(
                matches(found, expected),
                "{name:?}: acknowledged {}, found {}",
                brief(expected),
                brief(found)
            );
        }
        Ok(happened)
    }

    fn half(&self, step: &Step, found: &Entries) -> String {
        let line = |(name, after): (&Name, &Option<Stored>)| {
            let before = brief(self.settled.get(name));
            let (after, found) = (brief(after.as_ref()), brief(found.get(name)));
            format!("\n  {name:?}: from {before} to {after}, found {found}")
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

/// Reads every table and every entity that the server has.
pub fn read_all(connection: &mut Connection) -> Result<Entries> {
    let mut entries = Entries::new();
    let mut tables = Vec::new();
    scan(connection, "/Tables", |table| {
        let name =
            table.get("TableName").and_then(Value::as_str).context("a table without name")?;
        tables.push(name.to_owned());
        Ok(())
    })?;
    for table in tables {
        entries.insert(Name::table(&table), Stored::default());
        scan(connection, &format!("/{table}()"), |entity| {
            let (row, stored) = parse_entity(entity)?;
            let twice = entries.insert(Name::row(&table, &row), stored);
            ensure!(twice.is_none(), "{table}/{row} came twice");
            Ok(())
        })?;
    }
    Ok(entries)
}

fn parse_entity(entity: &Map<String, Value>) -> Result<(String, Stored)> {
    let text = |name: &str| entity.get(name).and_then(Value::as_str).map(str::to_owned);
    let row = text("RowKey").context("an entity without RowKey")?;
    let etag = Some(text("odata.etag").context("an entity without ETag")?);
    let kept = |name: &str| {
        !name.contains("odata.") && !["PartitionKey", "RowKey", "Timestamp"].contains(&name)
    };
    let properties = entity.iter().filter(|(name, _)| kept(name));
    let properties = properties.map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok((row, Stored { etag, properties }))
}

/// Follows a query through all its pages.
fn scan(
    connection: &mut Connection,
    path: &str,
    mut each: impl FnMut(&Map<String, Value>) -> Result<()>,
) -> Result<()> {
    let mut continuation = String::new();
    loop {
        let response = connection.send(&Request::new("GET", &format!("{path}{continuation}")))?;
        ensure!(response.status == 200, "{path}: {} {}", response.status, response.text());
        let page: Value = serde_json::from_slice(&response.body).context("read a page")?;
        let items = page.get("value").and_then(Value::as_array).context("a page without value")?;
        for item in items {
            each(item.as_object().context("an item that is no object")?)?;
        }
        let next = ["NextTableName", "NextPartitionKey", "NextRowKey"].map(|name| {
            let value = response.header(&format!("x-ms-continuation-{name}"))?;
            Some(format!("{name}={value}"))
        });
        let next: Vec<String> = next.into_iter().flatten().collect();
        if next.is_empty() {
            return Ok(());
        }
        continuation = format!("?{}", next.join("&"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(n: u32) -> Stored {
        let properties = Map::from_iter([("n".to_owned(), Value::from(n))]);
        Stored { etag: Some(format!("etag {n}")), properties }
    }

    fn entries(rows: &[(&str, u32)]) -> Entries {
        rows.iter().map(|(row, n)| (Name::row("T", row), stored(*n))).collect()
    }

    #[track_caller]
    fn check(doubt: &[(&str, Option<u32>)], found: &[(&str, u32)], expected: Result<bool, &str>) {
        let step = doubt.iter().map(|(row, n)| (Name::row("T", row), n.map(stored))).collect();
        let account = Account { settled: entries(&[("a", 1), ("b", 2)]), doubts: vec![step] };
        match (account.check(&entries(found)), expected) {
            (Ok(happened), Ok(expected)) => assert_eq!(happened, [expected]),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_step_in_doubt_has_happened_or_not() {
        let step = [("a", Some(7)), ("b", None), ("c", Some(8))];
        check(&step, &[("a", 1), ("b", 2)], Ok(false));
        check(&step, &[("a", 7), ("c", 8)], Ok(true));
        check(&step, &[("a", 7), ("b", 2)], Err("half of a step"));
        check(&step, &[("a", 1)], Err("half of a step"));
    }

    #[test]
    fn what_is_not_in_doubt_is_as_told() {
        check(&[("c", Some(3))], &[("a", 1)], Err("found nothing"));
        check(&[("c", Some(3))], &[("a", 1), ("b", 1)], Err("acknowledged"));
        check(&[("c", Some(3))], &[("a", 1), ("b", 2), ("d", 1)], Err("acknowledged nothing"));
    }
}
