//! A clock that jumps.

use super::executor::Handle;
use lazuli_model::{Clock, Timestamp};
use lazuli_testkit::seed::Seeded;
use std::sync::{Mutex, PoisonError};

/// How far the clock may jump at once: ten minutes, in ticks of 100 ns.
const JUMP_MAX: usize = 10 * 60 * 10_000_000;

/// Simulated time from some day on, with jumps forward and back. It often stands still between two
/// reads, so that commits get the same tick.
pub(super) struct SimulatedClock {
    handle: Handle,
    state: Mutex<State>,
}

struct State {
    random: Seeded,
    start: u64,
}

impl SimulatedClock {
    pub(super) fn new(handle: Handle, random: Seeded) -> Self {
        let start = Timestamp::from_unix_seconds(1_700_000_000).ticks();
        Self { handle, state: Mutex::new(State { random, start }) }
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.random.one_in(50) {
            let jump = state.random.below(JUMP_MAX) as u64;
            match state.random.one_in(2) {
                true => state.start += jump,
                false => state.start -= jump,
            }
        }
        Timestamp::from_ticks(state.start + self.handle.now()).unwrap_or(Timestamp::MAX)
    }
}
