//! `lazuli changes`: changes of a table, from the feed of a Lazuli server.

use crate::connect::Target;
use crate::exit::Exit;
use crate::failure::ending;
use crate::output::{OutputArguments, printable};
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use lazuli_client::{ServerChange, ServerChanges, ServerJson};
use std::future::IntoFuture;
use std::time::Duration;

/// How long one request waits for changes.
const WAIT: Duration = Duration::from_secs(20);
/// How long such a request may take.
const WAIT_MAX: Duration = Duration::from_secs(60);

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli changes People
  lazuli changes People --after now --json")]
pub(crate) struct ChangesArguments {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Name of the table
    table: String,

    /// Token of an earlier run, or `now`; without it, the oldest change that is kept comes first
    #[arg(long, value_name = "TOKEN")]
    after: Option<String>,

    /// Wait for further changes until interrupted
    #[arg(long)]
    follow: bool,
}

pub(crate) async fn run(session: &Session, arguments: &ChangesArguments) -> Result<Exit> {
    let table = session.table(&arguments.table)?;
    let mut after = arguments.after.clone();
    session.interrupt.end_in_order();
    loop {
        let wait = if arguments.follow { WAIT } else { Duration::ZERO };
        let next = table.server_changes(after.as_deref(), wait).timeout(WAIT_MAX).into_future();
        let Some(page) = session.interrupt.or(next).await else {
            return stopped(after.as_deref());
        };
        let page = page?;
        print(session, &page)?;
        if !arguments.follow && (page.changes.is_empty() || after.as_deref() == Some("now")) {
            session.out.remark(format_args!("go on with --after {}", page.next));
            return Ok(Exit::Done);
        }
        after = Some(page.next);
    }
}

/// The changes before `after` have been printed.
fn stopped(after: Option<&str>) -> Result<Exit> {
    match after.filter(|after| *after != "now") {
        Some(token) => Err(ending(Exit::Partial, "stopped", format!("--after {token} continues"))),
        None => Ok(Exit::Interrupted),
    }
}

/// Prints one line per change, or for programs one per page.
fn print(session: &Session, page: &ServerChanges) -> Result<()> {
    if session.out.is_json() {
        return session.out.document(page);
    }
    let lines: String = page.changes.iter().map(line).collect();
    session.out.bytes(lines.as_bytes())
}

fn line(change: &ServerChange) -> String {
    let ServerChange { operation, partition_key, row_key, new, old, .. } = change;
    let [partition_key, row_key] = [partition_key, row_key].map(|key| printable(key));
    let image = |name: &str, image: &Option<ServerJson>| {
        image.as_ref().map(|image| printable(&format!("  {name} {image}"))).unwrap_or_default()
    };
    let (new, old) = (image("new", new), image("old", old));
    format!("{operation:<8}{partition_key}  {row_key}{new}{old}\n")
}
