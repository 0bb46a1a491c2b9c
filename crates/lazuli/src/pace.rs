//! The pauses between the services' retries, on the runtime's clock.

use lazuli_engine::BoxFuture;
use lazuli_engine::retry::{Pace, give_way};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Waits on the runtime's timer.
pub(crate) struct RuntimePace {
    started: Instant,
    /// Keyed by the system's randomness, so the hash of a counter is unpredictable.
    random: RandomState,
    drawn: AtomicU64,
}

impl RuntimePace {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), random: RandomState::new(), drawn: AtomicU64::new(0) }
    }
}

impl Pace for RuntimePace {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> u64 {
        self.random.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    fn pause(&self, ms: u64) -> BoxFuture<'_, ()> {
        match ms {
            0 => Box::pin(give_way()),
            ms => Box::pin(tokio::time::sleep(Duration::from_millis(ms))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_takes_its_time() {
        let pace = RuntimePace::new();
        let before = tokio::time::Instant::now();
        pace.pause(20).await;
        assert!(before.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn each_draw_gives_another_number() {
        let (one, other) = (RuntimePace::new(), RuntimePace::new());
        let drawn = [one.random(), one.random(), other.random(), other.random()];
        let distinct: std::collections::BTreeSet<_> = drawn.into_iter().collect();
        assert_eq!(distinct.len(), drawn.len());
    }
}
