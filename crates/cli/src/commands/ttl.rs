//! `lazuli ttl`: when entities of a table on a Lazuli server expire.

use crate::exit::Exit;
use crate::output::Grid;
use crate::session::Session;
use anyhow::Result;
use clap::{ArgGroup, Subcommand, value_parser};
use lazuli_client::ServerTtl;
use lazuli_model::{Property, PropertyLimits};
use serde::Serialize;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show when entities of a table expire
    #[command(after_help = "Examples:
  lazuli ttl show Old
  lazuli ttl show Old --json")]
    Show {
        /// Name of the table
        table: String,
    },
    /// Set when entities of a table expire, those written before too
    #[command(after_help = "Examples:
  lazuli ttl set Old --seconds 86400
  lazuli ttl set Old --property ExpiresAt")]
    #[command(group = ArgGroup::new("moment").required(true))]
    Set {
        /// Name of the table
        table: String,
        /// Seconds after the last write
        #[arg(long, group = "moment", value_parser = value_parser!(u64).range(1..))]
        seconds: Option<u64>,
        /// Property with the moment (DateTime), or the seconds after the last write (Int32, Int64)
        #[arg(long, group = "moment", value_name = "NAME", value_parser = custom_property)]
        property: Option<String>,
    },
    /// Entities of a table no longer expire
    #[command(after_help = "Examples:
  lazuli ttl off Old
  lazuli ttl off Old --json")]
    Off {
        /// Name of the table
        table: String,
    },
}

/// The name of a property that an entity can have, beside its keys and its Timestamp.
fn custom_property(name: &str) -> Result<String, String> {
    let is_custom = matches!(Property::from_name(name), Property::Custom(_));
    match PropertyLimits::Service.check_name(name) {
        Ok(()) if is_custom => Ok(name.to_owned()),
        Ok(()) => Err("it is not a property that entities can expire by".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Serialize)]
struct Off<'a> {
    table: &'a str,
}

pub(crate) async fn run(session: &Session, verb: Verb) -> Result<Exit> {
    match verb {
        Verb::Show { table } => print(session, &session.table(&table)?.server_ttl().await?)?,
        Verb::Set { table, seconds, property } => {
            // The parser accepts exactly one of the two.
            let by_property = property.map(ServerTtl::Property);
            let ttl = by_property.unwrap_or(ServerTtl::Seconds(seconds.unwrap_or_default()));
            print(session, &session.table(&table)?.set_server_ttl(ttl).await?)?;
        }
        Verb::Off { table } => {
            session.table(&table)?.drop_server_ttl().await?;
            let remark = format_args!("entities of {table} do not expire");
            session.out.done(&Off { table: &table }, remark)?;
        }
    }
    Ok(Exit::Done)
}

fn print(session: &Session, ttl: &ServerTtl) -> Result<()> {
    session.out.either(ttl, || {
        let (seconds, property) = match ttl {
            ServerTtl::Seconds(seconds) => (seconds.to_string(), String::new()),
            ServerTtl::Property(name) => (String::new(), name.clone()),
            _ => (String::new(), String::new()),
        };
        let mut grid = Grid::new(["SECONDS", "PROPERTY"]);
        grid.row([seconds.as_str(), &property]);
        grid
    })
}
