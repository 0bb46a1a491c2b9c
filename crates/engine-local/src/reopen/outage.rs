//! From a failed write to the reopened store.

use super::{Closed, PAUSE, PAUSE_MAX, Shared};
use crate::OpenError;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a trial writes: enough for the store to work with, not just to start.
const TRIAL_BYTES: usize = 4 * 1024 * 1024;
const TRIAL_FILE: &str = "TRIAL";
/// Interval between log lines saying that writes are still refused.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The time from a failure until writes are accepted again.
pub(super) struct Outage<'s> {
    shared: &'s Shared,
    /// When a line was last logged.
    reported: Instant,
}

impl<'s> Outage<'s> {
    pub(super) fn new(shared: &'s Shared) -> Self {
        Self { shared, reported: Instant::now() }
    }

    pub(super) fn wait_for_the_disk(&mut self, mut pause: Duration) -> Result<(), Closed> {
        loop {
            self.shared.signal.pause(pause)?;
            match try_to_write(&self.shared.dir) {
                Ok(()) => return Ok(()),
                Err(error) => self.report(&error),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    pub(super) fn reopen(&mut self, mut pause: Duration) -> Result<(), Closed> {
        let Shared { dir, options, current, signal, .. } = self.shared;
        tracing::info!("the disk takes writes again: reopening the store");
        current.store(None);
        self.shared.release_kept();
        // From here on there are no views until the store is reopened.
        self.shared.given_up.fetch_add(1, Ordering::SeqCst);
        let mut is_first = true;
        loop {
            match signal.open(dir, options) {
                Ok(engine) => {
                    current.store(Some(Arc::new(engine)));
                    self.shared.reopens.fetch_add(1, Ordering::Relaxed);
                    let refused = self.shared.refused.swap(0, Ordering::Relaxed);
                    tracing::info!(refused, "writes are accepted again");
                    return Ok(());
                }
                // Commits and open views hold the old engine.
                Err(OpenError::Locked { .. }) => signal.pause(PAUSE)?,
                Err(error) => {
                    match is_first {
                        true => tracing::error!("cannot reopen the store: {}", chain(&error)),
                        false => self.report(&error),
                    }
                    is_first = false;
                    signal.pause(pause)?;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Logs why writes are still refused, and how many were, unless it did so recently.
    fn report(&mut self, error: &(dyn Error + 'static)) {
        if self.reported.elapsed() >= REPORT_INTERVAL {
            let refused = self.shared.refused.swap(0, Ordering::Relaxed);
            tracing::warn!(refused, "writes are still refused: {}", chain(error));
            self.reported = Instant::now();
        }
    }
}

/// An error and its causes on one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn try_to_write(dir: &Path) -> io::Result<()> {
    let path = dir.join(TRIAL_FILE);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0xa5; TRIAL_BYTES])?;
        file.sync_all()
    });
    let removed = fs::remove_file(&path);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalOptions, ReopeningEngine};
    use lazuli_engine::{Commit, Engine, Revision};

    #[tokio::test]
    async fn refused_calls_are_counted_and_logged_at_intervals() {
        let dir = tempfile::tempdir().unwrap();
        let engine = ReopeningEngine::open(dir.path(), LocalOptions::default()).unwrap();
        let commit = Commit::new(Revision(0), Vec::new());
        let waiting = || engine.shared.refused.load(Ordering::Relaxed);
        let failed = engine.shared.current.swap(None);
        assert!(engine.commit(commit).await.is_err() && engine.view().await.is_err());
        assert_eq!(waiting(), 2);
        let mut outage = Outage::new(&engine.shared);
        outage.report(&io::Error::other("broken"));
        assert_eq!(waiting(), 2, "a line was logged a moment ago");
        outage.reported = outage.reported.checked_sub(REPORT_INTERVAL).unwrap();
        outage.report(&io::Error::other("broken"));
        assert_eq!(waiting(), 0);
        engine.shared.current.store(failed);
    }
}
