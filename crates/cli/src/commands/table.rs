//! `lazuli table`: work on the contents of one table as a whole.

mod index;
mod layout;

use crate::exit::Exit;
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Verify, repair and rebuild the copies that indexes of the client keep
    #[command(subcommand)]
    Index(index::Verb),
}

pub(crate) async fn run(session: &Session, verb: Verb) -> Result<Exit> {
    match verb {
        Verb::Index(verb) => index::run(session, verb).await,
    }
}
