//! Settings of a table beyond Azure: when its entities expire, and whether changes are recorded.

use crate::limits::{FEED_RETENTION_HOURS_MAX, FEED_RETENTION_HOURS_MIN};

/// When entities of a table expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// This many seconds after the last write; at least one.
    Seconds(u64),
    /// At the moment that this property holds, or that many seconds after the last write.
    Property(Box<str>),
}

/// How changes of a table are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feed {
    pub images: Images,
    pub retention: FeedRetention,
}

/// What a recorded change shows of its entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Images {
    /// The keys alone.
    Keys,
    /// The entity after the change.
    New,
    /// The entity before and after the change.
    Both,
}

/// How many hours changes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedRetention(u16);

impl FeedRetention {
    /// A day.
    pub const DEFAULT: Self = Self(24);

    pub fn from_hours(hours: u64) -> Option<Self> {
        let is_valid = (FEED_RETENTION_HOURS_MIN..=FEED_RETENTION_HOURS_MAX).contains(&hours);
        is_valid.then_some(Self(hours as u16))
    }

    pub fn hours(self) -> u64 {
        self.0.into()
    }
}

/// What happened to an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOperation {
    Insert,
    Replace,
    Merge,
    Delete,
    /// Deleted because it expired.
    Expire,
}

impl ChangeOperation {
    pub const ALL: [Self; 5] =
        [Self::Insert, Self::Replace, Self::Merge, Self::Delete, Self::Expire];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Replace => "replace",
            Self::Merge => "merge",
            Self::Delete => "delete",
            Self::Expire => "expire",
        }
    }
}

impl Images {
    pub const ALL: [Self; 3] = [Self::Keys, Self::New, Self::Both];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::New => "new",
            Self::Both => "both",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_kept_from_an_hour_to_a_year() {
        //
        let hours = |hours| FeedRetention::from_hours(hours).map(FeedRetention::hours);
        assert_eq!(
            [0, 1, 24, 8760, 8761, u64::MAX].map(hours),
            [None, Some(1), Some(24), Some(8760), None, None]
        );
    }
}
