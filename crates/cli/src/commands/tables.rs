//! `lazuli tables`: list, create, delete, show, acl.

mod acl;

use crate::confirm::Confirmation;
use crate::exit::Exit;
use crate::failure::ending;
use crate::noun::{print_deleted, print_names};
use crate::output::Grid;
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the tables of an account
    #[command(after_help = "Examples:
  lazuli tables list
  lazuli tables list --prefix Pe --json")]
    List {
        /// Only tables whose names begin with this
        #[arg(long, value_name = "TEXT")]
        prefix: Option<String>,
    },
    /// Create a table
    #[command(after_help = "Examples:
  lazuli tables create Orders
  lazuli tables create People --if-missing")]
    Create {
        /// Name of the table
        table: String,
        /// Succeed if the table exists
        #[arg(long)]
        if_missing: bool,
    },
    /// Delete a table with all its entities
    #[command(after_help = "Examples:
  lazuli tables delete Old --yes
  lazuli tables delete Nothing --if-present --yes")]
    Delete {
        /// Name of the table
        table: String,
        /// Succeed if the table does not exist
        #[arg(long)]
        if_present: bool,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Show where a table is; fails with 3 if it does not exist
    #[command(after_help = "Examples:
  lazuli tables show People
  lazuli tables show People --json")]
    Show {
        /// Name of the table
        table: String,
    },
    /// List, store and remove the access policies of a table
    #[command(subcommand)]
    Acl(acl::Acl),
}

#[derive(Serialize)]
struct Created<'a> {
    table: &'a str,
    created: bool,
}

#[derive(Serialize)]
struct TableDetails<'a> {
    name: &'a str,
    url: String,
}

pub(crate) async fn run(session: &Session, verb: Verb) -> Result<Exit> {
    match verb {
        Verb::List { prefix } => list(session, prefix.as_deref()).await,
        Verb::Create { table, if_missing } => create(session, &table, if_missing).await,
        Verb::Delete { table, if_present, confirmation } => {
            delete(session, &table, if_present, confirmation).await
        }
        Verb::Show { table } => show(session, &table).await,
        Verb::Acl(verb) => acl::run(session, verb).await,
    }
}

async fn list(session: &Session, prefix: Option<&str>) -> Result<Exit> {
    let mut names = session.account.tables().list().await?;
    names.retain(|name| prefix.is_none_or(|prefix| name.starts_with(prefix)));
    print_names(&session.out, "tables", "TABLE", &names)?;
    Ok(Exit::Done)
}

async fn create(session: &Session, table: &str, if_missing: bool) -> Result<Exit> {
    let created = match session.account.tables().create(table).await {
        Ok(_) => true,
        Err(error) if if_missing && error.code() == Some("TableAlreadyExists") => false,
        Err(error) => return Err(error.into()),
    };
    let remark = if created { "created" } else { "it exists already:" };
    session.out.done(&Created { table, created }, format_args!("{remark} {table}"))?;
    Ok(Exit::Done)
}

async fn delete(
    session: &Session,
    table: &str,
    if_present: bool,
    confirmation: Confirmation,
) -> Result<Exit> {
    // Refuse an invalid name before asking.
    session.table(table)?;
    confirmation.ask(&format!("deleting the table {table} with all its entities"), table).await?;
    let deleted = session.account.tables().delete_if_present(table).await?;
    if !deleted && !if_present {
        return Err(absent(table));
    }
    print_deleted(&session.out, "table", table, deleted)?;
    Ok(Exit::Done)
}

fn absent(table: &str) -> anyhow::Error {
    let problem = format!("there is no table {table}");
    ending(Exit::NotFound, problem, "`lazuli tables list` lists them")
}

async fn show(session: &Session, table: &str) -> Result<Exit> {
    if !session.account.tables().exists(table).await? {
        return Err(absent(table));
    }
    let endpoint = session.account.table_endpoint().unwrap_or_default();
    let details = TableDetails { name: table, url: format!("{endpoint}/{table}") };
    session
        .out
        .either(&details, || Grid::pairs([("table", details.name), ("url", &details.url)]))?;
    Ok(Exit::Done)
}
