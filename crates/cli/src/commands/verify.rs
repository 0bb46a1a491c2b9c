//! `lazuli verify`: compares the indexes and the change feed of a Lazuli server with the entities
//!

use crate::connect::Target;
use crate::exit::Exit;
use crate::output::{Grid, OutputArguments, counted};
use crate::progress::Progress;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use lazuli_client::{IndexDisagreement, IndexVerification, ServerIndexState};
use serde::Serialize;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli verify
  lazuli verify People --json")]
pub(crate) struct VerifyArguments {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Names of tables; all tables of the account if none is given
    #[arg(value_name = "TABLE")]
    tables: Vec<String>,
}

/// The outcome for one table: a line of JSON.
#[derive(Serialize)]
struct Verified<'a> {
    table: &'a str,
    entities: u64,
    entries: u64,
    found: &'a [IndexDisagreement],
    /// Indexes that are not ready and therefore not compared.
    skipped: &'a [String],
}

pub(crate) async fn run(session: &Session, arguments: &VerifyArguments) -> Result<Exit> {
    let tables = match arguments.tables.is_empty() {
        true => session.account.tables().list().await?,
        false => arguments.tables.clone(),
    };
    let mut exit = Exit::Done;
    for table in &tables {
        if verify(session, table).await? == Exit::Damaged {
            exit = Exit::Damaged;
        }
    }
    Ok(exit)
}

async fn verify(session: &Session, name: &str) -> Result<Exit> {
    let table = session.table(name)?;
    let indexes = table.server_indexes().await?;
    let skipped = indexes.iter().filter(|index| index.state != ServerIndexState::Ready);
    let skipped: Vec<String> = skipped.map(|status| status.index.name.clone()).collect();
    let mut all = IndexVerification::default();
    let mut progress = Progress::new(&session.out, "entities and entries");
    loop {
        let page = table.verify_server_indexes(all.next.as_deref()).await?;
        all.entities += page.entities;
        all.entries += page.entries;
        all.found.extend(page.found);
        progress.set(all.entities + all.entries);
        all.next = page.next;
        if all.next.is_none() {
            break;
        }
    }
    drop(progress);
    let IndexVerification { entities, entries, found, .. } = &all;
    let verified =
        Verified { table: name, entities: *entities, entries: *entries, found, skipped: &skipped };
    print(session, &verified)?;
    Ok(if found.is_empty() { Exit::Done } else { Exit::Damaged })
}

fn print(session: &Session, verified: &Verified<'_>) -> Result<()> {
    let Verified { table, entities, entries, found, skipped } = verified;
    for index in *skipped {
        session.out.remark(format_args!(
            "{table}: the index {index} is not ready, and not compared; `lazuli index list {table}` \
             shows why"
        ));
    }
    if session.out.is_json() {
        return session.out.document(verified);
    }
    let compared = format!(
        "{} and {} compared",
        counted(*entities, "entity", "entities"),
        counted(*entries, "entry", "entries")
    );
    let wrong = counted(found.len() as u64, "disagreement", "disagreements");
    session.out.remark(format_args!("{table}: {compared}, {wrong}"));
    if found.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(["INDEX", "PartitionKey", "RowKey", "KIND"]);
    for one in *found {
        grid.row([one.index.as_str(), &one.partition_key, &one.row_key, &one.kind]);
    }
    session.out.grid(&grid)
}
