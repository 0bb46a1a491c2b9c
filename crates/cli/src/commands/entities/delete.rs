//! `lazuli entities delete`: one entity, or those that a filter selects, in transactions.

use crate::confirm::Confirmation;
use crate::exit::Exit;
use crate::failure::{ending, usage};
use crate::output::counted;
use crate::progress::Progress;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use lazuli_client::{Deleted, ETag, Entity, Loaded, Table};
use serde::Serialize;

/// Operations of a transaction, at most (T-6.1).
const BATCH_MAX: usize = lazuli_model::limits::BATCH_OPERATIONS_MAX;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli entities delete People Marketing 00001
  lazuli entities delete People --filter \"Age lt 18\" --yes")]
pub(super) struct DeleteArguments {
    /// Name of the table
    table: String,

    /// Partition key of the entity
    #[arg(requires = "row_key", conflicts_with = "filter")]
    partition_key: Option<String>,

    /// Row key of the entity
    row_key: Option<String>,

    /// Only if the entity is of this version
    #[arg(long, value_name = "ETAG", conflicts_with = "filter")]
    if_match: Option<String>,

    /// Delete all entities of which this is true
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,

    /// With --filter: count the entities and delete nothing
    #[arg(long, requires = "filter")]
    dry_run: bool,

    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    deleted: u64,
    /// Changed by somebody else while the command ran, and so not deleted.
    changed: u64,
    dry_run: bool,
}

pub(super) async fn run(session: &Session, arguments: &DeleteArguments) -> Result<Exit> {
    let table = session.table(&arguments.table)?;
    match (&arguments.partition_key, &arguments.row_key, &arguments.filter) {
        (Some(partition_key), Some(row_key), _) => {
            let etag = arguments.if_match.as_deref().map(ETag::new);
            one(session, &table, (partition_key, row_key), etag.as_ref()).await
        }
        (_, _, Some(filter)) => selected(session, &table, filter, arguments).await,
        _ => Err(usage("what to delete is missing", "give both keys, or --filter")),
    }
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
    let report = Report { deleted: 1, changed: 0, dry_run: false };
    session.out.done(&report, "deleted 1 entity")?;
    Ok(Exit::Done)
}

/// Reads the entities and deletes them in transactions. An entity that somebody changes between the two is
/// left alone: it may no longer be one of those.
async fn selected(
    session: &Session,
    table: &Table,
    filter: &str,
    arguments: &DeleteArguments,
) -> Result<Exit> {
    let query = super::selected(table, Some(filter))?.select_names(["PartitionKey"]);
    if !arguments.dry_run {
        let deed = format!("deleting the entities of {} where {filter}", table.name());
        arguments.confirmation.ask(&deed, table.name()).await?;
    }
    let mut progress = Progress::new(&session.out, "entities");
    let mut changed = 0;
    let mut is_stopped = false;
    session.interrupt.end_in_order();
    let mut pages = query.pages();
    while let Some(page) = pages.next_page().await? {
        if arguments.dry_run {
            progress.add(page.items().len() as u64);
            continue;
        }
        let in_one_partition =
            |a: &Loaded<Entity>, b: &Loaded<Entity>| a.partition_key() == b.partition_key();
        for group in page.items().chunk_by(in_one_partition).flat_map(|g| g.chunks(BATCH_MAX)) {
            let deleted = transaction(table, group).await?;
            changed += group.len() as u64 - deleted;
            progress.add(deleted);
            is_stopped = session.interrupt.is_asked();
            if is_stopped {
                break;
            }
        }
        if is_stopped {
            break;
        }
    }
    let deleted = progress.done();
    drop(progress);
    report(session, deleted, changed, is_stopped, arguments.dry_run)
}

fn report(
    session: &Session,
    deleted: u64,
    changed: u64,
    is_stopped: bool,
    dry_run: bool,
) -> Result<Exit> {
    let deed = if dry_run { "would delete" } else { "deleted" };
    let mut remark = format!("{deed} {}", counted(deleted, "entity", "entities"));
    if changed > 0 {
        remark += &format!("; {changed} changed meanwhile and were left");
    }
    session.out.done(&Report { deleted, changed, dry_run }, remark)?;
    match is_stopped || changed > 0 {
        true => {
            session.out.remark("run it again to delete the rest");
            Ok(Exit::Partial)
        }
        false => Ok(Exit::Done),
    }
}

/// Deletes up to 100 entities of one partition; returns how many are gone.
async fn transaction(table: &Table, entities: &[Loaded<Entity>]) -> Result<u64> {
    let Some(first) = entities.first() else { return Ok(0) };
    let batch = table.batch(first.partition_key());
    let batch = entities.iter().fold(batch, |batch, entity| batch.delete(entity));
    match batch.commit().await {
        Ok(_) => Ok(entities.len() as u64),
        Err(error) if is_about_one(&error) => one_by_one(table, entities).await,
        Err(error) => Err(error.into()),
    }
}

/// Somebody deleted or changed an entity, and so the transaction failed.
async fn one_by_one(table: &Table, entities: &[Loaded<Entity>]) -> Result<u64> {
    let mut gone = 0;
    for entity in entities {
        match table.delete(entity).await {
            Ok(_) => gone += 1,
            Err(error) if error.is_not_found() => gone += 1,
            Err(error) if error.is_precondition_failed() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(gone)
}

fn is_about_one(error: &lazuli_client::Error) -> bool {
    let is_of_the_table = *error.kind() == lazuli_client::ErrorKind::TableNotFound;
    !is_of_the_table && (error.is_not_found() || error.is_precondition_failed())
}
