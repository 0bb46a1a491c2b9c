//! Entities that expire: when they do, how reads and writes skip them, and how their space is
//! reclaimed.
//!
//! Wherever an entity is met, it is judged by the current setting, its value and its revision: an
//! expired one counts as deleted, whether or not it is still stored. `write.rs` judges in the
//! commit, `sweep.rs` deletes expired entities, driven by an index of moments that writes maintain
//! like other indexes, and `settings.rs` changes the setting.

mod settings;
mod sweep;
pub(crate) mod verify;
pub(crate) mod write;

use lazuli_engine::Revision;
use lazuli_layout::key::expiry::{bucket, within_bucket};
use lazuli_layout::settings::TableSettings;
use lazuli_layout::{CorruptRecord, EntityRecord};
use lazuli_model::{Expiry, Timestamp, ValueRef};

/// Judges whether entities are expired at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge<'s> {
    expiry: &'s Expiry,
    now: Timestamp,
}

impl<'s> Judge<'s> {
    /// `None` if entities of the table do not expire.
    pub(crate) fn of(
        settings: Option<&'s TableSettings>,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Self> {
        let expiry = settings?.expiry.as_ref()?;
        Some(Self { expiry: &expiry.expiry, now: now() })
    }

    pub(crate) fn is_expired(
        self,
        value: &[u8],
        revision: Revision,
    ) -> Result<bool, CorruptRecord> {
        Ok(self.has_expired(&EntityRecord::parse(value)?, revision))
    }

    pub(crate) fn has_expired(self, record: &EntityRecord<'_>, revision: Revision) -> bool {
        moment(self.expiry, record, revision).is_some_and(|moment| moment.at() <= self.now)
    }
}

/// When an entity expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// At this moment, whenever it was written.
    Fixed(Timestamp),
    /// Some time after it was written.
    AfterWrite(Timestamp),
}

impl Moment {
    pub(crate) fn at(self) -> Timestamp {
        match self {
            Self::Fixed(at) | Self::AfterWrite(at) => at,
        }
    }

    /// The bucket of its entry.
    pub(crate) fn bucket(self) -> u64 {
        bucket(self.at())
    }

    /// The buckets that may hold the entry of a stored entity. If an entity expires some time after
    /// its write, its exact moment is known only after the commit: its entry was made slightly
    /// earlier, by the gateway's clock.
    pub(crate) fn buckets(self, slack_ticks: u64) -> impl Iterator<Item = u64> {
        let own = self.bucket();
        let reaches = |ticks: u64| matches!(self, Self::AfterWrite(_)) && ticks < slack_ticks;
        let (since, until) = within_bucket(self.at());
        let before = own.checked_sub(1).filter(|_| reaches(since));
        let after = own.checked_add(1).filter(|_| reaches(until));
        [Some(own), before, after].into_iter().flatten()
    }
}

/// When an entity last written at `written` expires; `None` means never.
pub(crate) fn moment(
    expiry: &Expiry,
    record: &EntityRecord<'_>,
    written: Revision,
) -> Option<Moment> {
    match expiry {
        Expiry::Seconds(seconds) => after(written, i128::from(*seconds)),
        Expiry::Property(name) => match record.find(name)? {
            ValueRef::DateTime(at) => Some(Moment::Fixed(at)),
            ValueRef::Int32(seconds) => after(written, seconds.into()),
            ValueRef::Int64(seconds) => after(written, seconds.into()),
            _ => None,
        },
    }
}

/// A moment after the year 9999 never comes.
fn after(written: Revision, seconds: i128) -> Option<Moment> {
    const TICKS_PER_SECOND: i128 = 10_000_000;
    let ticks = i128::from(written.0) + seconds * TICKS_PER_SECOND;
    let ticks = u64::try_from(ticks.max(0)).ok()?;
    Timestamp::from_ticks(ticks).map(Moment::AfterWrite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_layout::entity;

    const WRITTEN: Revision = Revision(Timestamp::UNIX_EPOCH.ticks());

    #[track_caller]
    fn check(expiry: &Expiry, value: Option<ValueRef<'_>>, expect: Option<Moment>) {
        let pairs = value.map(|value| ("At", value)).into_iter();
        let bytes = entity::encode(pairs);
        assert_eq!(moment(expiry, &EntityRecord::parse(&bytes).unwrap(), WRITTEN), expect);
    }

    ///
    #[test]
    fn an_entity_expires_by_the_setting() {
        let later = |seconds| Timestamp::UNIX_EPOCH.plus_seconds(seconds);
        let after = |seconds| Some(Moment::AfterWrite(later(seconds)));
        check(&Expiry::Seconds(5), None, after(5));
        check(&Expiry::Seconds(u64::MAX), None, None);
        let by = Expiry::Property("At".into());
        check(&by, None, None);
        check(&by, Some(ValueRef::DateTime(later(9))), Some(Moment::Fixed(later(9))));
        check(&by, Some(ValueRef::Int32(7)), after(7));
        check(&by, Some(ValueRef::Int64(i64::MAX)), None);
        check(&by, Some(ValueRef::Int64(i64::MIN)), Some(Moment::AfterWrite(Timestamp::MIN)));
        for other in [ValueRef::String("9"), ValueRef::Double(9.0), ValueRef::Boolean(true)] {
            check(&by, Some(other), None);
        }
    }

    #[test]
    fn an_entry_may_lie_in_a_neighbouring_bucket() {
        let start = Timestamp::from_ticks(bucket(Timestamp::UNIX_EPOCH) << 26).unwrap();
        let own = bucket(start);
        let buckets = |moment: Moment| moment.buckets(10_000_000).collect::<Vec<_>>();
        assert_eq!(buckets(Moment::Fixed(start)), [own]);
        assert_eq!(buckets(Moment::AfterWrite(start)), [own, own - 1]);
        assert_eq!(buckets(Moment::AfterWrite(start.plus_seconds(3))), [own]);
        assert_eq!(buckets(Moment::AfterWrite(start.plus_seconds(6))), [own, own + 1]);
    }
}
