//! The ids of an entity's last writes, which distinguish a lost answer from another client's write (C-13.6).

use crate::value::{IntoValue, Value};
use lazuli_model::Guid;

/// The property with the ids.
pub(crate) const WRITE_IDS: &str = "_WriteIds";

/// The number of ids that an entity keeps.
pub(crate) const WINDOW: usize = 8;
const ID_BYTES: usize = 16;

/// The ids of writes, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteIds(Vec<Guid>);

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Applied,
    NotApplied,
    Unknown,
}

impl WriteIds {
    pub(crate) fn from_value(value: &Value) -> Self {
        let Value::Binary(bytes) = value else { return Self::default() };
        let (ids, _) = bytes.as_chunks::<ID_BYTES>();
        Self(ids.iter().copied().map(Guid).collect())
    }

    pub(crate) fn to_value(&self) -> Value {
        let bytes: Vec<u8> = self.0.iter().flat_map(|id| id.0).collect();
        bytes.into_value()
    }

    /// These ids and a newer one.
    pub(crate) fn followed_by(&self, own: Guid) -> Self {
        self.followed_within(own, WINDOW)
    }

    /// These ids and a newer one, at most `window` in all.
    pub(crate) fn followed_within(&self, own: Guid, window: usize) -> Self {
        Self([own].into_iter().chain(self.0.iter().copied()).take(window.max(1)).collect())
    }

    /// Whether a write's id is among them.
    #[cfg(feature = "patterns")]
    pub(crate) fn contains(&self, own: Guid) -> bool {
        self.0.contains(&own)
    }

    #[cfg(feature = "patterns")]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the newest id of `earlier` is still among them; if so, all later ids are too.
    #[cfg(feature = "patterns")]
    pub(crate) fn follows(&self, earlier: &Self) -> bool {
        earlier.0.first().is_some_and(|newest| self.0.contains(newest))
    }

    /// The outcome of the write `own`, which was based on `base`, if these are the current ids.
    ///
    /// Each write of an entity that was read keeps the ids it read. So if the newest id of `base` is present without
    /// our own, all writes since were made by others; if neither is present, either more writes than the window holds
    /// came since, or one that had read nothing. An insert has no base, so its absence proves nothing: it may have been
    /// overwritten blindly, or deleted.
    pub(crate) fn fate_of(&self, own: Guid, base: &Self) -> Fate {
        if self.0.contains(&own) {
            return Fate::Applied;
        }
        match base.0.first() {
            Some(newest) if self.0.contains(newest) => Fate::NotApplied,
            _ => Fate::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(number: u8) -> Guid {
        Guid([number; ID_BYTES])
    }

    fn ids(numbers: &[u8]) -> WriteIds {
        WriteIds(numbers.iter().copied().map(id).collect())
    }

    #[test]
    fn a_value_holds_eight_ids_and_reads_back() {
        let full = (0..9).fold(WriteIds::default(), |ids, number| ids.followed_by(id(number)));
        assert_eq!(full, ids(&[8, 7, 6, 5, 4, 3, 2, 1]));
        assert_eq!(WriteIds::from_value(&full.to_value()), full);
        assert_eq!(WriteIds::from_value(&Value::Int32(1)), WriteIds::default());
    }

    #[test]
    fn ids_tell_what_became_of_a_write() {
        let base = ids(&[2, 1]);
        for (now, fate) in [
            (&[9, 2, 1][..], Fate::Applied),
            (&[3, 9, 2, 1], Fate::Applied),
            (&[3, 2, 1], Fate::NotApplied),
            (&[2, 1], Fate::NotApplied),
            (&[3], Fate::Unknown),
            (&[], Fate::Unknown),
        ] {
            assert_eq!(ids(now).fate_of(id(9), &base), fate, "{now:?}");
        }
        assert_eq!(ids(&[3]).fate_of(id(9), &ids(&[])), Fate::Unknown, "an insert");
        assert_eq!(ids(&[3, 9]).fate_of(id(9), &ids(&[])), Fate::Applied);
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// Another client's write after reading the entity.
        Change,
        /// Another client's write without reading it.
        Blind,
    }

    proptest! {
        /// For every history of other writes after ours, the fate is correct or unknown.
        #[test]
        fn no_fate_is_ever_wrong(
            before in 0_usize..12,
            applied in any::<bool>(),
            after in prop::collection::vec(prop_oneof![Just(Event::Change), Just(Event::Blind)], 0..12),
        ) {
            let mut now = WriteIds::default();
            let mut number = 0;
            let mut next = || { number += 1; id(number) };
            for _ in 0..before {
                now = now.followed_by(next());
            }
            let (base, own) = (now.clone(), id(200));
            if applied {
                now = base.followed_by(own);
            }
            for event in &after {
                now = match event {
                    Event::Change => now.followed_by(next()),
                    Event::Blind => WriteIds::default().followed_by(next()),
                };
            }
            let fate = now.fate_of(own, &base);
            let wrong = if applied { Fate::NotApplied } else { Fate::Applied };
            prop_assert_ne!(fate, wrong);
            let changes_only = after.iter().all(|event| matches!(event, Event::Change));
            if changes_only && after.len() < WINDOW - 1 && before > 0 {
                prop_assert_ne!(fate, Fate::Unknown);
            }
        }
    }
}
