//! `lazuli entities`: get, put, query, delete, count, transact.

mod count;
mod delete;
mod get;
mod put;
mod query;
mod transact;

use crate::exit::Exit;
use crate::filter::Parsed;
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;
use http::{HeaderName, HeaderValue};
use lazuli_client::{ETag, Entity, Merge, Query, Table};

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
    /// Count entities: by the server if it is Lazuli, else by reading their keys
    Count(count::CountArguments),
    /// Carry out several writes in one transaction: all of them, or none
    Transact(transact::TransactArguments),
}

pub(crate) async fn run(session: &Session, verb: Verb) -> Result<Exit> {
    match verb {
        Verb::Get(arguments) => get::run(session, &arguments).await,
        Verb::Put(arguments) => put::run(session, &arguments).await,
        Verb::Query(arguments) => query::run(session, &arguments).await,
        Verb::Delete(arguments) => delete::run(session, &arguments).await,
        Verb::Count(arguments) => count::run(session, &arguments).await,
        Verb::Transact(arguments) => transact::run(session, arguments).await,
    }
}

/// The entities that match a filter; all if there is none. A scan needs no confirmation, because the user decides what
/// to read.
fn selected(table: &Table, filter: Option<&str>) -> Result<Query<Entity>> {
    let query = table.scan();
    let Some(text) = filter else { return Ok(query) };
    let Parsed { filter, is_extended } = crate::filter::parse(text)?;
    let query = query.filter(filter);
    Ok(if is_extended { asking(query) } else { query })
}

/// A query that requests extensions from a Lazuli server. Other services ignore that, and refuse filters they
/// do not understand.
fn asking(query: Query<Entity>) -> Query<Entity> {
    query.header(EXTENSIONS, HeaderValue::from_static("on"))
}

/// Sets the properties of an entity, and leaves the others of the one that is stored.
fn merge(table: &Table, entity: &Entity, etag: Option<&ETag>) -> Merge<Entity> {
    let mut merge = table.merge((entity.partition_key(), entity.row_key()));
    for (name, value) in entity.properties() {
        merge = merge.set(name.to_owned(), value.clone());
    }
    match etag {
        Some(etag) => merge.if_match(etag),
        None => merge,
    }
}
