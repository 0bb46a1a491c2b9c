//! Timestamps of the placement driver, and the revisions made from them.

use lazuli_engine::Revision;

/// 100 ns ticks from 0001-01-01 to 1970-01-01, the epoch of the driver's clock.
const UNIX_EPOCH_TICKS: u64 = 621_355_968_000_000_000;
const TICKS_PER_MS: u64 = 10_000;

/// Milliseconds since 1970, and a count within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(pub(crate) u64);

impl Timestamp {
    const LOGICAL_BITS: u32 = 18;

    /// A read at this timestamp sees the newest committed value, without asking the driver for the
    /// time. TiKV recognizes only this number; any other made-up one would pass for a real timestamp.
    pub(crate) const LATEST: Self = Self(u64::MAX);

    pub(crate) fn new(physical_ms: i64, logical: i64) -> Option<Self> {
        let (physical, logical) = (u64::try_from(physical_ms).ok()?, u64::try_from(logical).ok()?);
        let shifted = physical.checked_mul(1 << Self::LOGICAL_BITS)?;
        shifted.checked_add(logical).map(Self)
    }

    pub(crate) fn physical_ms(self) -> u64 {
        self.0 >> Self::LOGICAL_BITS
    }

    /// The timestamp this many milliseconds earlier.
    pub(crate) fn earlier(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms << Self::LOGICAL_BITS))
    }

    /// The timestamp this many milliseconds later.
    pub(crate) fn later(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms << Self::LOGICAL_BITS))
    }

    /// The revision of a commit that began at this timestamp.
    ///
    /// It increases per key without a read: a transaction that writes a key after another began
    /// after the other's commit, or it conflicts. Two timestamps keep their order as revisions as
    /// long as the driver gives fewer than 10,000 per millisecond, or moves its clock in steps of
    /// more than 26 ms; its step is 50 ms.
    pub(crate) fn revision(self) -> Revision {
        let logical = self.0 & ((1 << Self::LOGICAL_BITS) - 1);
        Revision(UNIX_EPOCH_TICKS + self.physical_ms() * TICKS_PER_MS + logical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn revision_is_the_time_in_ticks() {
        // 2025-01-01T00:00:00Z, whose ticks docs/format.md shows.
        let at = Timestamp::new(1_735_689_600_000, 3).unwrap();
        assert_eq!(at.revision(), Revision(638_712_864_000_000_003));
        assert_eq!(at.earlier(1000).physical_ms(), 1_735_689_599_000);
        assert_eq!(at.earlier(1000).later(1000), at);
        assert_eq!(Timestamp::new(-1, 0), None);
    }

    proptest! {
        /// K-6.4, with fewer than 10,000 timestamps in a millisecond.
        #[test]
        fn revisions_are_in_the_order_of_timestamps(
            a in (0_i64..1 << 45, 0_i64..10_000), b in (0_i64..1 << 45, 0_i64..10_000),
        ) {
            let stamp = |(physical, logical)| Timestamp::new(physical, logical).unwrap();
            let (a, b) = (stamp(a), stamp(b));
            prop_assert_eq!(a.cmp(&b), a.revision().cmp(&b.revision()));
        }
    }
}
