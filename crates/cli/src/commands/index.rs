//! `lazuli index`: the indexes of a table on a Lazuli server.

use crate::exit::Exit;
use crate::failure::{ending, usage, with_hint};
use crate::output::Grid;
use crate::progress::Progress;
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;
use lazuli_client::{ServerIndex, ServerIndexState, ServerIndexStatus, Table};
use lazuli_model::IndexDefinition;
use lazuli_model::limits::INDEX_PROPERTIES_MAX;
use serde::Serialize;
use std::time::Duration;

/// The pause between polls of an index that is being built.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the indexes of a table and their progress
    #[command(after_help = "Examples:
  lazuli index list People
  lazuli index list People --json")]
    List {
        /// Name of the table
        table: String,
    },
    /// Declare an index, and wait until it is built
    #[command(after_help = "Examples:
  lazuli index set People byAge Age
  lazuli index set People byEmail PartitionKey Email --unique --no-wait")]
    Set {
        /// Name of the table
        table: String,
        /// Name of the index; one with that name is replaced
        name: String,
        /// The indexed properties, in order of comparison
        #[arg(required = true, num_args = 1..=INDEX_PROPERTIES_MAX, value_name = "PROPERTY")]
        on: Vec<String>,
        /// Refuse a value that another entity already has
        #[arg(long)]
        unique: bool,
        /// Do not wait until it is built
        #[arg(long)]
        no_wait: bool,
    },
    /// Drop an index; the entities stay
    #[command(after_help = "Examples:
  lazuli index drop People byCity
  lazuli index drop People byCity --if-present --json")]
    Drop {
        /// Name of the table
        table: String,
        /// Name of the index
        name: String,
        /// Succeed if there is no such index
        #[arg(long)]
        if_present: bool,
    },
    /// Wait until all indexes of a table are built
    #[command(after_help = "Examples:
  lazuli index watch People
  lazuli index watch People --quiet")]
    Watch {
        /// Name of the table
        table: String,
    },
}

#[derive(Serialize)]
struct Listed<'a> {
    indexes: &'a [ServerIndexStatus],
}

pub(crate) async fn run(session: &Session, verb: Verb) -> Result<Exit> {
    match verb {
        Verb::List { table } => {
            print(session, &session.table(&table)?.server_indexes().await?)?;
            Ok(Exit::Done)
        }
        Verb::Set { table, name, on, unique, no_wait } => {
            let table = session.table(&table)?;
            set(session, &table, checked(name, on, unique)?, no_wait).await
        }
        Verb::Drop { table, name, if_present } => drop(session, &table, &name, if_present).await,
        Verb::Watch { table } => watch(session, &session.table(&table)?, None).await,
    }
}

/// An index that a table can have.
fn checked(name: String, on: Vec<String>, unique: bool) -> Result<ServerIndex> {
    IndexDefinition::new(&name, &on, unique).map_err(|error| {
        let advice = "such as `lazuli index set People byEmail Email`";
        usage(error.to_string(), advice)
    })?;
    let index = ServerIndex::new(name, on);
    Ok(if unique { index.unique() } else { index })
}

async fn set(session: &Session, table: &Table, new: ServerIndex, no_wait: bool) -> Result<Exit> {
    let mut indexes = declared(table.server_indexes().await?);
    let name = new.name.clone();
    match indexes.iter_mut().find(|index| is_named(index, &new.name)) {
        Some(known) => *known = new,
        None => indexes.push(new),
    }
    let indexes = table.set_server_indexes(indexes).await?;
    match no_wait {
        true => {
            print(session, &indexes)?;
            Ok(Exit::Done)
        }
        false => watch(session, table, Some(&name)).await,
    }
}

async fn drop(session: &Session, table: &str, name: &str, if_present: bool) -> Result<Exit> {
    let indexes = session.table(table)?;
    let mut left = declared(indexes.server_indexes().await?);
    let before = left.len();
    left.retain(|index| !is_named(index, name));
    if left.len() == before && !if_present {
        let advice = format!("`lazuli index list {table}` lists them");
        return Err(ending(Exit::NotFound, format!("{table} has no index {name}"), advice));
    }
    let shown = indexes.set_server_indexes(left).await?;
    let remark = if before == shown.len() { "there is no index" } else { "dropped" };
    session.out.done(&Listed { indexes: &shown }, format_args!("{remark} {name}"))?;
    Ok(Exit::Done)
}

/// Waits until one index is built, or all are; fails if a build failed.
pub(crate) async fn watch(session: &Session, table: &Table, name: Option<&str>) -> Result<Exit> {
    let is_watched =
        |status: &&ServerIndexStatus| name.is_none_or(|name| is_named(&status.index, name));
    let mut progress = Progress::new(&session.out, "entities");
    let indexes = loop {
        let indexes = table.server_indexes().await?;
        let building = indexes.iter().filter(is_watched);
        let building = building.filter(|index| index.state == ServerIndexState::Building);
        let (done, total) = building
            .clone()
            .fold((0, 0), |(done, total), index| (done + index.done, total + index.total));
        progress.set_of(done, total);
        if building.count() == 0 {
            break indexes;
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    };
    std::mem::drop(progress);
    let mut watched = indexes.iter().filter(is_watched);
    match watched.find(|index| index.state == ServerIndexState::Failed) {
        None => {
            print(session, &indexes)?;
            Ok(Exit::Done)
        }
        Some(failed) => {
            let name = &failed.index.name;
            let reason = failed.error.as_deref().unwrap_or("no reason is known");
            let advice = "change the entities and declare the index again";
            Err(with_hint(format!("the index {name} could not be built: {reason}"), advice))
        }
    }
}

pub(crate) fn print(session: &Session, indexes: &[ServerIndexStatus]) -> Result<()> {
    session.out.either(&Listed { indexes }, || grid(indexes))
}

fn grid(indexes: &[ServerIndexStatus]) -> Grid {
    let heading = ["INDEX", "ON", "UNIQUE", "STATE", "DONE", "TOTAL", "ERROR"];
    let has_failed = indexes.iter().any(|status| status.error.is_some());
    let columns = if has_failed { heading.len() } else { heading.len() - 1 };
    let mut grid = Grid::new(heading.into_iter().take(columns));
    for status in indexes {
        let state = match status.state {
            ServerIndexState::Building => "building",
            ServerIndexState::Ready => "ready",
            ServerIndexState::Failed => "failed",
            _ => "unknown",
        };
        let on = status.index.on.join(",");
        let unique = if status.index.unique { "yes" } else { "no" };
        let (done, total) = (status.done.to_string(), status.total.to_string());
        let error = status.error.as_deref().unwrap_or_default();
        let cells = [status.index.name.as_str(), &on, unique, state, &done, &total, error];
        grid.row(cells.into_iter().take(columns));
    }
    grid
}

fn declared(indexes: Vec<ServerIndexStatus>) -> Vec<ServerIndex> {
    indexes.into_iter().map(|status| status.index).collect()
}

/// Names are case-insensitive.
fn is_named(index: &ServerIndex, name: &str) -> bool {
    index.name.eq_ignore_ascii_case(name)
}
