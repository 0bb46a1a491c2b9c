//! `lazuli entities count`: by the server if it can, else by reading the keys.

use crate::exit::Exit;
use crate::output::grouped;
use crate::progress::Progress;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use lazuli_client::{Error, ErrorKind, Table};
use serde::Serialize;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli entities count People
  lazuli entities count People --filter \"PartitionKey eq 'Marketing'\"")]
pub(crate) struct CountArguments {
    /// Name of the table
    table: String,
    /// Count only entities that match
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

/// Counts by the server, or by reading keys only.
pub(super) async fn count(session: &Session, table: &Table, filter: Option<&str>) -> Result<u64> {
    let parsed = filter.map(crate::filter::parse).transpose()?;
    match table.server_count(parsed.map(|parsed| parsed.filter)).await {
        Ok(entities) => Ok(entities),
        Err(error) if may_lack_counts(&error) => by_keys(session, table, filter).await,
        Err(error) => Err(error.into()),
    }
}

/// Whether a service that does not count may have answered so. One that refuses the credential or does not
/// answer would not give the keys either.
fn may_lack_counts(error: &Error) -> bool {
    match error.status().map(|status| status.as_u16()) {
        Some(status) => matches!(status, 400 | 404 | 405 | 501),
        None => matches!(error.kind(), ErrorKind::Protocol(_)),
    }
}

async fn by_keys(session: &Session, table: &Table, filter: Option<&str>) -> Result<u64> {
    let mut pages = super::selected(table, filter)?.select_names(["PartitionKey"]).pages();
    let mut progress = Progress::new(&session.out, "entities");
    let mut is_told = false;
    while let Some(page) = pages.next_page().await? {
        if !std::mem::replace(&mut is_told, true) {
            session.out.remark("this server does not count, so the keys are read");
        }
        progress.add(page.items().len() as u64);
    }
    Ok(progress.done())
}
