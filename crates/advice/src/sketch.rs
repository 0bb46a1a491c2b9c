//! Counts the most frequent and the most recent items in bounded memory.

use crate::stored::{Stored, stored};
use lazuli_model::key_text::fnv1a;

/// The most frequent texts, with a value for each. A new text takes the place of the least frequent one, and its count,
/// so that truly frequent texts stay (the Space-Saving algorithm).
#[derive(Debug)]
pub(crate) struct Top<S> {
    /// A few dozen at most: a linear search is faster than a good hash.
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

    /// Counts a text; returns its value.
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

    /// Adds a text: in a free place, or in place of the least frequent, with its count.
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

    /// The value of a text, if it is among the most frequent.
    pub(crate) fn get(&self, key: &str) -> Option<&S> {
        let at = self.position(fnv1a(key.as_bytes()), key)?;
        self.entries.get(at).map(|entry| &entry.state)
    }

    /// The texts with their counts and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64, &S)> {
        self.entries.iter().map(|entry| (&*entry.key, entry.count, &entry.state))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut S)> {
        self.entries.iter_mut().map(|entry| (&*entry.key, &mut entry.state))
    }

    pub(crate) fn bytes(&self) -> usize {
        let keys: usize = self.entries.iter().map(|entry| entry.key.capacity()).sum();
        self.entries.capacity() * size_of::<Entry<S>>() + keys
    }
}

impl<S: Stored + Default> Top<S> {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        (self.entries.len() as u64).write(out);
        for entry in &self.entries {
            entry.key.write(out);
            entry.count.write(out);
            entry.state.write(out);
        }
    }

    /// Fills an empty sketch, as far as it has room.
    pub(crate) fn read(&mut self, from: &mut &[u8]) -> Option<()> {
        for _ in 0..u64::read(from)? {
            let (key, count, state) = (String::read(from)?, u64::read(from)?, S::read(from)?);
            if self.entries.len() < self.entries_max {
                let hash = fnv1a(key.as_bytes());
                self.entries.push(Entry { hash, count, key, state });
            }
        }
        Some(())
    }
}

/// The number of slots of [`Known`].
const SLOTS: usize = 8192;
/// Seconds after which the counts are reset.
const KNOWN_SECONDS: u64 = 7 * 24 * 3600;

/// Counts how often texts were seen, up to 255, in one byte per slot. Texts that share a slot are not distinguished:
/// a new text may look known, never the other way round.
#[derive(Debug)]
pub(crate) struct Known {
    counts: Box<[u8]>,
    filled: usize,
    since: u64,
}

impl Default for Known {
    fn default() -> Self {
        Self { counts: vec![0; SLOTS].into(), filled: 0, since: 0 }
    }
}

impl Known {
    /// Counts a text; returns how often it was seen before. After a week the counts are reset, unless most slots are
    /// free.
    pub(crate) fn add(&mut self, key: &str, second: u64) -> u32 {
        if second > self.since + KNOWN_SECONDS {
            if self.filled > SLOTS / 2 {
                *self = Self::default();
            }
            self.since = second;
        }
        let slot = (fnv1a(key.as_bytes()) % SLOTS as u64) as usize;
        let Some(count) = self.counts.get_mut(slot) else { return 0 };
        let before = *count;
        self.filled += usize::from(before == 0);
        *count = before.saturating_add(1);
        before.into()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.counts.len()
    }
}

impl Stored for Known {
    fn write(&self, out: &mut Vec<u8>) {
        self.since.write(out);
        (self.filled as u64).write(out);
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        for (slot, count) in filled {
            (slot as u64).write(out);
            u64::from(*count).write(out);
        }
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let mut known = Self { since: u64::read(from)?, ..Self::default() };
        for _ in 0..u64::read(from)? {
            let (slot, count) = (usize::try_from(u64::read(from)?).ok()?, u64::read(from)?);
            *known.counts.get_mut(slot)? = u8::try_from(count).ok()?;
            known.filled += 1;
        }
        Some(known)
    }
}

/// A count within a period, such as a minute, which restarts from zero in the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Within {
    period: u64,
    count: u32,
}

stored!(Within { period, count });

impl Within {
    /// Counts an event in a period; returns the count of that period.
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

/// Whether `part` is at least `percent` of `whole`.
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
    fn texts_are_known_again() {
        let mut known = Known::default();
        assert_eq!((known.add("a", 1), known.add("a", 2), known.add("b", 2)), (0, 1, 0));
        for number in 0..SLOTS {
            known.add(&number.to_string(), 3);
        }
        assert!(known.filled > SLOTS / 2 && known.add("a", 4) >= 2);
        let mut bytes = Vec::new();
        known.write(&mut bytes);
        let again = Known::read(&mut bytes.as_slice()).unwrap();
        assert_eq!((again.counts, again.filled), (known.counts.clone(), known.filled));
        assert_eq!(known.add("a", 8 * 24 * 3600), 0);
        assert_eq!(known.add("a", 8 * 24 * 3600), 1);
    }

    #[test]
    fn a_period_starts_at_zero() {
        let mut within = Within::default();
        assert_eq!((within.add(1), within.add(1), within.add(2)), (1, 2, 1));
        assert_eq!((within.of(2), within.of(1)), (1, 0));
        assert!(is_share(1, 2, 50) && !is_share(1, 3, 50) && !is_share(0, 0, 0));
    }
}
