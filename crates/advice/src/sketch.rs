//! Counts of the most frequent and the most recent, in bounded memory.

use lazuli_model::key_text::fnv1a;
use std::collections::{HashMap, VecDeque};

/// The most frequent texts and something about each. A text that is not among them takes the place of the least
/// frequent one, and its count: what is really frequent stays (the algorithm is known as Space-Saving).
#[derive(Debug)]
pub(crate) struct Top<S> {
    /// A few dozen at most: to look at all of them costs less than to hash well.
    entries: Vec<Entry<S>>,
    entries_max: usize,
}

#[derive(Debug)]
struct Entry<S> {
    hash: u64,
    count: u64,
    key: String,
    state: S,
}

impl<S: Default> Top<S> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries: Vec::new(), entries_max: entries_max.max(1) }
    }

    /// Counts a text; returns what is kept about it.
    pub(crate) fn count(&mut self, key: &str) -> Option<&mut S> {
        let hash = fnv1a(key.as_bytes());
        let at = self.position(hash, key).unwrap_or_else(|| self.admit(hash, key));
        let entry = self.entries.get_mut(at)?;
        entry.count += 1;
        Some(&mut entry.state)
    }

    fn position(&self, hash: u64, key: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.hash == hash && entry.key == key)
    }

    /// Gives a text a place: a free one, or that of the least frequent, with its count.
    fn admit(&mut self, hash: u64, key: &str) -> usize {
        if self.entries.len() < self.entries_max {
            self.entries.push(Entry { hash, count: 0, key: key.to_owned(), state: S::default() });
            return self.entries.len() - 1;
        }
        let least = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.count);
        let at = least.map_or(0, |(at, _)| at);
        if let Some(entry) = self.entries.get_mut(at) {
            entry.hash = hash;
            entry.key.clear();
            entry.key.push_str(key);
            entry.state = S::default();
        }
        at
    }

    /// What is kept about a text, if it is among the most frequent.
    pub(crate) fn get(&self, key: &str) -> Option<&S> {
        let at = self.position(fnv1a(key.as_bytes()), key)?;
        self.entries.get(at).map(|entry| &entry.state)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut S)> {
        self.entries.iter_mut().map(|entry| (&*entry.key, &mut entry.state))
    }

    pub(crate) fn bytes(&self) -> usize {
        let keys: usize = self.entries.iter().map(|entry| entry.key.capacity()).sum();
        self.entries.capacity() * size_of::<Entry<S>>() + keys
    }
}

/// Numbers for the texts that came last. The oldest is forgotten first.
#[derive(Debug)]
pub(crate) struct Recent {
    numbers: HashMap<u64, u32>,
    order: VecDeque<u64>,
    entries_max: usize,
}

impl Recent {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { numbers: HashMap::new(), order: VecDeque::new(), entries_max }
    }

    /// Adds one to the number of a text; returns what it was.
    pub(crate) fn add(&mut self, key: &str) -> u32 {
        let hash = fnv1a(key.as_bytes());
        if let Some(number) = self.numbers.get_mut(&hash) {
            *number = number.saturating_add(1);
            return *number - 1;
        }
        if self.order.len() >= self.entries_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
        self.order.push_back(hash);
        self.numbers.insert(hash, 1);
        0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.numbers.capacity() * size_of::<(u64, u32)>() + self.order.capacity() * size_of::<u64>()
    }
}

/// A count within a period, such as a minute, that starts at zero with the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Within {
    period: u64,
    count: u32,
}

impl Within {
    /// Counts something that happened in a period; returns the count of that period.
    pub(crate) fn add(&mut self, period: u64) -> u32 {
        self.add_many(period, 1)
    }

    pub(crate) fn add_many(&mut self, period: u64, count: u32) -> u32 {
        if period > self.period {
            *self = Self { period, count: 0 };
        }
        self.count = self.count.saturating_add(count);
        self.count
    }

    /// The count of a period.
    pub(crate) fn of(&self, period: u64) -> u32 {
        if self.period == period { self.count } else { 0 }
    }
}

/// `part` of `whole` in percent is at least `percent`.
pub(crate) fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    whole > 0 && part.saturating_mul(100) >= whole.saturating_mul(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frequent_stays_among_many_that_are_not() {
        let mut top: Top<u32> = Top::new(8);
        for number in 0..10_000 {
            *top.count(&format!("rare {number}")).unwrap() += 1;
            if number % 4 == 0 {
                *top.count("frequent").unwrap() += 1;
            }
        }
        assert!(top.get("frequent").is_some_and(|count| *count > 2000));
        assert_eq!(top.iter_mut().count(), 8);
        assert!(top.bytes() < 4096);
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let mut recent = Recent::new(2);
        assert_eq!((recent.add("a"), recent.add("a"), recent.add("b")), (0, 1, 0));
        assert_eq!((recent.add("c"), recent.add("b"), recent.add("a")), (0, 1, 0));
    }

    #[test]
    fn a_period_starts_at_zero() {
        let mut within = Within::default();
        assert_eq!((within.add(1), within.add(1), within.add(2)), (1, 2, 1));
        assert_eq!((within.of(2), within.of(1)), (1, 0));
        assert!(is_share(1, 2, 50) && !is_share(1, 3, 50) && !is_share(0, 0, 0));
    }
}
