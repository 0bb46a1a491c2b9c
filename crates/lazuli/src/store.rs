//! Opens the store with the configured options.

use crate::config::Settings;
use crate::options::MIB;
use crate::serve::mib;
use anyhow::{Result, ensure};
use lazuli_cli::failure::{chain, with_hint};
use lazuli_engine::{Engine, Limits};
use lazuli_engine_local::{LocalOptions, OpenError, ReopeningEngine};
use lazuli_model::limits::REQUEST_MS_MAX;
use std::path::Path;

/// Opens the data directory; errors carry a hint.
pub(crate) fn open(data: &Path, settings: &Settings) -> Result<ReopeningEngine> {
    let engine = ReopeningEngine::open(data, engine_options(settings)).map_err(|error| {
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
            _ => "check that the directory exists, is writable and has free space",
        };
        with_hint(chain(&error), advice)
    })?;
    check_view_life(engine.limits())?;
    Ok(engine)
}

/// A request reads from one view: if views expired during a request, queries would fail at random.
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
