//! Requests that slow down together when the service throttles (C-12.5).

use crate::env::Env;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many requests may be under way, and until when all of them must wait.
///
/// A throttling answer halves the number, any other answer adds one. Answers to requests that were already under
/// way at the last halving carry no new information and change nothing.
#[derive(Debug)]
pub(crate) struct Throttle(Mutex<State>);

#[derive(Debug)]
struct State {
    requests: usize,
    requests_max: usize,
    /// By the clock of [`Env::elapsed`].
    paused_until: Duration,
    throttled: u64,
}

impl Throttle {
    pub(crate) fn new(requests_max: usize) -> Self {
        let requests_max = requests_max.max(1);
        Self(Mutex::new(State {
            requests: requests_max,
            requests_max,
            paused_until: Duration::ZERO,
            throttled: 0,
        }))
    }

    /// How many requests may be under way.
    pub(crate) fn requests(&self) -> usize {
        self.state().requests
    }

    /// Throttling answers so far.
    pub(crate) fn throttled(&self) -> u64 {
        self.state().throttled
    }

    /// Handles an answer that asked to wait for `pause`.
    pub(crate) fn slow_down(&self, now: Duration, pause: Duration) {
        let mut state = self.state();
        state.throttled += 1;
        if now >= state.paused_until {
            state.requests = (state.requests / 2).max(1);
        }
        state.paused_until = state.paused_until.max(now.saturating_add(pause));
    }

    /// Handles a request that the service carried out.
    pub(crate) fn speed_up(&self) {
        let mut state = self.state();
        state.requests = (state.requests + 1).min(state.requests_max);
    }

    /// Ready when no pause is left, or at the deadline.
    pub(crate) async fn wait(&self, env: &Env, deadline: Duration) {
        loop {
            let until = self.state().paused_until.min(deadline);
            let now = env.elapsed();
            if now >= until {
                return;
            }
            env.sleep(until - now).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_halve_once_for_each_pause_and_grow_by_one() {
        let throttle = Throttle::new(16);
        let (now, second) = (Duration::from_secs(5), Duration::from_secs(1));
        throttle.slow_down(now, second);
        throttle.slow_down(now, second);
        assert_eq!((throttle.requests(), throttle.throttled()), (8, 2));
        throttle.slow_down(now + second, second);
        assert_eq!(throttle.requests(), 4);
        for _ in 0..20 {
            throttle.speed_up();
        }
        assert_eq!(throttle.requests(), 16);
        for step in 2..20 {
            throttle.slow_down(now + second * step, second);
        }
        assert_eq!(throttle.requests(), 1);
    }
}
