//! `lazuli entities delete`: one entity, or those that match a filter, in transactions.

use crate::confirm::Confirmation;
use crate::exit::Exit;
use crate::failure::{Hint, ending, usage};
use crate::filter::Parsed;
use crate::output::counted;
use crate::progress::Progress;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use lazuli_client::{Deleted, ETag, Filter, Table};
use serde::Serialize;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli entities delete People Marketing 00001
  lazuli entities delete People --filter \"Age lt 18\" --yes")]
pub(crate) struct DeleteArguments {
    /// Name of the table
    table: String,

    /// Partition key of the entity
    #[arg(requires = "row_key", conflicts_with = "filter")]
    partition_key: Option<String>,

    /// Row key of the entity
    row_key: Option<String>,

    /// Only if the entity still has this ETag
    #[arg(long, value_name = "ETAG", conflicts_with = "filter")]
    if_match: Option<String>,

    /// Delete all entities that match
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,

    /// Count the entities and delete nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    deleted: u64,
    /// Left alone because another client changed or deleted them while the command ran.
    skipped: u64,
    dry_run: bool,
}

pub(super) async fn run(session: &Session, arguments: &DeleteArguments) -> Result<Exit> {
    let table = session.table(&arguments.table)?;
    match (&arguments.partition_key, &arguments.row_key, &arguments.filter) {
        (Some(partition_key), Some(row_key), _) => {
            let etag = arguments.if_match.as_deref().map(ETag::new);
            let key = (&**partition_key, &**row_key);
            match arguments.dry_run {
                true => would_delete(session, &table, key, etag.as_ref()).await,
                false => one(session, &table, key, etag.as_ref()).await,
            }
        }
        (_, _, Some(filter)) => selected(session, &table, filter, arguments).await,
        _ => Err(usage("what to delete is missing", "give both keys, or --filter")),
    }
}

/// Whether the entity exists, in the given version.
async fn would_delete(
    session: &Session,
    table: &Table,
    key: (&str, &str),
    etag: Option<&ETag>,
) -> Result<Exit> {
    let entity = table.get(key).required().await?;
    if etag.is_some_and(|etag| *etag != ETag::any() && etag != entity.etag()) {
        let problem = format!("({}, {}) is of another version", key.0, key.1);
        return Err(ending(Exit::Conflict, problem, "read the entity again for its ETag"));
    }
    session.out.done(&Report { deleted: 1, skipped: 0, dry_run: true }, "would delete 1 entity")?;
    Ok(Exit::Done)
}

async fn one(
    session: &Session,
    table: &Table,
    key: (&str, &str),
    etag: Option<&ETag>,
) -> Result<Exit> {
    let deleted = match etag {
        Some(etag) => table.delete_if_match(key, etag).await?,
        None => table.delete_key(key).await?,
    };
    if deleted == Deleted::WasAbsent {
        let problem = format!("there is no entity ({}, {}) in {}", key.0, key.1, table.name());
        return Err(ending(Exit::NotFound, problem, "keys are compared exactly, case included"));
    }
    let report = Report { deleted: 1, skipped: 0, dry_run: false };
    session.out.done(&report, "deleted 1 entity")?;
    Ok(Exit::Done)
}

/// Reads the entities and deletes them in transactions. An entity that changes in between is left alone: it may no
/// longer match.
async fn selected(
    session: &Session,
    table: &Table,
    filter: &str,
    arguments: &DeleteArguments,
) -> Result<Exit> {
    let Parsed { filter: parsed, is_extended } = crate::filter::parse(filter)?;
    if arguments.dry_run {
        let deleted = super::count::count(session, table, Some(filter)).await?;
        let remark = format!("would delete {}", counted(deleted, "entity", "entities"));
        session.out.done(&Report { deleted, skipped: 0, dry_run: true }, remark)?;
        return Ok(Exit::Done);
    }
    let deed = format!("deleting the entities of {} where {filter}", table.name());
    arguments.confirmation.ask(&deed, table.name()).await?;
    session.interrupt.end_in_order();
    if is_extended {
        return by_server(session, table, parsed).await;
    }
    let so_far = Arc::new(AtomicU64::new(0));
    let noted = so_far.clone();
    let mut progress = Progress::new(&session.out, "entities");
    let deletion = table.bulk().progress(move |report| {
        noted.store(report.written, Ordering::Relaxed);
        progress.set(report.written);
    });
    let deletion = deletion.delete_where(parsed).into_future();
    let Some(outcome) = session.interrupt.or(deletion).await else {
        let deleted = counted(so_far.load(Ordering::Relaxed), "entity", "entities");
        let problem = format!("stopped after {deleted}");
        return Err(ending(Exit::Partial, problem, "run it again to delete the rest"));
    };
    let report = outcome?;
    let (deleted, skipped) = (report.written, report.skipped);
    if let Err(error) = report.into_result() {
        let advice = "run it again to delete the rest".to_owned();
        let problem = format!("stopped after {}", counted(deleted, "entity", "entities"));
        return Err(match deleted {
            0 => error.into(),
            _ => anyhow::Error::from(error).context(Hint { exit: Exit::Partial, problem, advice }),
        });
    }
    let mut remark = format!("deleted {}", counted(deleted, "entity", "entities"));
    if skipped > 0 {
        remark += &format!("; {skipped} changed or went meanwhile: run it again");
    }
    session.out.done(&Report { deleted, skipped, dry_run: false }, remark)?;
    Ok(if skipped > 0 { Exit::Partial } else { Exit::Done })
}

/// The same on the server, for a filter that only a Lazuli server understands. It skips entities that change in
/// the meantime, without counting them.
async fn by_server(session: &Session, table: &Table, filter: Filter) -> Result<Exit> {
    let deletion = table.server_delete(filter).into_future();
    let Some(outcome) = session.interrupt.or(deletion).await else {
        return Err(ending(Exit::Partial, "stopped", "run it again to delete the rest"));
    };
    let deleted = outcome?;
    let remark = format!("deleted {}", counted(deleted, "entity", "entities"));
    session.out.done(&Report { deleted, skipped: 0, dry_run: false }, remark)?;
    Ok(Exit::Done)
}
