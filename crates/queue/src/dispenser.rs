//! [`Dispenser`]: what this process knows about the messages of one queue, and which request gets
//! which.
//!
//! If this process is the only writer, every live message of a queue is at each moment
//!
//! - at or after the *cursor*, where the next scan finds it; or
//! - in the *buffer* of messages that a scan found and no request took; or
//! - in a [`Claim`], which puts it back into the buffer unless it was delivered or is stale; or
//! - being written by a request, which hands it over when the commit is done ([`Sending`]); or
//! - in *doubt*: written by a commit whose request was cancelled. Doubts are looked up by key until
//!   the commit must have ended.
//!
//! So a scan begins where the last one ended, and skips each deleted message once; if the queue is
//! known to be empty, the cursor skips them without a scan. The state need only be complete, not
//! exact: a message that is taken twice fails the check of the second commit, and is dropped there.
//!
//! If the engine has lost acknowledged commits ([`Losses`]), messages may be back where they were
//! before: the dispenser forgets what it knew, and starts over with a scan of the whole queue. What
//! requests hold from before is then void, and what they wrote is in doubt.

mod buffer;
mod holds;

pub(crate) use buffer::BufferMemory;
pub(crate) use holds::{Claim, CountLoad, Refill, Sending};

use crate::bounds::QueueBounds;
use crate::count::{Count, Delta, Tally};
use buffer::Buffer;
use lazuli_engine::Revision;
use lazuli_layout::queue::MessageRecord;
use lazuli_layout::{Generation, Position};
use lazuli_model::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long after its request a commit may still happen: twice the request timeout.
const DOUBT_MS: u64 = 2 * lazuli_model::limits::REQUEST_MS_MAX;
/// How often a doubt is looked up.
const DOUBT_LOOK_MS: u64 = 1_000;
/// Doubts looked up at a time.
const DOUBTS_PER_LOOK: usize = 64;

/// A stored message.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) record: MessageRecord,
    pub(crate) revision: Revision,
}

/// A message for delivery.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) position: Position,
    pub(crate) stored: Stored,
}

/// [`Engine::losses`](lazuli_engine::Engine::losses) of the engine that stores the messages.
pub(crate) type Losses = Arc<dyn Fn() -> u64 + Send + Sync>;

pub(crate) struct Dispenser {
    pub(crate) generation: Generation,
    losses: Losses,
    state: Mutex<State>,
    /// Held by the request that scans for more messages.
    pub(crate) refilling: tokio::sync::Mutex<()>,
    /// Held by the request that counts.
    pub(crate) counting: tokio::sync::Mutex<()>,
    /// Held shared by commits that change the count, exclusively while the view for counting is
    /// opened.
    pub(crate) gate: tokio::sync::RwLock<()>,
}

struct State {
    bounds: QueueBounds,
    /// The losses of the engine when this state was learned.
    losses: u64,
    /// The last tick issued.
    last: Timestamp,
    cursor: Position,
    /// Where the current scan began; the cursor is already at its end.
    scanning: Option<Position>,
    buffer: Buffer,
    /// The number of claims on each position.
    claimed: BTreeMap<Position, usize>,
    doubts: BTreeMap<Position, Doubt>,
    count: Count,
    /// Until then the count is not maintained, because a commit of unknown outcome may still change
    /// it.
    uncounted_until: Timestamp,
    hint: Hint,
}

#[derive(Clone, Copy)]
struct Doubt {
    since: Timestamp,
    looked: Option<Timestamp>,
}

/// State for several writers: where the first message was, and the window from which to take
/// messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    /// No message is before it. Only a scan that looked back, from the `start` before, moves it, and leaves a
    /// minute for those that were on their way: not what a later scan calls a minute.
    pub(crate) start: Timestamp,
    /// The first visible message that the last scan found, or the time of the scan if it found none.
    pub(crate) first: Timestamp,
    /// When a scan last looked for messages that were put late, by the clock.
    pub(crate) looked_back: Timestamp,
    /// When a scan last began at the beginning, by the clock.
    pub(crate) full_scan: Timestamp,
    pub(crate) width: usize,
    /// A count, and when it was taken. This process's own changes are added at once.
    pub(crate) counted: Option<(Timestamp, u64)>,
    /// How many messages this process has added.
    pub(crate) added: u64,
}

impl Hint {
    fn change_count(&mut self, delta: Delta) {
        if let Delta::Added(_) = delta {
            self.added += 1;
        }
        if let Some((at, count)) = &mut self.counted {
            match delta {
                Delta::Added(_) => *count += 1,
                // A message that had expired when the others were counted was not counted.
                Delta::Removed(expires) if !Tally::counts(expires, *at) => {}
                Delta::Removed(_) => *count = count.saturating_sub(1),
            }
        }
    }
}

impl Dispenser {
    pub(crate) fn new(generation: Generation, memory: Arc<BufferMemory>, losses: Losses) -> Self {
        let hint = Hint {
            start: Timestamp::MIN,
            first: Timestamp::MIN,
            looked_back: Timestamp::MIN,
            full_scan: Timestamp::MIN,
            width: 0,
            counted: None,
            added: 0,
        };
        let state = State {
            bounds: memory.bounds,
            losses: losses(),
            last: Timestamp::MIN,
            cursor: Position::first_at(Timestamp::MIN),
            scanning: None,
            buffer: Buffer::new(memory),
            claimed: BTreeMap::new(),
            doubts: BTreeMap::new(),
            count: Count::Unknown,
            uncounted_until: Timestamp::MIN,
            hint,
        };
        Self {
            generation,
            losses,
            state: Mutex::new(state),
            refilling: tokio::sync::Mutex::default(),
            counting: tokio::sync::Mutex::default(),
            gate: tokio::sync::RwLock::default(),
        }
    }

    /// The time of this queue: the clock, but not before any tick issued. It stands still while the
    /// clock is behind, and never steps back.
    pub(crate) fn now(&self, clock: Timestamp) -> Timestamp {
        self.state().last.max(clock)
    }

    /// A tick after all issued ones, and not before the clock, so that messages put one after
    /// another are in order, even within one clock tick.
    pub(crate) fn tick(&self, clock: Timestamp) -> Timestamp {
        let mut state = self.state();
        state.last = next_tick(state.last).max(clock);
        state.last
    }

    /// Claims up to `max` messages from the buffer that are visible at `now` and not expired.
    pub(crate) fn claim(self: &Arc<Self>, max: usize, now: Timestamp) -> Claim {
        Claim::new(self, max, now)
    }

    /// Begins a scan for what is visible at `now`. Writers hand over messages written from here on,
    /// so it does not matter whether the scan sees them.
    pub(crate) fn begin_refill(&self, now: Timestamp) -> Refill<'_> {
        let mut state = self.state();
        let start = state.cursor;
        let end = Position::first_at(next_tick(now));
        state.cursor = start.max(end);
        state.scanning = Some(start);
        Refill::new(self, start, now, state.losses)
    }

    /// Whether no message is live or being written: then there is nothing to scan for.
    pub(crate) fn is_empty(&self, now: Timestamp) -> bool {
        let mut state = self.state();
        if let Count::Known(tally) = &mut state.count {
            tally.live(now);
        }
        state.is_empty()
    }

    /// This process is about to create the queue, which is empty.
    pub(crate) fn begins_empty(&self) {
        self.state().count = Count::Known(Tally::default());
    }

    /// The position before which no message is live, except those in doubt.
    pub(crate) fn floor(&self) -> Position {
        let state = self.state();
        let buffered = state.buffer.first();
        let claimed = state.claimed.keys().next().copied();
        [buffered, claimed, state.scanning].into_iter().flatten().fold(state.cursor, Position::min)
    }

    /// The message at `position` was moved or deleted.
    pub(crate) fn left(&self, position: Position) {
        self.state().buffer.remove(&position);
    }

    /// An acknowledged commit has changed the count.
    pub(crate) fn counted(&self, delta: Delta) {
        self.state().change_count(delta);
    }

    /// Doubts that are due.
    pub(crate) fn doubts_to_look_up(&self, clock: Timestamp) -> Vec<Position> {
        let state = self.state();
        let is_due = |doubt: &Doubt| {
            doubt.looked.is_none_or(|looked| clock.millis_since(looked) >= DOUBT_LOOK_MS)
        };
        let due = state.doubts.iter().filter(|(_, doubt)| is_due(doubt));
        due.map(|(position, _)| *position).take(DOUBTS_PER_LOOK).collect()
    }

    /// A doubt was looked up: the message exists, does not exist yet, or never will.
    pub(crate) fn looked_up(&self, position: Position, found: Option<Stored>, clock: Timestamp) {
        let mut state = self.state();
        match found {
            Some(stored) => {
                state.doubts.remove(&position);
                state.arrived(position, stored);
            }
            None => state.keep_doubt(position, clock),
        }
    }

    /// The count, if it is known.
    pub(crate) fn known_count(&self, now: Timestamp) -> Option<u64> {
        match &mut self.state().count {
            Count::Known(tally) => Some(tally.live(now)),
            Count::Unknown | Count::Loading(_) => None,
        }
    }

    /// Begins to load the count: from here on changes are recorded.
    pub(crate) fn begin_count(&self, clock: Timestamp) -> CountLoad<'_> {
        let mut state = self.state();
        let is_settled = state.uncounted_until <= clock;
        state.count = if is_settled { Count::Loading(Vec::new()) } else { Count::Unknown };
        CountLoad::new(self)
    }

    pub(crate) fn hint(&self) -> Hint {
        self.state().hint
    }

    pub(crate) fn set_hint(&self, change: impl FnOnce(&mut Hint)) {
        change(&mut self.state().hint);
    }

    /// Whether dropping it could lose a message.
    pub(crate) fn is_needed(&self) -> bool {
        !self.state().doubts.is_empty()
    }

    /// What is known of the store as it is now. No code under the lock can panic halfway.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let losses = (self.losses)();
        if state.losses != losses {
            state.begin_again(losses);
        }
        state
    }
}

impl State {
    /// Forgets everything but the time. Commits in doubt have reached the store by now, where the
    /// next scan finds them, or never will.
    fn begin_again(&mut self, losses: u64) {
        self.losses = losses;
        self.cursor = Position::first_at(Timestamp::MIN);
        self.scanning = None;
        self.buffer.clear();
        self.claimed.clear();
        self.doubts.clear();
        self.count = Count::Unknown;
        self.hint.counted = None;
    }

    fn is_empty(&self) -> bool {
        self.count.is_known_to_be(0) && self.doubts.is_empty()
    }

    fn change_count(&mut self, delta: Delta) {
        self.count.change(delta, self.bounds.count_changes_max);
        self.hint.change_count(delta);
    }

    fn has_one(&self) -> bool {
        self.count.is_known_to_be(1) && self.doubts.is_empty()
    }

    /// A commit has written messages. `alone`: no other message was live when it was sent, and this many had
    /// been added. If more have been since, the one that is live now may be another, because what was written
    /// has expired meanwhile.
    fn happened(
        &mut self,
        written: Vec<(Position, MessageRecord)>,
        revision: Revision,
        alone: Option<u64>,
    ) {
        let is_alone = alone == Some(self.hint.added) && self.has_one();
        if let ([(first, _)], true) = (&written[..], is_alone) {
            // The only message. If it has a delay, it is far ahead, and the next one may come
            // before it.
            self.cursor = self.cursor.max(Position::first_at(self.last).min(*first));
        }
        for (position, record) in written {
            self.arrived(position, Stored { record, revision });
        }
    }

    fn arrived(&mut self, position: Position, stored: Stored) {
        // The next scan finds messages ahead of the cursor. A claimed message was found by a scan
        // already: its claim delivers it or puts it back.
        if position < self.cursor && !self.claimed.contains_key(&position) {
            self.buffer.insert(position, stored);
            self.trim();
        }
    }

    /// Leaves the last messages of an overfull buffer to a later scan.
    fn trim(&mut self) {
        while self.buffer.is_too_full() {
            if let Some(position) = self.buffer.pop_last() {
                self.cursor = self.cursor.min(position);
            }
        }
    }

    fn doubt(&mut self, position: Position, clock: Timestamp) {
        if self.doubts.len() >= self.bounds.doubts_max
            && let Some((oldest, _)) = self.doubts.pop_first()
        {
            self.cursor = self.cursor.min(oldest);
        }
        self.doubts.insert(position, Doubt { since: clock, looked: None });
    }

    fn keep_doubt(&mut self, position: Position, clock: Timestamp) {
        if let Some(doubt) = self.doubts.get_mut(&position) {
            doubt.looked = Some(clock);
            if clock.millis_since(doubt.since) > DOUBT_MS {
                self.doubts.remove(&position);
            }
        }
    }

    fn take(&mut self, max: usize, now: Timestamp) -> Vec<Taken> {
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some((position, stored)) = self.buffer.pop_visible(now)
        {
            // Expired messages are left to the background task that deletes them.
            if stored.record.expires > now {
                *self.claimed.entry(position).or_default() += 1;
                taken.push(Taken { position, stored });
            }
        }
        taken
    }

    fn unclaim(&mut self, position: Position) {
        if let Some(claims) = self.claimed.get_mut(&position) {
            *claims -= 1;
            if *claims == 0 {
                self.claimed.remove(&position);
            }
        }
    }
}

pub(crate) fn next_tick(time: Timestamp) -> Timestamp {
    Timestamp::from_ticks(time.ticks().saturating_add(1)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
