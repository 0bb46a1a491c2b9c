//! `lazuli entities`: get, put, query, delete, count.

mod count;
mod delete;
mod get;
mod put;
mod query;

use crate::connect::Target;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::output::{Output, OutputArguments};
use crate::session::Session;
use anyhow::Result;
use clap::{Args, Subcommand};
use lazuli_client::{Entity, Query, Table};

#[derive(Args, Clone, Debug)]
pub struct EntitiesArguments {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Clone, Debug, Subcommand)]
enum Verb {
    /// Print one entity; fails with 3 if it does not exist
    Get(get::GetArguments),
    /// Write entities: insert or replace, unless an option says otherwise
    Put(put::PutArguments),
    /// Print the entities that a filter selects
    Query(query::QueryArguments),
    /// Delete one entity, or those that a filter selects
    Delete(delete::DeleteArguments),
    /// Count entities by reading their keys
    Count(count::CountArguments),
}

pub(crate) async fn run(
    arguments: EntitiesArguments,
    out: Output,
    interrupt: Interrupt,
) -> Result<Exit> {
    let session = Session::open(&arguments.target, out, interrupt)?;
    match arguments.verb {
        Verb::Get(arguments) => get::run(&session, &arguments).await,
        Verb::Put(arguments) => put::run(&session, &arguments).await,
        Verb::Query(arguments) => query::run(&session, &arguments).await,
        Verb::Delete(arguments) => delete::run(&session, &arguments).await,
        Verb::Count(arguments) => count::run(&session, &arguments).await,
    }
}

/// The entities that a filter selects; all of them without one. The user decides what to read, so a scan
/// needs no leave.
fn selected(table: &Table, filter: Option<&str>) -> Result<Query<Entity>> {
    let query = table.scan();
    Ok(match filter {
        Some(text) => query.filter(crate::filter::parse(text)?),
        None => query,
    })
}
