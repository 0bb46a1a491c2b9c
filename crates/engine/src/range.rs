//! Half-open ranges of keys.

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

    /// Every key that begins with `prefix`. A prefix of nothing but 0xFF has no end and gives an
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

    /// What both ranges hold.
    pub fn intersect(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }
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
    fn intersection_may_be_empty() {
        let a = KeyRange::new(*b"a", *b"m");
        assert_eq!(a.clone().intersect(KeyRange::new(*b"c", *b"z")), KeyRange::new(*b"c", *b"m"));
        assert!(a.intersect(KeyRange::new(*b"x", *b"z")).is_empty());
    }
}
