//! Requests that wait for the next change of a table.

use crate::error::{ApiError, ApiResult};
use lazuli_meter::Counter;
use lazuli_table::{ChangeListener, TableError};
use lazuli_wire::error_code::ErrorCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

/// How often a waiting request polls for changes by other processes.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Limits the number of requests that wait.
pub(crate) struct Waiters {
    max: usize,
    room: Semaphore,
    refused: Arc<Counter>,
    is_stopping: watch::Sender<bool>,
}

impl Waiters {
    /// At most `max` requests wait at a time.
    pub(crate) fn new(max: usize, refused: Arc<Counter>) -> Self {
        let is_stopping = watch::Sender::new(false);
        Self { max, room: Semaphore::new(max.min(Semaphore::MAX_PERMITS)), refused, is_stopping }
    }

    /// Ends all waiting, because the server is stopping.
    pub(crate) fn stop(&self) {
        self.is_stopping.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.is_stopping.borrow()
    }

    /// Waits until the table may have changed, or for `time`.
    pub(crate) async fn wait(
        &self,
        listener: &mut ChangeListener,
        time: Duration,
    ) -> ApiResult<()> {
        let Ok(_place) = self.room.try_acquire() else {
            self.refused.increment();
            let text =
                format!("{} requests wait for changes, the maximum (--waiters-max).", self.max);
            return Err(ApiError::with_text(ErrorCode::ServerBusy, text));
        };
        let mut stopping = self.is_stopping.subscribe();
        let news = async {
            tokio::select! {
                _ = stopping.wait_for(|stop| *stop) => Ok(()),
                heard = heard(listener) => heard,
            }
        };
        match timeout(time, news).await {
            Ok(heard) => Ok(heard?),
            Err(_) => Ok(()),
        }
    }
}

/// Resolves when the table may have changed.
async fn heard(listener: &mut ChangeListener) -> Result<(), TableError> {
    if !listener.must_look() {
        listener.changed().await;
        return Ok(());
    }
    loop {
        if timeout(LOOK_PAUSE, listener.changed()).await.is_ok() || listener.has_news().await? {
            return Ok(());
        }
    }
}
