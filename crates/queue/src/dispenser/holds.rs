//! What a request holds of a [`Dispenser`], and releases whenever it is dropped.

use super::{DOUBT_MS, Dispenser, State, Taken};
use crate::count::{Count, Delta, Tally};
use lazuli_engine::{CommitError, Revision};
use lazuli_layout::Position;
use lazuli_layout::queue::MessageRecord;
use lazuli_model::Timestamp;
use std::sync::Arc;

/// Messages taken from the buffer. Those still in the claim when it is dropped go back.
pub(crate) struct Claim {
    dispenser: Arc<Dispenser>,
    taken: Vec<Taken>,
    /// The losses of the engine when they were taken.
    losses: u64,
}

impl Claim {
    pub(super) fn new(dispenser: &Arc<Dispenser>, max: usize, now: Timestamp) -> Self {
        let mut claim = Self { dispenser: Arc::clone(dispenser), taken: Vec::new(), losses: 0 };
        claim.top_up(max, now);
        claim
    }

    pub(crate) fn taken(&self) -> &[Taken] {
        &self.taken
    }

    pub(crate) fn top_up(&mut self, max: usize, now: Timestamp) {
        let dispenser = self.dispenser.clone();
        self.fill(&mut dispenser.state(), max, now);
    }

    /// Takes what it lacks. What was taken before a loss is void after it.
    fn fill(&mut self, state: &mut State, max: usize, now: Timestamp) {
        if self.losses != state.losses {
            self.losses = state.losses;
            self.taken.clear();
        }
        let missing = max.saturating_sub(self.taken.len());
        self.taken.extend(state.take(missing, now));
    }

    /// The message has changed.
    pub(crate) fn forget(&mut self, index: usize) {
        if index < self.taken.len() {
            let stale = self.taken.remove(index);
            let mut state = self.dispenser.state();
            if self.losses == state.losses {
                state.unclaim(stale.position);
            }
        }
    }

    /// All messages were delivered.
    pub(crate) fn delivered(mut self) {
        let mut state = self.dispenser.state();
        let is_current = self.losses == state.losses;
        for taken in self.taken.drain(..) {
            if is_current {
                state.unclaim(taken.position);
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.dispenser.state();
        if self.losses != state.losses {
            return;
        }
        for Taken { position, stored } in self.taken.drain(..) {
            state.unclaim(position);
            state.buffer.insert(position, stored);
        }
        state.trim();
    }
}

/// A scan for more messages. If it is dropped before it finishes, the next one starts at the same
/// position.
pub(crate) struct Refill<'d> {
    dispenser: &'d Dispenser,
    pub(crate) start: Position,
    pub(crate) now: Timestamp,
    /// The losses of the engine when it began.
    losses: u64,
    is_finished: bool,
}

impl<'d> Refill<'d> {
    pub(super) fn new(
        dispenser: &'d Dispenser,
        start: Position,
        now: Timestamp,
        losses: u64,
    ) -> Self {
        Self { dispenser, start, now, losses, is_finished: false }
    }

    /// The scan found `found`, and covered all positions before `reached`, or everything visible if
    /// `None`. `claim` is filled up to `max` in the same step: otherwise other requests might take
    /// everything found in between, and the scanning request would consider the queue empty. Returns
    /// false if the engine has lost commits since: then the result is discarded.
    pub(crate) fn finish(
        mut self,
        found: Vec<Taken>,
        reached: Option<Position>,
        claim: &mut Claim,
        max: usize,
    ) -> bool {
        self.is_finished = true;
        let mut state = self.dispenser.state();
        if self.losses != state.losses {
            return false;
        }
        state.scanning = None;
        for Taken { position, stored } in found {
            // A claim that ends without delivery puts its messages back itself.
            if !state.claimed.contains_key(&position) {
                state.buffer.insert(position, stored);
            }
        }
        if let Some(reached) = reached {
            state.cursor = state.cursor.min(reached);
        }
        claim.fill(&mut state, max, self.now);
        state.trim();
        true
    }
}

impl Drop for Refill<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // After a loss, the cursor is back at the start.
            let mut state = self.dispenser.state();
            state.scanning = None;
            state.cursor = state.cursor.min(self.start);
        }
    }
}

/// A load of the count.
pub(crate) struct CountLoad<'d> {
    dispenser: &'d Dispenser,
}

impl<'d> CountLoad<'d> {
    pub(super) fn new(dispenser: &'d Dispenser) -> Self {
        Self { dispenser }
    }

    pub(crate) fn finish(self, tally: Tally, now: Timestamp) -> u64 {
        self.dispenser.state().count.finish(tally, now)
    }
}

impl Drop for CountLoad<'_> {
    fn drop(&mut self) {
        let count = &mut self.dispenser.state().count;
        if matches!(count, Count::Loading(_)) {
            *count = Count::Unknown;
        }
    }
}

/// A pending commit that writes messages. Unless its outcome becomes known, its messages are in
/// doubt, and so is the count.
pub(crate) struct Sending {
    dispenser: Arc<Dispenser>,
    written: Vec<(Position, MessageRecord)>,
    delta: Option<Delta>,
    clock: Timestamp,
    /// How many messages had been added when it was sent, if no other was live then.
    alone: Option<u64>,
    /// The losses of the engine before it was sent.
    losses: u64,
    is_known: bool,
}

impl Sending {
    pub(crate) fn new(
        dispenser: &Arc<Dispenser>,
        written: Vec<(Position, MessageRecord)>,
        delta: Option<Delta>,
        clock: Timestamp,
    ) -> Self {
        let mut state = dispenser.state();
        // Count the addition before its removal is possible, so that the count is never too low.
        if let Some(added @ Delta::Added(_)) = delta {
            state.change_count(added);
        }
        let alone = state.has_one().then_some(state.hint.added);
        let losses = state.losses;
        drop(state);
        let dispenser = Arc::clone(dispenser);
        Self { dispenser, written, delta, clock, alone, losses, is_known: false }
    }

    /// The commit ended with `outcome`. Writes that may have happened anyway stay in doubt, and so do
    /// those around a loss.
    pub(crate) fn ended(mut self, outcome: &Result<Revision, CommitError>) {
        let mut state = self.dispenser.state();
        let is_current = self.losses == state.losses;
        match (outcome, self.delta) {
            (Ok(revision), delta) if is_current => {
                self.is_known = true;
                state.happened(std::mem::take(&mut self.written), *revision, self.alone);
                if let Some(removed @ Delta::Removed(_)) = delta {
                    state.change_count(removed);
                }
            }
            (Err(error), delta) if did_not_happen(error) => {
                self.is_known = true;
                if let Some(Delta::Added(expires)) = delta.filter(|_| is_current) {
                    state.change_count(Delta::Removed(expires));
                }
            }
            (Ok(_) | Err(_), _) => {}
        }
    }
}

/// Whether this error means that the commit has not happened and never will.
fn did_not_happen(error: &CommitError) -> bool {
    matches!(
        error,
        CommitError::GuardFailed { .. }
            | CommitError::CheckFailed { .. }
            | CommitError::Refused { .. }
            | CommitError::Conflict
            | CommitError::TooLarge { .. }
            | CommitError::Busy
    )
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.is_known {
            return;
        }
        let mut state = self.dispenser.state();
        for (position, _) in &self.written {
            state.doubt(*position, self.clock);
        }
        if self.delta.is_some() {
            state.count = Count::Unknown;
            state.uncounted_until = self.clock.plus_seconds(DOUBT_MS / 1000);
        }
    }
}
