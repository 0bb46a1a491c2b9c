//! `lazuli entities`: get, put, query, delete, count.

mod count;
mod delete;
mod get;
mod put;
mod query;

use crate::exit::Exit;
use crate::filter::Parsed;
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;
use http::{HeaderName, HeaderValue};
use lazuli_client::{Entity, Query, Table};

const EXTENSIONS: HeaderName = HeaderName::from_static("x-lazuli-extensions");

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
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

pub(crate) async fn run(session: &Session, verb: Verb) -> Result<Exit> {
    match verb {
        Verb::Get(arguments) => get::run(session, &arguments).await,
        Verb::Put(arguments) => put::run(session, &arguments).await,
        Verb::Query(arguments) => query::run(session, &arguments).await,
        Verb::Delete(arguments) => delete::run(session, &arguments).await,
        Verb::Count(arguments) => count::run(session, &arguments).await,
    }
}

/// The entities that a filter selects; all of them without one. The user decides what to read, so a scan
/// needs no leave.
fn selected(table: &Table, filter: Option<&str>) -> Result<Query<Entity>> {
    let query = table.scan();
    let Some(text) = filter else { return Ok(query) };
    let Parsed { filter, is_extended } = crate::filter::parse(text)?;
    let query = query.filter(filter);
    Ok(if is_extended { asking(query) } else { query })
}

/// A query that asks a Lazuli server for extensions. Others ignore that, and refuse what they do
/// not know.
fn asking(query: Query<Entity>) -> Query<Entity> {
    query.header(EXTENSIONS, HeaderValue::from_static("on"))
}
