//! Change feeds of tables on a running server: turned on, and replayed.

use crate::acknowledged::{Entries, Keys, Name};
use crate::expiry;
use crate::http::{Connection, Request};
use crate::table::{Outcome, expect, send};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;

const HEADERS: &[(&str, &str)] = &[("x-lazuli-extensions", "on")];
const FEED: &str = r#"{"images":"new","retention_hours":24}"#;

/// Turns the feed of a table on.
pub fn turn_on(connection: &mut Connection, table: &str) -> Result<Outcome> {
    let path = format!("/{table}?comp=lazuli-feed");
    match send(connection, &Request::new("PUT", &path).headers(HEADERS).json(FEED)) {
        Ok(answer) => expect(&answer, 200, || format!("turn on the feed of {table}")),
        Err(outcome) => Ok(outcome),
    }
}

/// Replays the feed of a table, if it has one: the last change of each entity must match `stored`
/// (X-6.5).
pub fn replay(connection: &mut Connection, table: &str, stored: &Entries) -> Result<()> {
    let mut last: BTreeMap<Keys, Option<Image>> = BTreeMap::new();
    let (mut after, mut revision) = (String::new(), String::new());
    loop {
        let path = format!("/{table}?comp=lazuli-changes{after}");
        let answer = connection.send(&Request::new("GET", &path).headers(HEADERS))?;
        match answer.status {
            200 => {}
            404 => return Ok(()),
            status => bail!("{path}: {status} {}", answer.text()),
        }
        let page: Page = serde_json::from_slice(&answer.body).context("read changes")?;
        if page.changes.is_empty() {
            break;
        }
        for change in page.changes {
            ensure!(revision <= change.revision, "{table}: {revision} before {change:?}");
            revision = change.revision;
            let keys = Keys { partition: change.partition, row: change.row };
            let was_there = last.get(&keys).map(Option::is_some);
            let is_insert = change.operation == "insert";
            ensure!(was_there.is_none_or(|was| was != is_insert), "{table}: {keys:?} {is_insert}");
            last.insert(keys, change.new);
        }
        after = format!("&after={}", page.next);
    }
    for (keys, image) in last {
        // An expired entity is gone even before it is swept.
        let image = image.filter(|image| image.at.as_deref() != Some(expiry::PAST));
        let etag = image.map(|image| image.etag);
        let name = Name::entity(table, &keys.partition, &keys.row);
        let found = stored.get(&name).map(|stored| stored.etag.clone().unwrap_or_default());
        ensure!(found == etag, "{name} is {found:?}, and its last change left {etag:?}");
    }
    Ok(())
}

#[derive(Deserialize)]
struct Page {
    changes: Vec<Change>,
    next: String,
}

#[derive(Debug, Deserialize)]
struct Change {
    revision: String,
    operation: String,
    #[serde(rename = "PartitionKey")]
    partition: String,
    #[serde(rename = "RowKey")]
    row: String,
    new: Option<Image>,
}

#[derive(Debug, Deserialize)]
struct Image {
    #[serde(rename = "odata.etag")]
    etag: String,
    #[serde(rename = "At")]
    at: Option<String>,
}
