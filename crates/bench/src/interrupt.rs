//! Interruptible waits, so that everything started is also stopped.

use anyhow::{Result, bail};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether the user asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<(Mutex<bool>, Condvar)>);

impl Interrupt {
    /// Listens for SIGINT and SIGTERM for the rest of the program.
    pub(crate) fn install() -> Result<Self> {
        let interrupt = Self::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let raised = interrupt.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            // A signal that cannot be handled ends the program in its default way.
            if runtime.block_on(signal()).is_ok() {
                raised.raise();
            }
        })?;
        Ok(interrupt)
    }

    /// Waits for `duration`; fails as soon as the user asks to stop.
    pub(crate) fn pause(&self, duration: Duration) -> Result<()> {
        let deadline = Instant::now() + duration;
        let (raised, changed) = &*self.0;
        let mut raised = raised.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if *raised {
                bail!("interrupted");
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let waited = changed.wait_timeout(raised, left);
            raised = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn raise(&self) {
        let (raised, changed) = &*self.0;
        *raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

async fn signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        outcome = tokio::signal::ctrl_c() => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_interrupt_ends_every_pause() {
        let interrupt = Interrupt::default();
        assert!(interrupt.pause(Duration::ZERO).is_ok());
        interrupt.raise();
        assert!(interrupt.pause(Duration::from_secs(3600)).is_err());
    }
}
