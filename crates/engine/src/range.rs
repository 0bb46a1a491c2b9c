//! Half-open ranges of keys.

use crate::Direction;

/// The keys from `start`, inclusive, to `end`, exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub start: Vec<u8>,
    pub end: Vec<u8>,
}

impl KeyRange {
    pub fn new(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self { start: start.into(), end: end.into() }
    }

    /// Every key that begins with `prefix`. A prefix of only 0xFF bytes has no end and gives an
    /// empty range; our keys begin with `L`.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self { start: prefix.to_vec(), end: successor_of_prefix(prefix) }
    }

    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && key < self.end.as_slice()
    }

    /// The intersection of both ranges.
    pub fn intersect(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// What remains of a scan in `direction` that stops before `key`.
    #[must_use]
    pub fn starting_with(self, direction: Direction, key: &[u8]) -> Self {
        match direction {
            Direction::Forward => Self { start: key.to_vec(), ..self },
            Direction::Backward => Self { end: next_key(key), ..self },
        }
    }

    /// What remains of a scan in `direction` that stops after `key`.
    #[must_use]
    pub fn after(self, direction: Direction, key: &[u8]) -> Self {
        match direction {
            Direction::Forward => Self { start: next_key(key), ..self },
            Direction::Backward => Self { end: key.to_vec(), ..self },
        }
    }
}

/// The least key greater than `key`.
fn next_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The least key greater than every key that begins with `prefix`.
fn successor_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|&b| b != 0xFF).map_or(0, |last| last + 1);
    let mut end: Vec<u8> = prefix.iter().copied().take(kept).collect();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_exactly_its_extensions() {
        let range = KeyRange::prefix(b"La\xFF");
        assert!(range.contains(b"La\xFF") && range.contains(b"La\xFF\xFF\xFF"));
        assert!(!range.contains(b"La\xFE\xFF") && !range.contains(b"Lb"));
        assert!(KeyRange::prefix(b"\xFF").is_empty());
    }

    #[test]
    fn a_stopped_scan_leaves_the_rest_of_its_range() {
        let range = KeyRange::new(*b"a", *b"m");
        let left = |direction, key| {
            let with = range.clone().starting_with(direction, key);
            let after = range.clone().after(direction, key);
            assert!(with.contains(key) && !after.contains(key));
            (with, after)
        };
        let forward = (KeyRange::new(*b"c", *b"m"), KeyRange::new(*b"c\0", *b"m"));
        assert_eq!(left(Direction::Forward, b"c"), forward);
        let backward = (KeyRange::new(*b"a", *b"c\0"), KeyRange::new(*b"a", *b"c"));
        assert_eq!(left(Direction::Backward, b"c"), backward);
    }

    #[test]
    fn intersection_may_be_empty() {
        let a = KeyRange::new(*b"a", *b"m");
        assert_eq!(a.clone().intersect(KeyRange::new(*b"c", *b"z")), KeyRange::new(*b"c", *b"m"));
        assert!(a.intersect(KeyRange::new(*b"x", *b"z")).is_empty());
    }
}
