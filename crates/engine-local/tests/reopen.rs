//! Acknowledged writes survive reopening the directory, however the process ended.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_engine::Engine;
use lazuli_engine_local::{Durability, LocalEngine, LocalOptions, OpenError};
use lazuli_testkit::engine_suite::reopen;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn open(dir: &Path) -> Arc<dyn Engine> {
    open_with(dir, &LocalOptions::default())
}

/// The tests of this file run in parallel, and some start processes: between fork and exec, a child
/// holds a copy of every lock, which briefly outlives the engine.
fn open_with(dir: &Path, options: &LocalOptions) -> Arc<dyn Engine> {
    let started = Instant::now();
    loop {
        match LocalEngine::open(dir, options.clone()) {
            Err(OpenError::Locked { .. }) if started.elapsed() < LOCKED_MAX => {
                std::thread::yield_now();
            }
            opened => return Arc::new(opened.unwrap()),
        }
    }
}

const LOCKED_MAX: Duration = Duration::from_secs(60);

/// Memory durability promises nothing after a power loss, but everything after the process ends.
fn open_unsynced(dir: &Path) -> Arc<dyn Engine> {
    let options = LocalOptions { durability: Durability::Memory, ..LocalOptions::default() };
    open_with(dir, &options)
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn everything_is_there_after_a_clean_close() {
    reopen::everything_is_there_after_a_clean_close(&open, directory().path());
    reopen::everything_is_there_after_a_clean_close(&open_unsynced, directory().path());
}

#[test]
fn revisions_increase_across_reopening() {
    reopen::revisions_increase_across_reopening(&open, directory().path());
}

#[test]
fn commits_in_flight_finish_before_a_clean_close() {
    reopen::commits_in_flight_finish_before_a_clean_close(&open, directory().path());
}

#[test]
fn acknowledged_commits_survive_kill() {
    reopen::acknowledged_commits_survive_kill(&open, directory().path(), "killed_writer", 8);
}

#[test]
fn unsynced_commits_survive_kill() {
    let dir = directory();
    reopen::acknowledged_commits_survive_kill(&open, dir.path(), "killed_unsynced_writer", 4);
}

#[test]
#[ignore = "a child of acknowledged_commits_survive_kill"]
fn killed_writer() {
    reopen::killed_writer(&open);
}

#[test]
#[ignore = "a child of unsynced_commits_survive_kill"]
fn killed_unsynced_writer() {
    reopen::killed_writer(&open_unsynced);
}
