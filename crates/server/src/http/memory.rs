//! A fixed memory budget shared by requests. Each request reserves memory before it uses any.
//!
//! If too little is free, a request waits in line for a bounded time, then gets `ServerBusy`: an
//! overloaded server refuses requests instead of letting clients wait indefinitely.

use crate::error::{ApiError, ApiResult};
use lazuli_meter::Counter;
use lazuli_wire::error_code::ErrorCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes per permit.
const UNIT_BYTES: usize = 1024;

/// A reservation, released when dropped.
pub(crate) type Share = OwnedSemaphorePermit;

#[derive(Debug)]
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    units_max: u32,
    wait_max: Duration,
    refused: Counter,
}

impl Memory {
    pub(crate) fn new(bytes_max: usize, wait_max: Duration) -> Self {
        let units_max = u32::try_from(bytes_max / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let free = Arc::new(Semaphore::new(units_max as usize));
        Self { free, units_max, wait_max, refused: Counter::default() }
    }

    /// Reserves memory, first come first served. A request for more than the total gets the total.
    pub(crate) async fn take(&self, bytes: usize) -> ApiResult<Share> {
        let units = self.units(bytes);
        if let Ok(share) = self.free.clone().try_acquire_many_owned(units) {
            return Ok(share);
        }
        let share = self.free.clone().acquire_many_owned(units);
        match tokio::time::timeout(self.wait_max, share).await {
            Ok(Ok(share)) => Ok(share),
            _ => {
                self.refused.increment();
                Err(ApiError::from(ErrorCode::ServerBusy))
            }
        }
    }

    /// Adjusts a reservation to the actual need. Surplus is released; more is reserved if it is
    /// free, without waiting: the work is already done.
    pub(crate) fn fit(&self, mut share: Share, bytes: usize) -> Share {
        let units = self.units(bytes) as usize;
        if let Some(fitting) = share.split(units) {
            return fitting;
        }
        let missing = u32::try_from(units - share.num_permits()).unwrap_or(u32::MAX);
        if let Ok(more) = self.free.clone().try_acquire_many_owned(missing) {
            share.merge(more);
        }
        share
    }

    /// How often a request was refused for lack of memory.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.value()
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.units_max as usize * UNIT_BYTES
    }

    pub(crate) fn bytes_taken(&self) -> usize {
        self.bytes_max().saturating_sub(self.free.available_permits() * UNIT_BYTES)
    }

    fn units(&self, bytes: usize) -> u32 {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        units.clamp(1, self.units_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kib(memory: &Memory) -> usize {
        memory.free.available_permits()
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_told_so() {
        let memory = Memory::new(4 * UNIT_BYTES, Duration::from_secs(10));
        let all = memory.take(usize::MAX).await.unwrap();
        assert_eq!(memory.take(1).await.unwrap_err().code, ErrorCode::ServerBusy);
        drop(all);
        assert!(memory.take(1).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_served_when_memory_comes_back() {
        let memory = Memory::new(4 * UNIT_BYTES, Duration::from_secs(10));
        let first = memory.take(4 * UNIT_BYTES).await.unwrap();
        let (second, ()) = tokio::join!(memory.take(UNIT_BYTES), async { drop(first) });
        assert!(second.is_ok());
    }

    #[tokio::test]
    async fn a_share_is_made_to_fit() {
        let memory = Memory::new(8 * UNIT_BYTES, Duration::ZERO);
        let share = memory.take(4 * UNIT_BYTES).await.unwrap();
        let share = memory.fit(share, UNIT_BYTES + 1);
        assert_eq!(kib(&memory), 6);
        let share = memory.fit(share, 7 * UNIT_BYTES);
        assert_eq!(kib(&memory), 1);
        // Two units are missing and one is free: it must make do with what it has.
        let other = memory.take(1).await.unwrap();
        let share = memory.fit(share, 8 * UNIT_BYTES);
        assert_eq!(kib(&memory), 0);
        drop((share, other));
        assert_eq!(kib(&memory), 8);
    }
}
