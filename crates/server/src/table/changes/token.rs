//! The text of a position in a feed.
//!
//! A checksum distinguishes it from text that the server did not make. It is not secret: a client
//! that may read the feed may start anywhere.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazuli_model::Timestamp;
use lazuli_table::{FeedToken, TableId};

const VERSION: u8 = 1;
const SUM_BYTES: usize = 8;

pub(super) fn write(token: &FeedToken) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&token.table.0.to_be_bytes());
    bytes.extend_from_slice(&token.feed.to_be_bytes());
    bytes.extend_from_slice(&token.position.to_be_bytes());
    bytes.extend_from_slice(&token.issued.ticks().to_be_bytes());
    let sum = sum(&bytes);
    bytes.extend_from_slice(&sum);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// `None` if the server did not write it.
pub(super) fn read(text: &str) -> Option<FeedToken> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (bytes, given) = bytes.split_last_chunk::<SUM_BYTES>()?;
    if *given != sum(bytes) {
        return None;
    }
    let (version, rest) = bytes.split_first()?;
    let (table, rest) = rest.split_first_chunk()?;
    let (feed, rest) = rest.split_first_chunk()?;
    let (position, rest) = rest.split_first_chunk()?;
    let issued = u64::from_be_bytes(rest.try_into().ok()?);
    let token = FeedToken {
        table: TableId(u64::from_be_bytes(*table)),
        feed: u32::from_be_bytes(*feed),
        position: u64::from_be_bytes(*position),
        issued: Timestamp::from_ticks(issued)?,
    };
    (*version == VERSION).then_some(token)
}

fn sum(bytes: &[u8]) -> [u8; SUM_BYTES] {
    let whole = digest(&SHA256, &[b"lazuli change feed", bytes].concat());
    let mut sum = [0; SUM_BYTES];
    sum.iter_mut().zip(whole.as_ref()).for_each(|(to, from)| *to = *from);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_and_a_changed_one_does_not() {
        let token = FeedToken {
            table: TableId(7),
            feed: 2,
            position: 638_712_864_000_000_000,
            issued: Timestamp::UNIX_EPOCH,
        };
        let text = write(&token);
        assert_eq!(read(&text), Some(token));
        for place in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(read(&changed), None, "{changed}");
            assert_eq!(read(&text[..place]), None);
        }
        assert_eq!(read("now"), None);
        assert_eq!(read(&format!("{text}=")), None);
    }
}
