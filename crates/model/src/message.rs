//! Messages of a queue: their ids, texts and times.

mod pop_receipt;

pub use pop_receipt::PopReceipt;

use crate::limits::{MESSAGE_TEXT_BYTES_MAX, TIME_TO_LIVE_SECONDS, VISIBILITY_SECONDS_MAX};
use crate::time::Timestamp;
use crate::value::Guid;
use std::fmt;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;

/// The id of a message, a GUID that never changes.
///
/// Ids sort by insertion time, see [`MessageId::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(Guid);

impl MessageId {
    /// A GUID of version 6 (RFC 9562): the insertion time in ticks since 1582-10-15, its most
    /// significant bits first, then 62 bits of `random`. So messages that become visible at one tick
    /// still keep their insertion order.
    pub fn new(inserted: Timestamp, random: u64) -> Self {
        const VERSION: u64 = 6 << 12;
        const VARIANT: u64 = 0b10 << 62;
        let ticks = inserted.ticks().saturating_sub(GREGORIAN_START_TICKS);
        let high = (ticks >> 12 << 16) | VERSION | (ticks & 0xFFF);
        let low = VARIANT | (random >> 2);
        Self(Guid((u128::from(high) << 64 | u128::from(low)).to_be_bytes()))
    }

    /// Parses a GUID in any of its forms; `None` for a text that cannot be an id.
    pub fn parse(text: &str) -> Option<Self> {
        Guid::parse(text).map(Self)
    }

    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Guid(bytes))
    }

    /// The bytes in the order of the text, which is the order of ids.
    pub const fn bytes(self) -> [u8; 16] {
        self.0.0
    }
}

/// 1582-10-15T00:00:00Z, from which GUIDs count.
const GREGORIAN_START_TICKS: u64 = 577_735 * 86_400 * 10_000_000;

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text of a message is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text of the message has more than {bytes_max} bytes")]
pub struct MessageTooLarge {
    pub bytes_max: usize,
}

/// The text of a message, stored and returned unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageText(Box<str>);

impl MessageText {
    /// Refuses a text of more than 64 KiB of UTF-8.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, MessageTooLarge> {
        Self::within(MESSAGE_TEXT_BYTES_MAX, text)
    }

    /// Refuses a text of more than `bytes_max` bytes, which old versions lower.
    pub fn within(bytes_max: usize, text: impl Into<Box<str>>) -> Result<Self, MessageTooLarge> {
        let text = text.into();
        let bytes_max = bytes_max.min(MESSAGE_TEXT_BYTES_MAX);
        if text.len() > bytes_max { Err(MessageTooLarge { bytes_max }) } else { Ok(Self(text)) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How long a message stays invisible, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VisibilityTimeout(u32);

impl VisibilityTimeout {
    /// Visible immediately.
    pub const NONE: Self = Self(0);

    /// What Put Message and Update Message accept: 0 to 7 days.
    pub const SECONDS_OF_PUT_AND_UPDATE: RangeInclusive<i64> = 0..=VISIBILITY_SECONDS_MAX as i64;
    /// What Get Messages accepts: 1 s to 7 days.
    pub const SECONDS_OF_GET: RangeInclusive<i64> = 1..=VISIBILITY_SECONDS_MAX as i64;

    /// The timeout of Put Message or Update Message; `None` outside the range.
    pub fn of_put_or_update(seconds: i64) -> Option<Self> {
        Self::within(Self::SECONDS_OF_PUT_AND_UPDATE, seconds)
    }

    /// The timeout of Get Messages; `None` outside the range.
    pub fn of_get(seconds: i64) -> Option<Self> {
        Self::within(Self::SECONDS_OF_GET, seconds)
    }

    fn within(range: RangeInclusive<i64>, seconds: i64) -> Option<Self> {
        let seconds = range.contains(&seconds).then_some(seconds)?;
        u32::try_from(seconds).ok().map(Self)
    }

    pub const fn seconds(self) -> u32 {
        self.0
    }

    /// When a message that becomes invisible at `now` is visible again.
    pub fn end_after(self, now: Timestamp) -> Timestamp {
        now.plus_seconds(self.0.into()).min(Timestamp::MAX)
    }
}

/// How long a message lives after its insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    Seconds(NonZeroU64),
    Never,
}

impl TimeToLive {
    /// Parses the number of a request: -1 means never, other numbers below 1 are invalid
    /// . The caller checks the maximum of old versions.
    pub fn parse(seconds: i64) -> Option<Self> {
        if seconds == -1 {
            return Some(Self::Never);
        }
        u64::try_from(seconds).ok().and_then(NonZeroU64::new).map(Self::Seconds)
    }

    /// When a message inserted at `inserted` expires. [`Timestamp::MAX`] is what the service shows
    /// for a message that never expires.
    pub fn end_after(self, inserted: Timestamp) -> Timestamp {
        match self {
            Self::Seconds(seconds) => inserted.plus_seconds(seconds.get()).min(Timestamp::MAX),
            Self::Never => Timestamp::MAX,
        }
    }
}

impl Default for TimeToLive {
    fn default() -> Self {
        NonZeroU64::new(TIME_TO_LIVE_SECONDS).map_or(Self::Never, Self::Seconds)
    }
}

/// The visibility timeout of a put is not smaller than the time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("messagettl must be greater than visibilitytimeout")]
pub struct VisibilityNotBelowTimeToLive;

/// When a new message becomes visible, and when it expires: never before it is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutTimes {
    visibility: VisibilityTimeout,
    time_to_live: TimeToLive,
}

impl PutTimes {
    pub fn new(
        visibility: VisibilityTimeout,
        time_to_live: TimeToLive,
    ) -> Result<Self, VisibilityNotBelowTimeToLive> {
        match time_to_live {
            TimeToLive::Seconds(seconds) if u64::from(visibility.seconds()) >= seconds.get() => {
                Err(VisibilityNotBelowTimeToLive)
            }
            _ => Ok(Self { visibility, time_to_live }),
        }
    }

    pub const fn visibility(self) -> VisibilityTimeout {
        self.visibility
    }

    pub const fn time_to_live(self) -> TimeToLive {
        self.time_to_live
    }
}

impl Default for PutTimes {
    fn default() -> Self {
        Self { visibility: VisibilityTimeout::NONE, time_to_live: TimeToLive::default() }
    }
}

#[cfg(test)]
mod tests;
