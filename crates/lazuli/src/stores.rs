//! Stores that commands open by name: a data directory, or the address of a store that gateways share.

use crate::duty;
use crate::engine_choice::EngineChoice;
use crate::options::{EngineArguments, EngineText};
use crate::pace::RuntimePace;
use crate::store::{self, Access};
use anyhow::Result;
use clap::Parser;
use lazuli_cli::failure::{chain, usage, with_hint};
use lazuli_engine::{Engine, Revision};
use lazuli_engine_local::{LocalEngine, LocalOptions};
use std::path::Path;
use std::sync::Arc;

/// What a command uses a store for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads it; it must exist.
    Source,
    /// Fills it; a data directory is created.
    Target,
    /// Shows what its gateways share.
    Shared,
}

/// A store given on a command line.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    Directory(&'a Path),
    Address(&'a str),
    /// An account, not a store: its data can only be copied over HTTP.
    Account,
}

fn named(store: &str) -> Named<'_> {
    let is = |scheme: &str| store.starts_with(scheme);
    if is("postgres://") || is("postgresql://") || is("tikv://") {
        return Named::Address(store);
    }
    if is("http://") || is("https://") || store.contains("AccountName=") || store.contains("UseDev")
    {
        return Named::Account;
    }
    Named::Directory(Path::new(store))
}

/// A store that is open.
pub(crate) struct Opened {
    pub(crate) engine: Arc<dyn Engine>,
    /// The time by the clock of a shared store.
    pub(crate) clock: Option<Revision>,
}

/// Opens a store; errors carry a hint.
pub(crate) async fn open(store: &str, role: Role, password_file: Option<&Path>) -> Result<Opened> {
    match named(store) {
        Named::Directory(path) => {
            open_directory(path, role).map(|engine| Opened { engine, clock: None })
        }
        Named::Address(address) => open_shared(address, role, password_file).await,
        Named::Account => Err(usage(
            "this copies stores, not accounts",
            "name a data directory, postgres://… or tikv://…",
        )),
    }
}

fn open_directory(path: &Path, role: Role) -> Result<Arc<dyn Engine>> {
    let shown = path.display();
    if role == Role::Shared && !path.exists() {
        // The text is not shown: it may hold a password.
        return Err(usage(
            "--engine is not the address of a store",
            "an address begins with postgres:// or tikv://",
        ));
    }
    if role == Role::Shared {
        return Err(usage(
            format!("{shown} is a data directory, which one server has to itself"),
            "ask that server with lazuli health; --engine takes postgres://… or tikv://…",
        ));
    }
    if role == Role::Source && !path.join("LAZULI").is_file() {
        return Err(usage(
            format!("{shown} is not a data directory of lazuli"),
            "name the directory that lazuli serve --data was given",
        ));
    }
    let engine = LocalEngine::open(path, LocalOptions::default()).map_err(|error| {
        with_hint(chain(&error), "stop the server that uses the directory, and check its rights")
    })?;
    Ok(Arc::new(engine))
}

/// The options of engines, at their defaults.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Options {
    #[command(flatten)]
    engine: EngineArguments,
}

async fn open_shared(address: &str, role: Role, password_file: Option<&Path>) -> Result<Opened> {
    let Options { engine: defaults } = Options::try_parse_from([""; 0])?;
    let arguments = EngineArguments {
        engine: Some(EngineText(address.to_owned())),
        engine_password_file: password_file.map(Path::to_owned),
        ..defaults
    };
    // Others can read the command line, but not the environment.
    let by_flag = std::env::var("LAZULI_ENGINE").is_ok_and(|given| given != address)
        || std::env::var_os("LAZULI_ENGINE").is_none();
    let choice = EngineChoice::named(&arguments, by_flag)?;
    let pace = Arc::new(RuntimePace::new());
    let id = duty::gateway_id(&*pace);
    let access = if role == Role::Target { Access::Write } else { Access::Look };
    let opened = store::open_shared(&choice, &arguments, access, &id, pace).await?;
    Ok(Opened { engine: opened.engine, clock: opened.clock })
}

/// A store without its password, to be printed.
#[cfg(feature = "postgres")]
pub(crate) use lazuli_engine_postgres::without_password as shown;

/// A store, to be printed: without PostgreSQL no address has a password.
#[cfg(not(feature = "postgres"))]
pub(crate) fn shown(store: &str) -> String {
    store.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_told_apart() {
        assert_eq!(named("data"), Named::Directory(Path::new("data")));
        assert_eq!(named("postgres://db/x"), Named::Address("postgres://db/x"));
        assert_eq!(named("tikv://pd1,pd2"), Named::Address("tikv://pd1,pd2"));
        for account in ["https://a.table.core.windows.net", "AccountName=a;AccountKey=b"] {
            assert_eq!(named(account), Named::Account);
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn no_password_is_shown() {
        assert_eq!(shown("postgres://me:secret@db/x?a=b"), "postgres://me:***@db/x?a=b");
        assert_eq!(
            shown("postgres://db/x?user=me&password=secret"),
            "postgres://db/x?user=me&password=***"
        );
        assert_eq!(shown("postgres://me@db/x"), "postgres://me@db/x");
        assert_eq!(shown("tikv://pd1:2379,pd2:2379"), "tikv://pd1:2379,pd2:2379");
        assert_eq!(shown("some/directory"), "some/directory");
    }
}
