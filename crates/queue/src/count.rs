//! The message count of a queue, by the hundredth of a second in which messages expire.

use lazuli_model::Timestamp;
use std::collections::BTreeMap;

/// Ticks per slot: a hundredth of a second.
const TICKS_PER_SLOT: u64 = 100_000;

/// Counts of messages by when they expire. Past slots do not count, so the count lags by at most
/// one slot, and is never too low (Q-4.10, TQ-23). Messages put in one burst share an entry; at
/// worst there is an entry for each message.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    by_slot: BTreeMap<u64, u64>,
    total: u64,
}

fn slot(time: Timestamp) -> u64 {
    time.ticks() / TICKS_PER_SLOT
}

impl Tally {
    pub(crate) fn add(&mut self, expires: Timestamp) {
        *self.by_slot.entry(slot(expires)).or_default() += 1;
        self.total += 1;
    }

    /// Removes a message. [`Tally::live`] has already removed expired ones.
    pub(crate) fn remove(&mut self, expires: Timestamp) {
        let slot = slot(expires);
        if let Some(count) = self.by_slot.get_mut(&slot) {
            *count -= 1;
            self.total -= 1;
            if *count == 0 {
                self.by_slot.remove(&slot);
            }
        }
    }

    /// Whether a message that expires then is still counted at `now`.
    pub(crate) fn counts(expires: Timestamp, now: Timestamp) -> bool {
        slot(expires) >= slot(now)
    }

    /// The number of unexpired messages; drops the others.
    pub(crate) fn live(&mut self, now: Timestamp) -> u64 {
        while let Some(first) = self.by_slot.first_entry() {
            if *first.key() >= slot(now) {
                break;
            }
            self.total -= first.remove();
        }
        self.total
    }
}

/// What this process knows about the count of a queue whose only writer it is.
#[derive(Debug, Default)]
pub(crate) enum Count {
    #[default]
    Unknown,
    /// The messages of a view are being counted: the changes since.
    Loading(Vec<Delta>),
    Known(Tally),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Delta {
    Added(Timestamp),
    Removed(Timestamp),
}

impl Count {
    /// A load is abandoned if more than `changes_max` changes happen during it.
    pub(crate) fn change(&mut self, delta: Delta, changes_max: usize) {
        match self {
            Self::Unknown => {}
            Self::Loading(deltas) if deltas.len() >= changes_max => *self = Self::Unknown,
            Self::Loading(deltas) => deltas.push(delta),
            Self::Known(tally) => tally.change(delta),
        }
    }

    /// Whether it is known to be `count`, including expired messages that have not been dropped yet.
    pub(crate) fn is_known_to_be(&self, count: u64) -> bool {
        matches!(self, Self::Known(tally) if tally.total == count)
    }

    /// Finishes a load with its result, unless it was abandoned. Returns the count.
    pub(crate) fn finish(&mut self, mut tally: Tally, now: Timestamp) -> u64 {
        match std::mem::take(self) {
            Self::Loading(deltas) => {
                deltas.into_iter().for_each(|delta| tally.change(delta));
                let live = tally.live(now);
                *self = Self::Known(tally);
                live
            }
            other => {
                *self = other;
                tally.live(now)
            }
        }
    }
}

impl Tally {
    fn change(&mut self, delta: Delta) {
        match delta {
            Delta::Added(expires) => self.add(expires),
            Delta::Removed(expires) => self.remove(expires),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_seconds(seconds)
    }

    #[test]
    fn messages_are_counted_until_their_time_is_over() {
        let just_after =
            |time: Timestamp| Timestamp::from_ticks(time.ticks() + TICKS_PER_SLOT).unwrap();
        let mut tally = Tally::default();
        [at(5), at(5), at(9), Timestamp::MAX].into_iter().for_each(|expires| tally.add(expires));
        assert_eq!(tally.live(at(5)), 4);
        assert_eq!((tally.live(just_after(at(5))), tally.live(just_after(at(9)))), (2, 1));
        tally.remove(at(5));
        tally.remove(Timestamp::MAX);
        assert_eq!(tally.live(at(10)), 0);
    }

    #[test]
    fn what_changes_during_a_load_is_counted() {
        let mut count = Count::Loading(Vec::new());
        count.change(Delta::Added(at(7)), 9);
        count.change(Delta::Removed(at(8)), 9);
        let mut view = Tally::default();
        [at(8), at(9)].into_iter().for_each(|expires| view.add(expires));
        assert_eq!(count.finish(view, at(1)), 2);
        count.change(Delta::Removed(at(9)), 9);
        let Count::Known(mut tally) = count else { panic!("the load has ended") };
        assert_eq!(tally.live(at(1)), 1);
    }

    #[test]
    fn a_load_that_was_given_up_answers_and_is_not_kept() {
        let mut count = Count::Unknown;
        let mut view = Tally::default();
        view.add(at(9));
        assert_eq!(count.finish(view, at(1)), 1);
        assert!(matches!(count, Count::Unknown));
    }

    /// O-7.1.
    #[test]
    fn a_load_is_given_up_when_too_much_changes() {
        let mut count = Count::Loading(Vec::new());
        (0..2).for_each(|_| count.change(Delta::Added(at(7)), 2));
        assert!(matches!(&count, Count::Loading(deltas) if deltas.len() == 2));
        count.change(Delta::Added(at(7)), 2);
        assert!(matches!(count, Count::Unknown));
    }
}
