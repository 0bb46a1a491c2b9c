//! A clock that jumps, and remembers what it returned.

use super::executor::Handle;
use crate::queue::history::{SECOND, Span, Ticks};
use lazuli_model::{Clock, Timestamp};
use lazuli_testkit::seed::Seeded;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a clock moves.
#[derive(Clone, Copy, Debug)]
pub struct Drift {
    /// Maximum jump ahead, in seconds.
    pub ahead_max: u64,
    /// The furthest that it falls behind the latest time that it returned, in seconds.
    pub behind_max: u64,
    /// Minimum simulated time between two jumps.
    pub apart: u64,
}

/// Simulated time starting on some day, with jumps.
pub(super) struct QueueClock {
    handle: Handle,
    drift: Drift,
    state: Mutex<State>,
}

struct State {
    random: Seeded,
    start: Ticks,
    jumped: u64,
    /// All times that it returned, and the latest of them.
    said: Vec<Ticks>,
    latest: Ticks,
}

impl QueueClock {
    pub(super) fn new(handle: Handle, drift: Drift, random: Seeded) -> Self {
        let start = Timestamp::from_unix_seconds(1_700_000_000).ticks();
        let state = State { random, start, jumped: 0, said: Vec::new(), latest: start };
        Self { handle, drift, state: Mutex::new(state) }
    }

    /// Lets time pass.
    pub(super) fn advance(&self, seconds: u64) {
        let mut state = self.state();
        state.start = state.start.max(state.latest) + seconds * SECOND;
    }

    /// How often it was read.
    pub(super) fn asked(&self) -> usize {
        self.state().said.len()
    }

    /// The times that it returned since it had been read `asked` times.
    pub(super) fn span_since(&self, asked: usize) -> Span {
        let now = self.now().ticks();
        let state = self.state();
        let least = state.said.iter().skip(asked).copied().min().unwrap_or(now);
        Span { least, most: state.latest }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for QueueClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state();
        let passed = self.handle.now();
        if passed >= state.jumped + self.drift.apart && state.random.one_in(40) {
            state.jumped = passed;
            state.jump(self.drift, passed);
        }
        let now = state.start + passed;
        state.said.push(now);
        state.latest = state.latest.max(now);
        Timestamp::from_ticks(now).unwrap_or(Timestamp::MAX)
    }
}

impl State {
    fn jump(&mut self, drift: Drift, passed: u64) {
        let below =
            |random: &mut Seeded, seconds: u64| random.next_u64() % (seconds * SECOND).max(1);
        match self.random.below(8) {
            0..=3 => self.start += below(&mut self.random, drift.ahead_max.min(6)),
            4 | 5 => self.start += below(&mut self.random, drift.ahead_max),
            _ => {
                let back = below(&mut self.random, drift.behind_max);
                let earliest = self.latest - drift.behind_max * SECOND;
                self.start = (self.start + passed - back).max(earliest).saturating_sub(passed);
            }
        }
    }
}
