//! A clock that jumps.

use super::executor::Handle;
use lazuli_model::{Clock, Timestamp};
use lazuli_testkit::seed::Seeded;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum jump of the clock: ten minutes, in ticks of 100 ns.
const JUMP_MAX: usize = 10 * 60 * 10_000_000;

/// Simulated time starting on some day, with jumps forward and, unless it is [`Jumps::Forward`], back. It often
/// stands still between two reads, so that commits get the same tick.
pub(super) struct SimulatedClock {
    handle: Handle,
    state: Mutex<State>,
}

struct State {
    random: Seeded,
    start: u64,
    jumps: Jumps,
}

/// How the clock jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Jumps {
    BothWays,
    /// Expired entities stay expired. Jumps are more frequent, so that many entities expire.
    Forward,
    Never,
}

impl Jumps {
    /// One read of the clock in this many jumps.
    const fn rarity(self) -> Option<usize> {
        match self {
            Self::BothWays => Some(50),
            Self::Forward => Some(15),
            Self::Never => None,
        }
    }
}

impl SimulatedClock {
    pub(super) fn new(handle: Handle, random: Seeded, jumps: Jumps) -> Self {
        let start = Timestamp::from_unix_seconds(1_700_000_000).ticks();
        Self { handle, state: Mutex::new(State { random, start, jumps }) }
    }

    /// The clock's current value, without a jump.
    pub(super) fn shown(&self) -> u64 {
        self.state().start + self.handle.now()
    }

    /// From now on, the clock runs evenly.
    pub(super) fn calm(&self) {
        self.state().jumps = Jumps::Never;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state();
        if state.jumps.rarity().is_some_and(|rarity| state.random.one_in(rarity)) {
            let jump = state.random.below(JUMP_MAX) as u64;
            match state.jumps == Jumps::Forward || state.random.one_in(2) {
                true => state.start += jump,
                false => state.start -= jump,
            }
        }
        Timestamp::from_ticks(state.start + self.handle.now()).unwrap_or(Timestamp::MAX)
    }
}
