//! Keys of change feeds; the module above lists them.
//!
//! A feed of a table has a number, which is never reused: a feed that is turned off and on again
//! gets a new number. Its entries are appended by the engine under [`FeedId::entries_prefix`], so
//! their keys end with the revision of the commit and the place in it, and are in commit order.

use super::{END, LAZULI, TableId, split_table, table_prefix};
use crate::CorruptRecord;
use std::ops::Range;

const KIND_CHANGE: u8 = b'f';
const KIND_HEAD: u8 = b'h';
const KIND_RECORD: u8 = b'k';
const KIND_DROPPED: u8 = b'o';

/// Identifies a feed for the life of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeedId {
    pub table: TableId,
    pub number: u32,
}

impl FeedId {
    fn prefix(self, kind: u8) -> Vec<u8> {
        let mut key = table_prefix(kind, self.table, size_of::<u32>() + size_of::<u64>());
        key.extend_from_slice(&self.number.to_be_bytes());
        key
    }

    /// Under which entries are appended.
    pub fn entries_prefix(self) -> Vec<u8> {
        self.prefix(KIND_CHANGE)
    }

    /// The entries of commits at `revision` or later.
    pub fn entries_from(self, revision: u64) -> Range<Vec<u8>> {
        let mut start = self.prefix(KIND_CHANGE);
        let end = [start.as_slice(), &[END; size_of::<u64>() + 1]].concat();
        start.extend_from_slice(&revision.to_be_bytes());
        start..end
    }

    /// The entries of commits before `revision`.
    pub fn entries_before(self, revision: u64) -> Range<Vec<u8>> {
        let start = self.prefix(KIND_CHANGE);
        let end = [start.as_slice(), &revision.to_be_bytes()].concat();
        start..end
    }

    /// Every entry.
    pub fn entries(self) -> Range<Vec<u8>> {
        self.entries_from(0)
    }

    /// The key that every commit with an entry writes on a store with many writers, which orders
    /// these commits.
    pub fn head(self) -> Vec<u8> {
        self.prefix(KIND_HEAD)
    }

    /// The record of the feed.
    pub fn record(self) -> Vec<u8> {
        self.prefix(KIND_RECORD)
    }

    /// The tombstone of the entries before `revision`.
    pub fn dropped(self, revision: u64) -> Vec<u8> {
        let mut key = self.prefix(KIND_DROPPED);
        key.extend_from_slice(&revision.to_be_bytes());
        key
    }
}

/// Everything that feeds of `table` store, for its drop.
pub fn of_table(table: TableId) -> [Range<Vec<u8>>; 4] {
    [KIND_CHANGE, KIND_HEAD, KIND_RECORD, KIND_DROPPED].map(|kind| {
        let start = table_prefix(kind, table, 1);
        let end = [start.as_slice(), &[END]].concat();
        start..end
    })
}

/// The records of all feeds.
pub fn records() -> Range<Vec<u8>> {
    vec![LAZULI, KIND_RECORD]..vec![LAZULI, KIND_RECORD + 1]
}

/// The tombstones of dropped entries.
pub fn dropped() -> Range<Vec<u8>> {
    vec![LAZULI, KIND_DROPPED]..vec![LAZULI, KIND_DROPPED + 1]
}

/// The feed that a key within [`records`] names.
pub fn decode_record(key: &[u8]) -> Result<FeedId, CorruptRecord> {
    const CORRUPT: CorruptRecord = CorruptRecord("feed record key");
    let (table, number) = split_table(KIND_RECORD, key).ok_or(CORRUPT)?;
    Ok(FeedId { table, number: u32::from_be_bytes(number.try_into().map_err(|_| CORRUPT)?) })
}

/// The feed and the revision that a key within [`dropped`] names.
pub fn decode_dropped(key: &[u8]) -> Result<(FeedId, u64), CorruptRecord> {
    const CORRUPT: CorruptRecord = CorruptRecord("dropped changes key");
    let (table, rest) = split_table(KIND_DROPPED, key).ok_or(CORRUPT)?;
    let (number, revision) = rest.split_first_chunk().ok_or(CORRUPT)?;
    let revision = revision.try_into().map_err(|_| CORRUPT)?;
    Ok((FeedId { table, number: u32::from_be_bytes(*number) }, u64::from_be_bytes(revision)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEED: FeedId = FeedId { table: TableId(7), number: 2 };

    #[test]
    fn entries_of_a_feed_are_together_and_in_order() {
        let entry = |revision: u64| {
            [FEED.entries_prefix(), revision.to_be_bytes().to_vec(), vec![0; 4]].concat()
        };
        for revision in [0, 1, 256, u64::MAX] {
            assert!(FEED.entries().contains(&entry(revision)));
            assert!(FEED.entries_from(revision).contains(&entry(revision)));
            assert!(!FEED.entries_before(revision).contains(&entry(revision)));
            let other = FeedId { number: 3, ..FEED };
            assert!(!other.entries().contains(&entry(revision)));
        }
        assert!(FEED.entries_before(2).contains(&entry(1)));
        assert!(!FEED.entries_from(2).contains(&entry(1)));
        assert!(of_table(FEED.table).iter().any(|range| range.contains(&entry(u64::MAX))));
    }

    #[test]
    fn keys_name_their_feed() {
        assert_eq!(decode_record(&FEED.record()), Ok(FEED));
        assert!(records().contains(&FEED.record()));
        assert_eq!(decode_dropped(&FEED.dropped(9)), Ok((FEED, 9)));
        assert!(dropped().contains(&FEED.dropped(u64::MAX)));
        assert!(decode_record(&FEED.dropped(9)).is_err());
        assert!(decode_dropped(&FEED.record()).is_err());
        assert!(decode_dropped(b"Lo").is_err());
    }
}
