//! What the keyspaces hold: values with their revisions, the last revision, dropped ranges.

use bytes::Bytes;
use fjall::Slice;
use lazuli_engine::{EngineError, Found, KeyRange, Revision};

pub(super) const LAST_REVISION: &[u8] = b"last revision";
/// Followed by the length of the start, four bytes big-endian, the start and the end.
pub(super) const DROPPED_RANGE: &[u8] = b"dropped range ";
const REVISION_BYTES: usize = 8;
/// Follows the last revision of a batch.
const FOLLOWS_SYNCED: u8 = 1;

/// The value of the last revision, and whether all batches before it were durable.
pub(super) fn encode_last(last: Revision, follows_synced: bool) -> Vec<u8> {
    let mut value = last.0.to_be_bytes().to_vec();
    if follows_synced {
        value.push(FOLLOWS_SYNCED);
    }
    value
}

pub(super) fn decode_last(value: Option<Slice>) -> Result<Revision, EngineError> {
    match value.as_ref().map(|value| value.split_first_chunk()) {
        None => Ok(Revision(0)),
        Some(Some((revision, _))) => Ok(Revision(u64::from_be_bytes(*revision))),
        Some(None) => Err(EngineError::Corrupt("the last revision has a wrong length".into())),
    }
}

/// The revision of a batch that contains this entry.
pub(crate) fn last_revision(key: &[u8], value: &[u8]) -> Option<Revision> {
    let (revision, _) = value.split_first_chunk()?;
    (key == LAST_REVISION).then_some(Revision(u64::from_be_bytes(*revision)))
}

/// Whether an entry of a batch says that all batches before it were durable.
pub(crate) fn follows_synced(key: &[u8], value: &[u8]) -> bool {
    key == LAST_REVISION && value.get(REVISION_BYTES) == Some(&FOLLOWS_SYNCED)
}

/// A payload laid out as it will be stored, after space for its revision. Callers build it, so that
/// the single committer need not copy the payload.
pub(crate) struct Unstamped(Vec<u8>);

impl Unstamped {
    pub(crate) fn new(payload: &[u8]) -> Self {
        Self([&[0; REVISION_BYTES], payload].concat())
    }

    pub(crate) fn payload(&self) -> &[u8] {
        self.0.get(REVISION_BYTES..).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.payload().len()
    }

    pub(crate) fn stamp(mut self, revision: Revision) -> Stored {
        if let Some(room) = self.0.first_chunk_mut() {
            *room = revision.0.to_be_bytes();
        }
        Stored { bytes: self.0.into(), revision }
    }
}

/// A value as stored.
pub(crate) struct Stored {
    pub(super) bytes: Bytes,
    revision: Revision,
}

impl Stored {
    pub(crate) fn found(&self) -> Found {
        Found { value: self.bytes.slice(REVISION_BYTES..), revision: self.revision }
    }
}

/// Splits a stored value into revision and payload, without copying the payload.
pub(crate) fn decode(stored: Slice) -> Result<Found, EngineError> {
    let (revision, _) = decode_ref(&stored)?;
    Ok(Found { value: Bytes::from(stored).slice(REVISION_BYTES..), revision })
}

pub(crate) fn decode_ref(stored: &[u8]) -> Result<(Revision, &[u8]), EngineError> {
    match stored.split_first_chunk::<REVISION_BYTES>() {
        Some((revision, value)) => Ok((Revision(u64::from_be_bytes(*revision)), value)),
        None => Err(EngineError::Corrupt(format!(
            "a stored value has {} bytes, fewer than its revision",
            stored.len()
        ))),
    }
}

/// Whether a range can be recorded: fjall's keys have at most 65535 bytes.
pub(crate) fn can_be_noted(range: &KeyRange) -> bool {
    encode_range(range).len() <= usize::from(u16::MAX)
}

pub(super) fn encode_range(range: &KeyRange) -> Vec<u8> {
    let start_bytes = (range.start.len() as u32).to_be_bytes();
    [DROPPED_RANGE, &start_bytes, &range.start, &range.end].concat()
}

pub(super) fn decode_range(key: &[u8]) -> Result<KeyRange, EngineError> {
    let parts = || {
        let (start_bytes, rest) = key.strip_prefix(DROPPED_RANGE)?.split_first_chunk()?;
        rest.split_at_checked(u32::from_be_bytes(*start_bytes) as usize)
    };
    let (start, end) =
        parts().ok_or_else(|| EngineError::Corrupt("a dropped range cannot be read".into()))?;
    Ok(KeyRange::new(start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_value_is_revision_then_payload() {
        let stored = Unstamped::new(b"abc").stamp(Revision(0x0102));
        assert_eq!(*stored.bytes, *b"\0\0\0\0\0\0\x01\x02abc");
        let found = Found { value: "abc".into(), revision: Revision(0x0102) };
        assert_eq!(stored.found(), found);
        assert_eq!(decode(stored.bytes.into()).unwrap(), found);
    }

    #[test]
    fn value_shorter_than_its_revision_is_corrupt() {
        assert!(matches!(decode(Slice::from(*b"1234567")), Err(EngineError::Corrupt(_))));
        assert!(matches!(decode(Slice::empty()), Err(EngineError::Corrupt(_))));
    }

    #[test]
    fn dropped_range_reads_back() {
        for range in [KeyRange::new("", ""), KeyRange::new("La", "Lb"), KeyRange::new("L\0", "M")] {
            assert_eq!(decode_range(&encode_range(&range)).unwrap(), range);
        }
        assert!(decode_range(b"dropped range \0\0\0\x05abc").is_err());
    }
}
