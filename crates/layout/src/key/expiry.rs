//! Keys of the moments at which entities expire; the module above lists them.
//!
//! A moment has an entry under the number of the table's expiry, which no index has. An entry only
//! says when to look at an entity: the entity itself says when it expires. So the moment is stored
//! coarsely, as a bucket of a few seconds, and a leftover entry does no harm.

use super::{END, LAZULI, TableId, split_table, table_prefix};
use crate::{CorruptRecord, IndexId};
use lazuli_model::Timestamp;
use std::ops::Range;

const KIND_MOMENT: u8 = b'x';
const KIND_RECORD: u8 = b'y';

/// A bucket is 2^26 ticks, 6.7 seconds.
const BUCKET_BITS: u32 = 26;

/// The bucket of a moment.
pub const fn bucket(moment: Timestamp) -> u64 {
    moment.ticks() >> BUCKET_BITS
}

/// Ticks from the start of a moment's bucket to the moment, and from there to the bucket's end.
pub const fn within_bucket(moment: Timestamp) -> (u64, u64) {
    let width = 1 << BUCKET_BITS;
    let since = moment.ticks() & (width - 1);
    (since, width - since)
}

fn prefix(kind: u8, id: IndexId, more: usize) -> Vec<u8> {
    let mut key = table_prefix(kind, id.table, size_of::<u32>() + more);
    key.extend_from_slice(&id.number.to_be_bytes());
    key
}

/// The entry of an entity, by its key without its table.
pub fn moment(id: IndexId, bucket: u64, entity: &[u8]) -> Vec<u8> {
    let mut key = prefix(KIND_MOMENT, id, size_of::<u64>() + entity.len());
    key.extend_from_slice(&bucket.to_be_bytes());
    key.extend_from_slice(entity);
    key
}

/// The bucket and the entity of an entry.
pub fn split_moment(key: &[u8]) -> Result<(u64, &[u8]), CorruptRecord> {
    const CORRUPT: CorruptRecord = CorruptRecord("moment key");
    let (_, rest) = split_table(KIND_MOMENT, key).ok_or(CORRUPT)?;
    let rest = rest.get(size_of::<u32>()..).ok_or(CORRUPT)?;
    let (bucket, entity) = rest.split_first_chunk().ok_or(CORRUPT)?;
    Ok((u64::from_be_bytes(*bucket), entity))
}

/// Every entry.
pub fn moments(id: IndexId) -> Range<Vec<u8>> {
    let start = prefix(KIND_MOMENT, id, 1);
    let end = [start.as_slice(), &[END]].concat();
    start..end
}

/// The entries of buckets up to `last`.
pub fn moments_until(id: IndexId, last: u64) -> Range<Vec<u8>> {
    let start = prefix(KIND_MOMENT, id, 0);
    let end = moment(id, last.saturating_add(1), &[]);
    start..end
}

/// The record of an expiry, which names its table.
pub fn record(id: IndexId) -> Vec<u8> {
    prefix(KIND_RECORD, id, 0)
}

/// The records of all expiries.
pub fn records() -> Range<Vec<u8>> {
    vec![LAZULI, KIND_RECORD]..vec![LAZULI, KIND_RECORD + 1]
}

/// The expiry that a key within [`records`] names.
pub fn decode_record(key: &[u8]) -> Result<IndexId, CorruptRecord> {
    const CORRUPT: CorruptRecord = CorruptRecord("expiry record key");
    let (table, number) = split_table(KIND_RECORD, key).ok_or(CORRUPT)?;
    Ok(IndexId { table, number: u32::from_be_bytes(number.try_into().map_err(|_| CORRUPT)?) })
}

/// Everything that expiries of `table` store, for its drop.
pub fn of_table(table: TableId) -> [Range<Vec<u8>>; 2] {
    [KIND_MOMENT, KIND_RECORD].map(|kind| {
        let start = table_prefix(kind, table, 1);
        let end = [start.as_slice(), &[END]].concat();
        start..end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: IndexId = IndexId { table: TableId(7), number: 2 };

    #[test]
    fn entries_are_in_the_order_of_their_buckets() {
        let at = |seconds| bucket(Timestamp::UNIX_EPOCH.plus_seconds(seconds));
        assert!(at(0) < at(7) && at(7) <= at(8));
        let entries = [moment(ID, 1, b"z\0z"), moment(ID, 2, b"a\0a"), moment(ID, 256, b"\0")];
        assert!(entries.is_sorted());
        assert!(entries.iter().all(|entry| moments(ID).contains(entry)));
        let until = |last| entries.iter().filter(|e| moments_until(ID, last).contains(*e)).count();
        assert_eq!([until(0), until(1), until(2), until(u64::MAX)], [0, 1, 2, 3]);
        assert_eq!(split_moment(&entries[1]), Ok((2, &b"a\0a"[..])));
        assert!(split_moment(&record(ID)).is_err());
    }

    #[test]
    fn records_name_their_expiry() {
        assert_eq!(decode_record(&record(ID)), Ok(ID));
        assert!(records().contains(&record(ID)));
        assert!(decode_record(&moment(ID, 1, b"")).is_err());
        assert!(of_table(ID.table).iter().any(|range| range.contains(&record(ID))));
    }
}
