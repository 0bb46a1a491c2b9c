//! `lazuli entities count`: reads the keys and counts them.

use crate::exit::Exit;
use crate::output::grouped;
use crate::progress::Progress;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use lazuli_client::Table;
use serde::Serialize;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli entities count People
  lazuli entities count People --filter \"PartitionKey eq 'Marketing'\"")]
pub(crate) struct CountArguments {
    /// Name of the table
    table: String,
    /// Count only entities of which this is true
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
}

#[derive(Serialize)]
struct Counted {
    entities: u64,
}

pub(super) async fn run(session: &Session, arguments: &CountArguments) -> Result<Exit> {
    let table = session.table(&arguments.table)?;
    let entities = count(session, &table, arguments.filter.as_deref()).await?;
    match session.out.is_json() {
        true => session.out.document(&Counted { entities })?,
        false => session.out.bytes(format!("{}\n", grouped(entities)).as_bytes())?,
    }
    Ok(Exit::Done)
}

/// Counts by reading keys only.
pub(super) async fn count(session: &Session, table: &Table, filter: Option<&str>) -> Result<u64> {
    let mut pages = super::selected(table, filter)?.select_names(["PartitionKey"]).pages();
    let mut progress = Progress::new(&session.out, "entities");
    while let Some(page) = pages.next_page().await? {
        progress.add(page.items().len() as u64);
    }
    Ok(progress.done())
}
