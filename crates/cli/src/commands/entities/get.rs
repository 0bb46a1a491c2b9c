//! `lazuli entities get`.

use crate::entity_text::{cell, type_name, write_json};
use crate::exit::Exit;
use crate::output::Grid;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use lazuli_client::{Entity, Loaded};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli entities get People Marketing 00001
  lazuli entities get People Marketing 00001 --json")]
pub(crate) struct GetArguments {
    /// Name of the table
    table: String,
    /// Partition key of the entity
    partition_key: String,
    /// Row key of the entity
    row_key: String,
}

pub(super) async fn run(session: &Session, arguments: &GetArguments) -> Result<Exit> {
    let table = session.table(&arguments.table)?;
    let key = (&*arguments.partition_key, &*arguments.row_key);
    let entity = table.get(key).required().await?;
    if session.out.is_json() {
        let mut line = Vec::new();
        write_json(&mut line, &entity);
        session.out.bytes(&line)?;
    } else {
        session.out.grid(&listing(&entity))?;
    }
    Ok(Exit::Done)
}

/// Name, type and value of each property.
fn listing(entity: &Loaded<Entity>) -> Grid {
    let mut grid = Grid::new(["PROPERTY", "TYPE", "VALUE"]);
    let timestamp = entity.timestamp().to_string();
    for (name, edm_type, value) in [
        ("PartitionKey", "String", entity.partition_key()),
        ("RowKey", "String", entity.row_key()),
        ("Timestamp", "DateTime", &timestamp),
        ("ETag", "", entity.etag().as_str()),
    ] {
        grid.row([name, edm_type, value]);
    }
    for (name, value) in entity.properties() {
        grid.row([name, type_name(value), &cell(value)]);
    }
    grid
}
