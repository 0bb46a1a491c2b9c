//! Opens the store with the configured options.

use crate::config::Settings;
use crate::engine_choice::EngineChoice;
use crate::options::{EngineArguments, MIB};
use crate::serve::mib;
use anyhow::{Context, Result, bail, ensure};
use lazuli_cli::failure::{chain, usage, with_hint};
use lazuli_engine::retry::Pace;
use lazuli_engine::{Engine, Limits, Revision};
use lazuli_engine_local::{LocalOptions, OpenError, ReopeningEngine};
use lazuli_meter::Source;
use lazuli_model::limits::REQUEST_MS_MAX;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The engine, and its metrics.
pub(crate) struct Opened {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) meter: Arc<dyn Source>,
    /// The time by the store's own clock when it was opened, if that clock stamps the revisions.
    pub(crate) clock: Option<Revision>,
}

impl Opened {
    fn new<E: Engine + Source>(engine: E, clock: Option<Revision>) -> Result<Self> {
        check_view_life(engine.limits())?;
        let engine = Arc::new(engine);
        Ok(Self { engine: engine.clone(), meter: engine, clock })
    }
}

/// The access with which a shared store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// For writing: whatever an empty store lacks is created.
    Write,
    /// For reading only: nothing is written, and the store must exist.
    Look,
}

/// Opens the data directory or the shared store; errors carry a hint.
pub(crate) async fn open(
    data: &Path,
    settings: &Settings,
    gateway_id: &str,
    pace: Arc<dyn Pace>,
) -> Result<Opened> {
    match &settings.engine {
        EngineChoice::Local => {
            let (data, options) = (data.to_path_buf(), engine_options(settings));
            // In another thread, because it reads the journals, and signals must be handled in the meantime.
            let opened = tokio::task::spawn_blocking(move || open_local(&data, options)).await;
            Opened::new(opened.context("open the store")??, None)
        }
        shared => {
            open_shared(shared, &settings.options.engine, Access::Write, gateway_id, pace).await
        }
    }
}

/// Opens a shared store; errors carry a hint.
pub(crate) async fn open_shared(
    choice: &EngineChoice,
    arguments: &EngineArguments,
    access: Access,
    gateway_id: &str,
    pace: Arc<dyn Pace>,
) -> Result<Opened> {
    match choice {
        EngineChoice::Local => bail!("a data directory is not a shared store"),
        #[cfg(feature = "postgres")]
        EngineChoice::Postgres(address) => {
            let (engine, clock) =
                postgres::open(address, arguments, access, gateway_id, pace).await?;
            Opened::new(engine, Some(clock))
        }
        #[cfg(feature = "tikv")]
        EngineChoice::Tikv(address) => {
            let (engine, clock) = tikv::open(address, arguments, access, gateway_id, pace).await?;
            Opened::new(engine, Some(clock))
        }
    }
}

fn open_local(data: &Path, options: LocalOptions) -> Result<ReopeningEngine> {
    ReopeningEngine::open(data, options).map_err(refusal)
}

/// Why the data directory cannot be opened, and what to do.
fn refusal(error: OpenError) -> anyhow::Error {
    let advice = match &error {
        OpenError::Locked { .. } => {
            "another lazuli uses this directory; stop it, or choose another one with --data"
        }
        OpenError::NewerFormat { .. } => "use the newer lazuli version that wrote it",
        OpenError::NotLazuli { .. } => "choose an empty or new directory with --data",
        OpenError::Corrupt { .. } => {
            "the data is damaged: check the disk, restore the directory from a copy, or use \
             another one with --data"
        }
        _ => {
            "check that this user may create the directory given with --data and write there, and \
             that its disk has free space"
        }
    };
    match &error {
        OpenError::NotLazuli { .. } => usage(chain(&error), advice),
        OpenError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            usage(chain(&error), advice)
        }
        _ => with_hint(chain(&error), advice),
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::Access;
    use crate::options::EngineArguments;
    use crate::serve::mib;
    use anyhow::Result;
    use lazuli_cli::failure::with_hint;
    use lazuli_engine::Revision;
    use lazuli_engine::retry::Pace;
    use lazuli_engine_postgres::{Address, PostgresEngine, PostgresOptions};
    use lazuli_model::{Clock, SystemClock};
    use std::sync::Arc;
    use std::time::Duration;

    /// How long a read-only open waits for a connection.
    const LOOK_MAX: Duration = Duration::from_secs(5);

    pub(super) async fn open(
        address: &Address,
        arguments: &EngineArguments,
        access: Access,
        gateway_id: &str,
        pace: Arc<dyn Pace>,
    ) -> Result<(PostgresEngine, Revision)> {
        let is_look = access == Access::Look;
        let options = PostgresOptions {
            connections: arguments.postgres_connections,
            chunk_bytes: mib(arguments.engine_chunks_mib.get()),
            gateway: gateway_id.to_owned(),
            accept_unsafe: arguments.unsafe_store || is_look,
            connect_max: is_look.then_some(LOOK_MAX),
            creates: !is_look,
            ..PostgresOptions::new(address.clone(), pace)
        };
        let now = || Revision(SystemClock.now().ticks());
        let opened = PostgresEngine::open(options, now).await;
        let (engine, found) = opened.map_err(|error| with_hint(error.to_string(), error.hint()))?;
        tracing::info!(
            store = found.cluster,
            version = found.version,
            address = %address,
            gateway_id,
            "opened the shared store"
        );
        if !found.has_synchronous_standby {
            tracing::warn!(
                "the database has no synchronous standby (synchronous_standby_names is empty): \
                 if its machine is lost, so are writes that no standby has yet"
            );
        }
        Ok((engine, found.clock))
    }
}

#[cfg(feature = "tikv")]
mod tikv {
    use super::Access;
    use crate::options::EngineArguments;
    use crate::serve::mib;
    use anyhow::Result;
    use lazuli_cli::failure::{usage, with_hint};
    use lazuli_engine::Revision;
    use lazuli_engine::retry::Pace;
    use lazuli_engine_tikv::{OpenError, TikvAddress, TikvEngine, TikvOptions};
    use lazuli_model::{Clock, SystemClock};
    use std::sync::Arc;

    pub(super) async fn open(
        address: &TikvAddress,
        arguments: &EngineArguments,
        access: Access,
        gateway_id: &str,
        pace: Arc<dyn Pace>,
    ) -> Result<(TikvEngine, Revision)> {
        let options = TikvOptions {
            collect_garbage: arguments.tikv_gc,
            chunk_bytes: mib(arguments.engine_chunks_mib.get()),
            created_by: format!("lazuli {}", env!("CARGO_PKG_VERSION")),
            creates: access == Access::Write,
            ..TikvOptions::new(address.clone(), pace)
        };
        let now = || Revision(SystemClock.now().ticks());
        let opened = TikvEngine::open(options, now).await;
        let opened = opened.map_err(|error| match error {
            OpenError::Files(_) => usage(error.to_string(), error.hint()),
            _ => with_hint(error.to_string(), error.hint()),
        })?;
        tracing::info!(
            store = opened.cluster,
            address = %address,
            gateway_id,
            "opened the shared store"
        );
        tracing::warn!(
            "the engine on TiKV is a preview: it was tested against the TiKV protocol, not on a cluster"
        );
        for warning in opened.warnings {
            tracing::warn!("{warning}");
        }
        Ok((opened.engine, opened.clock))
    }
}

/// A request reads from one view: if views expired during requests, queries would fail at random (K-3.6).
fn check_view_life(limits: &Limits) -> Result<()> {
    let (needed, given) = (2 * REQUEST_MS_MAX, limits.view_ms_max);
    ensure!(given >= needed, "the engine's views live {given} ms, but requests need {needed} ms");
    Ok(())
}

fn engine_options(settings: &Settings) -> LocalOptions {
    let bounds = &settings.options.bounds;
    let memtable_bytes = match bounds.memtable_kib {
        Some(kib) => u64::from(kib.get()) * 1024,
        None => u64::from(bounds.memtable_mib.get()) * MIB,
    };
    LocalOptions {
        durability: settings.options.durability.0,
        cache_bytes: u64::from(bounds.cache_mib) * MIB,
        memtable_bytes,
        queue_bytes_max: mib(bounds.commit_queue_mib.get()),
        queue_wait_max: bounds.commit_wait_seconds.duration(),
        group_commits_max: bounds.commit_group_max.get() as usize,
        ..LocalOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_cli::Exit;
    use lazuli_cli::failure::exit_of;

    /// O-6.5: a restart would not help. It ended with 1.
    #[test]
    fn a_directory_that_this_user_may_not_use_is_wrong_usage() {
        let exit = |kind: io::ErrorKind| {
            exit_of(&refusal(OpenError::Io { dir: "d".into(), source: kind.into() }))
        };
        assert_eq!(exit(io::ErrorKind::PermissionDenied), Exit::Usage);
        assert_eq!(exit(io::ErrorKind::StorageFull), Exit::Failed);
    }

    /// K-3.6
    #[test]
    fn views_must_live_for_two_requests() {
        let limits = |view_ms_max| Limits { view_ms_max, ..Limits::DEFAULT };
        assert!(check_view_life(&limits(2 * REQUEST_MS_MAX)).is_ok());
        assert!(check_view_life(&limits(2 * REQUEST_MS_MAX - 1)).is_err());
    }
}
