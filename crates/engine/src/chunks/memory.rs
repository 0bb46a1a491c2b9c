//! The memory that the chunks of all scans share (K-3.10).

use crate::EngineError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Memory is counted in units of this many bytes.
const UNIT_BYTES: usize = 1024;

/// A fixed number of bytes.
#[derive(Debug)]
pub struct ChunkMemory {
    free: Arc<Semaphore>,
    units: usize,
}

/// Memory in use, returned when dropped.
#[must_use = "the memory is given back when this is dropped"]
#[derive(Debug)]
pub struct Room(OwnedSemaphorePermit);

impl ChunkMemory {
    pub fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(units)), units }
    }

    /// Waits up to `wait_max` until this many bytes are free. A chunk larger than the total takes
    /// everything.
    pub async fn take(&self, bytes: usize, wait_max: Duration) -> Result<Room, EngineError> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES).min(self.units)).unwrap_or(u32::MAX);
        match timeout(wait_max, self.free.clone().acquire_many_owned(units)).await {
            Ok(Ok(permit)) => Ok(Room(permit)),
            _ => Err(EngineError::Unavailable("the memory for query results is in use".into())),
        }
    }
}

impl Room {
    /// Keeps `bytes` and returns the rest.
    pub fn keep(mut self, bytes: usize) -> Self {
        let needed = bytes.div_ceil(UNIT_BYTES);
        let excess = self.0.num_permits().saturating_sub(needed);
        drop(self.0.split(excess));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_that_is_not_needed_is_free_for_others() {
        let memory = ChunkMemory::new(10 * UNIT_BYTES);
        let take = |bytes| memory.take(bytes, Duration::from_secs(1));
        let whole = take(usize::MAX).await.unwrap();
        assert!(take(1).await.is_err());
        let part = whole.keep(3 * UNIT_BYTES);
        let other = take(7 * UNIT_BYTES).await.unwrap();
        assert!(take(1).await.is_err());
        drop((part, other));
        assert!(take(10 * UNIT_BYTES).await.is_ok());
    }
}
