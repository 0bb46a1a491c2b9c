//! `lazuli blobs`: containers and their blobs.

mod transfer;

use crate::confirm::Confirmation;
use crate::exit::Exit;
use crate::failure::ending;
use crate::noun::{print_deleted, print_names};
use crate::output::{Grid, grouped};
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;
use lazuli_client::blob::{BlobItem, BlobList};
use serde::Serialize;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// List, create and delete containers
    #[command(subcommand)]
    Containers(Containers),
    /// List the blobs of a container
    #[command(after_help = "Examples:
  lazuli blobs list photos
  lazuli blobs list photos --prefix 2026/ --delimiter / --json")]
    List {
        /// Name of the container
        container: String,
        /// Only blobs whose names begin with this
        #[arg(long, value_name = "TEXT", default_value = "")]
        prefix: String,
        /// Group names up to this text, like directories
        #[arg(long, value_name = "TEXT")]
        delimiter: Option<String>,
    },
    /// Store a blob
    Put(transfer::PutArguments),
    /// Print a blob, or write it to a file
    Get(transfer::GetArguments),
    /// Delete a blob
    #[command(after_help = "Examples:
  lazuli blobs delete photos a.txt
  lazuli blobs delete photos a.txt --json")]
    Delete {
        /// Name of the container
        container: String,
        /// Name of the blob
        blob: String,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Containers {
    /// List the containers of an account
    #[command(after_help = "Examples:
  lazuli blobs containers list
  lazuli blobs containers list --prefix ph --json")]
    List {
        /// Only containers whose names begin with this
        #[arg(long, value_name = "TEXT", default_value = "")]
        prefix: String,
    },
    /// Create a container, unless it exists
    #[command(after_help = "Examples:
  lazuli blobs containers create photos
  lazuli blobs containers create letters --json")]
    Create {
        /// Name of the container
        container: String,
    },
    /// Delete a container with all its blobs
    #[command(after_help = "Examples:
  lazuli blobs containers delete old --yes
  lazuli blobs containers delete nothing --if-present --yes")]
    Delete {
        /// Name of the container
        container: String,
        /// Succeed if the container does not exist
        #[arg(long)]
        if_present: bool,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

#[derive(Serialize)]
struct Named<'a> {
    container: &'a str,
}

#[derive(Serialize)]
struct DeletedBlob<'a> {
    container: &'a str,
    blob: &'a str,
    deleted: bool,
}

/// A blob or a prefix, one line of JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", untagged)]
enum Line<'a> {
    Prefix {
        prefix: &'a str,
    },
    #[serde(rename_all = "camelCase")]
    Blob {
        name: &'a str,
        bytes: u64,
        content_type: Option<&'a str>,
        last_modified: Option<String>,
        etag: Option<&'a str>,
    },
}

pub(crate) async fn run(session: &Session, verb: Verb) -> Result<Exit> {
    match verb {
        Verb::Containers(verb) => containers(session, verb).await,
        Verb::List { container, prefix, delimiter } => {
            list(session, &container, &prefix, delimiter.as_deref()).await
        }
        Verb::Put(arguments) => transfer::put(session, arguments).await,
        Verb::Get(arguments) => transfer::get(session, &arguments).await,
        Verb::Delete { container, blob } => delete(session, &container, &blob).await,
    }
}

async fn containers(session: &Session, verb: Containers) -> Result<Exit> {
    let blobs = session.account.blobs();
    match verb {
        Containers::List { prefix } => {
            let names = blobs.list(&prefix).await?;
            print_names(&session.out, "containers", "CONTAINER", &names)?;
        }
        Containers::Create { container } => {
            blobs.create_if_missing(&container).await?;
            let named = Named { container: &container };
            session.out.done(&named, format_args!("{container} is there"))?;
        }
        Containers::Delete { container, if_present, confirmation } => {
            blobs.container(&container)?;
            let deed = format!("deleting the container {container} with all its blobs");
            confirmation.ask(&deed, &container).await?;
            let deleted = blobs.delete_if_present(&container).await?;
            if !deleted && !if_present {
                let problem = format!("there is no container {container}");
                let advice = "`lazuli blobs containers list` lists them";
                return Err(ending(Exit::NotFound, problem, advice));
            }
            print_deleted(&session.out, "container", &container, deleted)?;
        }
    }
    Ok(Exit::Done)
}

async fn list(
    session: &Session,
    container: &str,
    prefix: &str,
    delimiter: Option<&str>,
) -> Result<Exit> {
    let mut list = session.account.blobs().container(container)?.list().prefix(prefix);
    if let Some(delimiter) = delimiter {
        list = list.delimiter(delimiter);
    }
    let mut is_first = true;
    loop {
        let page = list.page().await?;
        print(session, &page, is_first)?;
        is_first = false;
        match &page.next {
            Some(next) => list = list.after(next),
            None => return Ok(Exit::Done),
        }
    }
}

fn print(session: &Session, page: &BlobList, is_first: bool) -> Result<()> {
    if session.out.is_json() {
        let prefixes = page.prefixes.iter().map(|prefix| Line::Prefix { prefix });
        let mut lines = prefixes.chain(page.blobs.iter().map(Line::from));
        return lines.try_for_each(|line| session.out.document(&line));
    }
    let heading: &[&str] = if is_first { &["BLOB", "BYTES", "LAST MODIFIED", "TYPE"] } else { &[] };
    let mut grid = Grid::new(heading.iter().copied()).numbers_in(1);
    page.prefixes.iter().for_each(|prefix| grid.row([prefix, "", "", ""]));
    for blob in &page.blobs {
        let modified = blob.last_modified.map(|time| time.to_string()).unwrap_or_default();
        let content_type = blob.content_type.clone().unwrap_or_default();
        grid.row([blob.name.clone(), grouped(blob.bytes), modified, content_type]);
    }
    session.out.grid(&grid)
}

impl<'a> From<&'a BlobItem> for Line<'a> {
    fn from(blob: &'a BlobItem) -> Self {
        Self::Blob {
            name: &blob.name,
            bytes: blob.bytes,
            content_type: blob.content_type.as_deref(),
            last_modified: blob.last_modified.map(|time| time.to_string()),
            etag: blob.etag.as_ref().map(lazuli_client::ETag::as_str),
        }
    }
}

async fn delete(session: &Session, container: &str, name: &str) -> Result<Exit> {
    let blob = session.account.blobs().container(container)?.blob(name)?;
    if blob.delete().await? == lazuli_client::Deleted::WasAbsent {
        let problem = format!("there is no blob {name} in {container}");
        return Err(ending(Exit::NotFound, problem, "`lazuli blobs list` lists them"));
    }
    let document = DeletedBlob { container, blob: name, deleted: true };
    session.out.done(&document, format_args!("deleted {name}"))?;
    Ok(Exit::Done)
}
