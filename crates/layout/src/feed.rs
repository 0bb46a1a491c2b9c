//! Values of change feeds: the record of a feed, and its entries.

use crate::CorruptRecord;
use crate::codec::{Reader, Writer};
use lazuli_model::{AccountName, ChangeOperation, TableName, Timestamp};

const RECORD_VERSION: u8 = 1;
const ENTRY_VERSION: u8 = 1;
const HEAD_VERSION: u8 = 1;

/// The value of the head of a feed; only its revision matters.
pub const HEAD: &[u8] = &[HEAD_VERSION];

/// What is stored about a feed in addition to its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRecord {
    pub account: AccountName,
    pub table: TableName,
    /// When the feed was turned on.
    pub begun: Timestamp,
    /// Entries of commits before this revision are dropped.
    pub floor: u64,
}

impl FeedRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![RECORD_VERSION]);
        out.text(self.account.as_str());
        out.text(self.table.as_str());
        out.u64(self.begun.ticks());
        out.u64(self.floor);
        out.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let mut reader = Reader::new("feed record", RECORD_VERSION, bytes)?;
        let record = Self {
            account: AccountName::parse(&reader.text()?).ok_or(reader.corrupt())?,
            table: TableName::parse_any(&reader.text()?).map_err(|_| reader.corrupt())?,
            begun: reader.timestamp()?,
            floor: reader.u64()?,
        };
        reader.end()?;
        Ok(record)
    }
}

/// One change of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeRecord<'a> {
    pub operation: ChangeOperation,
    /// The entity's key without its table.
    pub entity: &'a [u8],
    /// The stored entity after the change. Its revision is that of the change.
    pub new: Option<&'a [u8]>,
    /// The stored entity before the change, and its revision.
    pub old: Option<(u64, &'a [u8])>,
}

const HAS_NEW: u8 = 1;
const HAS_OLD: u8 = 2;

impl<'a> ChangeRecord<'a> {
    pub fn encode(&self) -> Vec<u8> {
        let images = self.new.map_or(0, <[u8]>::len) + self.old.map_or(0, |(_, old)| old.len());
        let mut out = Writer(Vec::with_capacity(self.entity.len() + images + 32));
        out.u8(ENTRY_VERSION);
        out.u8(operation_code(self.operation));
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        out.u8(flag(self.new.is_some(), HAS_NEW) | flag(self.old.is_some(), HAS_OLD));
        out.bytes(self.entity);
        if let Some(new) = self.new {
            out.bytes(new);
        }
        if let Some((revision, old)) = self.old {
            out.u64(revision);
            out.bytes(old);
        }
        out.0
    }

    pub fn decode(bytes: &'a [u8]) -> Result<Self, CorruptRecord> {
        let mut reader = Reader::new("change", ENTRY_VERSION, bytes)?;
        let operation = operation_of(reader.u8()?).ok_or(reader.corrupt())?;
        let flags = reader.u8()?;
        if flags & !(HAS_NEW | HAS_OLD) != 0 {
            return Err(reader.corrupt());
        }
        let entity = reader.bytes()?;
        let new = if flags & HAS_NEW != 0 { Some(reader.bytes()?) } else { None };
        let old = if flags & HAS_OLD != 0 { Some((reader.u64()?, reader.bytes()?)) } else { None };
        reader.end()?;
        Ok(Self { operation, entity, new, old })
    }
}

const fn operation_code(operation: ChangeOperation) -> u8 {
    match operation {
        ChangeOperation::Insert => 1,
        ChangeOperation::Replace => 2,
        ChangeOperation::Merge => 3,
        ChangeOperation::Delete => 4,
        ChangeOperation::Expire => 5,
    }
}

const fn operation_of(code: u8) -> Option<ChangeOperation> {
    Some(match code {
        1 => ChangeOperation::Insert,
        2 => ChangeOperation::Replace,
        3 => ChangeOperation::Merge,
        4 => ChangeOperation::Delete,
        5 => ChangeOperation::Expire,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> FeedRecord {
        FeedRecord {
            account: AccountName::parse("acct1").unwrap(),
            table: TableName::parse("Orders").unwrap(),
            begun: Timestamp::UNIX_EPOCH,
            floor: 5,
        }
    }

    #[test]
    fn records_come_back() {
        assert_eq!(FeedRecord::decode(&record().encode()), Ok(record()));
        for operation in ChangeOperation::ALL {
            for (new, old) in
                [(None, None), (Some(&b"n"[..]), None), (Some(b"n"), Some((7, &b"old"[..])))]
            {
                let change = ChangeRecord { operation, entity: b"p\0r", new, old };
                let bytes = change.encode();
                assert_eq!(ChangeRecord::decode(&bytes), Ok(change));
                assert!((0..bytes.len()).all(|end| ChangeRecord::decode(&bytes[..end]).is_err()));
            }
        }
        let bytes = record().encode();
        assert!((0..bytes.len()).all(|end| FeedRecord::decode(&bytes[..end]).is_err()));
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = FeedRecord::decode(&bytes);
            let _ = ChangeRecord::decode(&bytes);
            let _ = ChangeRecord::decode(&[&[1], bytes.as_slice()].concat());
        }
    }
}
