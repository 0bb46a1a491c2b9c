//! How long a call keeps trying (K-6.18), and the errors it ends with.

use lazuli_engine::meter::{Retry, StoreMeter};
use lazuli_engine::retry::Pace;
use lazuli_engine::{CommitError, EngineError};
use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long one remote call may take; after that its connection is dropped (K-6.2).
pub(crate) const CALL_MAX: Duration = Duration::from_secs(2);
const PAUSE_MS_MAX: u64 = 200;

/// Why the client could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientError {
    /// Time ran out.
    #[error("the TiKV cluster does not answer: {0}")]
    Unavailable(String),
    /// The answer is too long. The caller can ask for less.
    #[error("an answer of the TiKV cluster is too long: {0}")]
    TooLong(String),
    /// Trying again does not help.
    #[error("the TiKV cluster refused: {0}")]
    Refused(String),
    #[error("{0}")]
    Corrupt(String),
}

impl From<ClientError> for EngineError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unavailable(_) | ClientError::TooLong(_) => {
                Self::Unavailable(error.to_string())
            }
            ClientError::Refused(_) => Self::Io(Box::new(error)),
            ClientError::Corrupt(reason) => Self::Corrupt(reason),
        }
    }
}

impl From<ClientError> for CommitError {
    fn from(error: ClientError) -> Self {
        Self::Engine(error.into())
    }
}

/// The time that one call has left, and its back-off.
#[derive(Clone)]
pub(crate) struct Patience {
    pace: Arc<dyn Pace>,
    meter: Arc<StoreMeter>,
    until_ms: u64,
    pauses: u32,
}

impl Patience {
    pub(crate) fn new(pace: &Arc<dyn Pace>, meter: &Arc<StoreMeter>, ms: u64) -> Self {
        let until_ms = pace.now_ms().saturating_add(ms);
        Self { pace: pace.clone(), meter: meter.clone(), until_ms, pauses: 0 }
    }

    /// The same, starting when this time ends: for settling what may have happened.
    pub(crate) fn to_settle(&self, ms: u64) -> Self {
        Self { until_ms: self.until_ms.saturating_add(ms), pauses: 0, ..self.clone() }
    }

    pub(crate) fn ms_left(&self) -> u64 {
        self.until_ms.saturating_sub(self.pace.now_ms())
    }

    /// The time left, at least a moment.
    pub(crate) fn time_left(&self) -> Duration {
        Duration::from_millis(self.ms_left().max(1))
    }

    /// The result of `work` if it is done in time.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            match timeout(self.time_left(), work.as_mut()).await {
                Ok(done) => return Some(done),
                Err(_) if self.ms_left() == 0 => return None,
                // The clock of the pace runs slower than that of the runtime.
                Err(_) => {}
            }
        }
    }

    /// How long the next remote call may take.
    pub(crate) fn call_time(&self) -> Duration {
        self.time_left().min(CALL_MAX)
    }

    /// Waits before the next try: not at all the first time, then up to 2, 4, … 200 ms. Fails with
    /// `why` when the time is up.
    pub(crate) async fn pause(&mut self, why: impl Display) -> Result<(), ClientError> {
        let ceiling = match self.pauses {
            0 => 0,
            n => 1_u64.checked_shl(n).unwrap_or(PAUSE_MS_MAX).min(PAUSE_MS_MAX),
        };
        let random = self.pace.random() % (ceiling + 1);
        self.pause_for(random, why).await
    }

    /// Waits as long as a busy server asks, within reason.
    pub(crate) async fn pause_for(
        &mut self,
        ms: u64,
        why: impl Display,
    ) -> Result<(), ClientError> {
        let now = self.pace.now_ms();
        if now >= self.until_ms {
            return Err(ClientError::Unavailable(why.to_string()));
        }
        self.pauses += 1;
        self.meter.retried(Retry::Store);
        self.pace.pause(ms.min(self.until_ms - now)).await;
        Ok(())
    }
}
