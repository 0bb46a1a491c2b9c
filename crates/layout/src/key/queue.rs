//! Keys of queues and their messages; the module above lists them.
//!
//! A message is stored at its [`Position`]: the tick at which it becomes visible, which is its pop
//! receipt, and its id. So the next message to deliver is the first of its queue, and an outdated
//! receipt names a key that does not exist.

use super::{CorruptRecord, LAZULI, TERMINATOR, push_text, text_range};
use lazuli_model::{AccountName, MessageId, QueueName, Timestamp};
use std::ops::{Bound, Range};

const KIND_ACCESS_POLICIES: u8 = super::KIND_ACCESS_POLICIES;
const KIND_CATALOG: u8 = b'q';
const KIND_MESSAGE: u8 = b'm';
const KIND_TEXT: u8 = b't';
const KIND_RECLAIM: u8 = b'd';
const KIND_SERVICE_PROPERTIES: u8 = b's';

/// Identifies a queue for the life of the store. Queues and tables share one id counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u64);

/// The messages of a queue between two clears: Clear Messages starts the next epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation {
    pub queue: QueueId,
    pub epoch: u32,
}

/// The position of a message in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub next_visible: Timestamp,
    pub id: MessageId,
}

impl Position {
    /// The first position at `next_visible`.
    pub const fn first_at(next_visible: Timestamp) -> Self {
        Self { next_visible, id: MessageId::from_bytes([0; 16]) }
    }

    /// The position right after this one.
    pub fn next(self) -> Self {
        match u128::from_be_bytes(self.id.bytes()).checked_add(1) {
            Some(id) => Self { id: MessageId::from_bytes(id.to_be_bytes()), ..self },
            None => Self::first_at(
                Timestamp::from_ticks(self.next_visible.ticks() + 1).unwrap_or(Timestamp::MAX),
            ),
        }
    }
}

/// The key of a queue's catalog record.
pub fn catalog(account: &AccountName, name: &QueueName) -> Vec<u8> {
    let mut key = catalog_prefix(account);
    push_text(&mut key, name.as_str());
    key
}

/// The name of the queue whose catalog record is stored under `key`.
pub fn decode_catalog(key: &[u8]) -> Result<QueueName, CorruptRecord> {
    let name = key.rsplit(|byte| *byte == TERMINATOR).next().unwrap_or_default();
    let name = std::str::from_utf8(name).ok().and_then(|name| QueueName::parse(name).ok());
    name.ok_or(CorruptRecord("queue catalog key"))
}

/// The catalog records of `account` whose names lie between `low` and `high`.
pub fn catalog_range(account: &AccountName, low: Bound<&str>, high: Bound<&str>) -> Range<Vec<u8>> {
    text_range(catalog_prefix(account), low, high)
}

/// The catalog records of all accounts.
pub fn catalogs() -> Range<Vec<u8>> {
    vec![LAZULI, KIND_CATALOG]..vec![LAZULI, KIND_CATALOG + 1]
}

/// The key of the access policies of `queue`; the kind byte is that of tables, because no table has
/// the same id.
pub fn access_policies(queue: QueueId) -> Vec<u8> {
    [&[LAZULI, KIND_ACCESS_POLICIES][..], &queue.0.to_be_bytes()].concat()
}

/// The key of the properties of an account's queue service.
pub fn service_properties(account: &AccountName) -> Vec<u8> {
    [&[LAZULI, KIND_SERVICE_PROPERTIES], account.as_str().as_bytes()].concat()
}

/// The key of a message.
pub fn message(generation: Generation, position: Position) -> Vec<u8> {
    let mut key = prefix(KIND_MESSAGE, generation);
    key.extend_from_slice(&position.next_visible.ticks().to_be_bytes());
    key.extend_from_slice(&position.id.bytes());
    key
}

/// The inverse of [`message`].
pub fn decode_message(key: &[u8]) -> Result<(Generation, Position), CorruptRecord> {
    split_message(key).ok_or(CorruptRecord("message key"))
}

/// The messages from `start` on that are visible at `now`.
pub fn visible_range(generation: Generation, start: Position, now: Timestamp) -> Range<Vec<u8>> {
    let mut end = prefix(KIND_MESSAGE, generation);
    end.extend_from_slice(&now.ticks().saturating_add(1).to_be_bytes());
    message(generation, start)..end
}

/// Every message of a generation.
pub fn message_range(generation: Generation) -> Range<Vec<u8>> {
    all_of(KIND_MESSAGE, generation)
}

/// The key of a text that is stored separately.
pub fn text(generation: Generation, id: MessageId) -> Vec<u8> {
    [&prefix(KIND_TEXT, generation)[..], &id.bytes()].concat()
}

/// All separately stored texts of a generation.
pub fn text_keys(generation: Generation) -> Range<Vec<u8>> {
    all_of(KIND_TEXT, generation)
}

/// The key of the tombstone that requests reclaiming the space of a generation.
pub fn reclaim(generation: Generation) -> Vec<u8> {
    prefix(KIND_RECLAIM, generation)
}

/// All such tombstones.
pub fn reclaim_range() -> Range<Vec<u8>> {
    vec![LAZULI, KIND_RECLAIM]..vec![LAZULI, KIND_RECLAIM + 1]
}

/// The generation that a key within [`reclaim_range`] names.
pub fn decode_reclaim(key: &[u8]) -> Result<Generation, CorruptRecord> {
    match split_generation(KIND_RECLAIM, key) {
        Some((generation, [])) => Ok(generation),
        _ => Err(CorruptRecord("reclaim key")),
    }
}

fn catalog_prefix(account: &AccountName) -> Vec<u8> {
    [&[LAZULI, KIND_CATALOG], account.as_str().as_bytes(), &[TERMINATOR]].concat()
}

/// `L`, the kind, queue id and epoch, with room for a position.
fn prefix(kind: u8, generation: Generation) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + size_of::<u64>() + size_of::<u32>() + 24);
    key.extend_from_slice(&[LAZULI, kind]);
    key.extend_from_slice(&generation.queue.0.to_be_bytes());
    key.extend_from_slice(&generation.epoch.to_be_bytes());
    key
}

/// From the prefix to the prefix of the next epoch, or beyond all ticks and ids of the last.
fn all_of(kind: u8, generation: Generation) -> Range<Vec<u8>> {
    let start = prefix(kind, generation);
    let end = [&start[..], &[0xFF; 24]].concat();
    start..end
}

fn split_generation(kind: u8, key: &[u8]) -> Option<(Generation, &[u8])> {
    let rest = key.strip_prefix(&[LAZULI, kind])?;
    let (queue, rest) = rest.split_first_chunk()?;
    let (epoch, rest) = rest.split_first_chunk()?;
    let queue = QueueId(u64::from_be_bytes(*queue));
    Some((Generation { queue, epoch: u32::from_be_bytes(*epoch) }, rest))
}

fn split_message(key: &[u8]) -> Option<(Generation, Position)> {
    let (generation, rest) = split_generation(KIND_MESSAGE, key)?;
    let (ticks, rest) = rest.split_first_chunk()?;
    let next_visible = Timestamp::from_ticks(u64::from_be_bytes(*ticks))?;
    let id = MessageId::from_bytes(rest.try_into().ok()?);
    Some((generation, Position { next_visible, id }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn generation() -> impl Strategy<Value = Generation> {
        let near = prop_oneof![0_u64..4, Just(u64::MAX), any::<u64>()];
        (near, prop_oneof![0_u32..4, Just(u32::MAX)])
            .prop_map(|(queue, epoch)| Generation { queue: QueueId(queue), epoch })
    }

    fn position() -> impl Strategy<Value = Position> {
        let ticks = prop_oneof![0_u64..4, 0..=Timestamp::MAX.ticks(), Just(Timestamp::MAX.ticks())];
        let id = prop_oneof![Just([0; 16]), Just([0xFF; 16]), any::<[u8; 16]>()];
        (ticks, id).prop_map(|(ticks, id)| Position {
            next_visible: Timestamp::from_ticks(ticks).unwrap(),
            id: MessageId::from_bytes(id),
        })
    }

    proptest! {
        #[test]
        fn message_order_is_byte_order(
            a in (generation(), position()), b in (generation(), position()),
        ) {
            prop_assert_eq!(message(a.0, a.1).cmp(&message(b.0, b.1)), a.cmp(&b));
        }

        #[test]
        fn nothing_lies_between_a_position_and_the_next(a in position(), b in position()) {
            prop_assume!(a.next_visible < Timestamp::MAX);
            prop_assert!(a < a.next() && (b <= a || b >= a.next()));
        }

        #[test]
        fn message_keys_round_trip(generation in generation(), position in position()) {
            let key = message(generation, position);
            prop_assert_eq!(decode_message(&key), Ok((generation, position)));
            prop_assert!(decode_message(&key[..key.len() - 1]).is_err());
            prop_assert!(decode_message(&[&key[..], &[0]].concat()).is_err());
        }

        #[test]
        fn marks_round_trip(generation in generation()) {
            prop_assert_eq!(decode_reclaim(&reclaim(generation)), Ok(generation));
            prop_assert!(reclaim_range().contains(&reclaim(generation)));
        }

        #[test]
        fn the_visible_range_holds_what_is_visible(
            generation in generation(), start in position(), now in position(), of in position(),
        ) {
            let now = now.next_visible;
            let expect = start <= of && of.next_visible <= now;
            let range = visible_range(generation, start, now);
            prop_assert_eq!(range.contains(&message(generation, of)), expect);
        }

        #[test]
        fn generations_do_not_overlap(
            a in generation(), b in generation(), position in position(),
        ) {
            let is_same = a == b;
            prop_assert_eq!(message_range(a).contains(&message(b, position)), is_same);
            prop_assert_eq!(text_keys(a).contains(&text(b, position.id)), is_same);
        }

        #[test]
        fn decoding_survives_any_bytes(bytes in any::<Vec<u8>>()) {
            let _ = decode_message(&bytes);
            let _ = decode_message(&[&[LAZULI, KIND_MESSAGE], &bytes[..]].concat());
            let _ = decode_reclaim(&bytes);
        }

        #[test]
        fn names_order_as_bytes_within_their_account(
            a in "[a-c0-9]([a-c0-9-]?[a-c0-9]){2,4}", b in "[a-c0-9]([a-c0-9-]?[a-c0-9]){2,4}",
        ) {
            let account = AccountName::parse("acct").unwrap();
            if let (Ok(x), Ok(y)) = (QueueName::parse(&a), QueueName::parse(&b)) {
                prop_assert_eq!(catalog(&account, &x).cmp(&catalog(&account, &y)), a.cmp(&b));
                let from_b = catalog_range(&account, Bound::Included(&b), Bound::Unbounded);
                prop_assert_eq!(from_b.contains(&catalog(&account, &x)), a >= b);
                prop_assert!(catalogs().contains(&catalog(&account, &x)));
                prop_assert_eq!(decode_catalog(&catalog(&account, &x)), Ok(x));
            }
        }
    }
}
