//! `lazuli rebuild`: rebuilds an index from the entities.

use super::index;
use crate::connect::Target;
use crate::exit::Exit;
use crate::output::OutputArguments;
use crate::session::Session;
use anyhow::Result;
use clap::Args;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli rebuild People --index byCity
  lazuli rebuild People --index byCity --no-wait --json")]
pub(crate) struct RebuildArguments {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Name of the table
    table: String,

    /// Name of the index
    #[arg(long, value_name = "NAME")]
    index: String,

    /// Do not wait until it is built
    #[arg(long)]
    no_wait: bool,
}

pub(crate) async fn run(session: &Session, arguments: &RebuildArguments) -> Result<Exit> {
    let table = session.table(&arguments.table)?;
    let indexes = table.rebuild_server_index(&arguments.index).await?;
    if arguments.no_wait {
        index::print(session, &indexes)?;
        return Ok(Exit::Done);
    }
    index::watch(session, &table, Some(&arguments.index)).await
}
