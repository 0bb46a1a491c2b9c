//! `cargo xtask stores`: starts the stores that engines are tested on, and ends them (K-9.1).

use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use lazuli_testkit::stores::{postgres, tikv};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Start a store in the background, and print its address
    Start { store: Store },
    /// End a store, and remove its data
    Stop { store: Store },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Store {
    /// One PostgreSQL server
    Postgres,
    /// A PostgreSQL primary with a synchronous standby
    PostgresPair,
    /// The stand-in of a TiKV cluster
    Tikv,
}

impl Store {
    /// The location of its data.
    fn dir(self, workspace: &Workspace) -> PathBuf {
        let name = match self {
            Self::Postgres => "postgres",
            Self::PostgresPair => "postgres-pair",
            Self::Tikv => "tikv",
        };
        workspace.target.join("stores").join(name)
    }
}

pub(crate) fn run(workspace: &Workspace, action: &Action) -> Result<Tally> {
    match action {
        Action::Start { store } => start(*store, &store.dir(workspace)).map(|()| Tally::PASSED),
        Action::Stop { store } => {
            let dir = store.dir(workspace);
            let ended = match store {
                Store::Postgres | Store::PostgresPair => postgres::stop_in(&dir),
                Store::Tikv => tikv::stop_in(&dir),
            };
            ended.context("end the store")?;
            Ok(Tally::PASSED)
        }
    }
}

fn start(store: Store, dir: &std::path::Path) -> Result<()> {
    let started = match store {
        Store::Postgres => postgres::start_in(dir),
        Store::PostgresPair => postgres::start_pair_in(dir),
        Store::Tikv => tikv::start_in(dir),
    };
    let started = started.context("start the store")?;
    println!("{}", started.address);
    println!("process {:?}, data in {}", started.pids, dir.display());
    Ok(())
}
