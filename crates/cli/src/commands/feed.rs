//! `lazuli feed`: the change feed of a table on a Lazuli server.

use crate::exit::Exit;
use crate::output::Grid;
use crate::session::Session;
use anyhow::Result;
use clap::{Subcommand, ValueEnum, value_parser};
use lazuli_client::{FeedImages, ServerFeed};
use lazuli_model::limits::{FEED_RETENTION_HOURS_MAX, FEED_RETENTION_HOURS_MIN};
use serde::Serialize;
use std::ops::RangeInclusive;

/// Hours for which a feed can keep changes.
const HOURS: RangeInclusive<u64> = FEED_RETENTION_HOURS_MIN..=FEED_RETENTION_HOURS_MAX;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show what the feed of a table records
    #[command(after_help = "Examples:
  lazuli feed show People
  lazuli feed show People --json")]
    Show {
        /// Name of the table
        table: String,
    },
    /// Turn the feed of a table on, or change what it records
    #[command(after_help = "Examples:
  lazuli feed on People
  lazuli feed on People --images both --hours 168")]
    On {
        /// Name of the table
        table: String,
        /// What it shows of changed entities
        #[arg(long, value_enum, default_value_t = Shown::New)]
        images: Shown,
        /// Hours for which it keeps changes, 1 to 8760
        #[arg(long, default_value_t = 24, value_parser = value_parser!(u64).range(HOURS))]
        hours: u64,
    },
    /// Turn the feed of a table off; what it recorded is gone
    #[command(after_help = "Examples:
  lazuli feed off People
  lazuli feed off People --json")]
    Off {
        /// Name of the table
        table: String,
    },
}

/// What a feed shows of changed entities.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shown {
    /// The keys
    Keys,
    /// The entity after the change
    New,
    /// The entity before and after the change
    Both,
}

#[derive(Serialize)]
struct Off<'a> {
    table: &'a str,
}

pub(crate) async fn run(session: &Session, verb: Verb) -> Result<Exit> {
    match verb {
        Verb::Show { table } => print(session, &session.table(&table)?.server_feed().await?)?,
        Verb::On { table, images, hours } => {
            let images = match images {
                Shown::Keys => FeedImages::Keys,
                Shown::New => FeedImages::New,
                Shown::Both => FeedImages::Both,
            };
            let feed = ServerFeed::new(images, hours);
            print(session, &session.table(&table)?.set_server_feed(feed).await?)?;
        }
        Verb::Off { table } => {
            session.table(&table)?.drop_server_feed().await?;
            session.out.done(&Off { table: &table }, format_args!("{table} has no feed"))?;
        }
    }
    Ok(Exit::Done)
}

fn print(session: &Session, feed: &ServerFeed) -> Result<()> {
    session.out.either(feed, || {
        let images = match feed.images {
            FeedImages::Keys => "keys",
            FeedImages::New => "new",
            FeedImages::Both => "both",
            _ => "unknown",
        };
        let mut grid = Grid::new(["IMAGES", "HOURS", "COMPLETE FROM"]);
        grid.row([images, &feed.retention_hours.to_string(), &feed.complete_from]);
        grid
    })
}
