//! The stored form of a value: a version, the revision, and the value itself (K-6.3).

use crate::patience::ClientError;
use bytes::{BufMut, Bytes, BytesMut};
use lazuli_engine::{Found, Revision};

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 1 + size_of::<u64>();

pub(crate) fn store(value: &[u8], revision: Revision) -> Bytes {
    let mut stored = BytesMut::with_capacity(HEAD_BYTES + value.len());
    stored.put_u8(VERSION);
    stored.put_u64(revision.0);
    stored.put_slice(value);
    stored.freeze()
}

pub(crate) fn load(stored: &Bytes) -> Result<Found, ClientError> {
    match stored.split_first_chunk() {
        Some((&[VERSION, a, b, c, d, e, f, g, h], _)) => Ok(Found {
            revision: Revision(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
            value: stored.slice(HEAD_BYTES..),
        }),
        _ => Err(ClientError::Corrupt("a stored value does not begin with a known version".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_and_revision_are_stored_together() {
        let stored = store(b"value", Revision(0x0102_0304_0506_0708));
        assert_eq!(stored.as_ref(), [&[1, 1, 2, 3, 4, 5, 6, 7, 8][..], b"value"].concat());
        let found = load(&stored).unwrap();
        assert_eq!(found.value, "value");
        assert_eq!(found.revision, Revision(0x0102_0304_0506_0708));
    }

    /// `docs/format.md` shows a stored value to the byte.
    #[test]
    fn stored_value_is_as_the_page_of_the_format_shows_it() {
        let page = include_str!("../../../docs/format.md");
        let lines = page.lines().skip_while(|line| *line != "```tikv-hex value").skip(1);
        let shown = lines.take_while(|line| *line != "```").flat_map(|line| {
            let hex = line.split("  ").next().unwrap();
            hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap())
        });
        let stored = store(&[1], Revision(0x08DD_29F8_1234_0000));
        assert_eq!(stored.as_ref(), shown.collect::<Vec<u8>>());
    }

    #[test]
    fn other_bytes_are_corrupt_and_not_a_value() {
        for stored in [&b""[..], &[1, 2, 3], &[2, 0, 0, 0, 0, 0, 0, 0, 0, 9]] {
            let loaded = load(&Bytes::copy_from_slice(stored));
            assert!(matches!(loaded, Err(ClientError::Corrupt(_))), "{stored:?}");
        }
    }
}
