//! How long this process has waited for writes that do not know of a new index.
//!
//! The store's clock shows how long ago an index was declared, unless that clock was set back since:
//! then the revisions grow by single ticks until it has caught up, which may take days. So time that
//! passes on our own clock counts too.

use lazuli_layout::IndexId;
use lazuli_model::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The most that one call adds, in milliseconds: a jump of our own clock is not elapsed time.
const LOOK_MS_MAX: u64 = 5_000;
/// Builds that are remembered; one more, and all of them wait from the beginning.
const WAITS_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct Waits(Mutex<BTreeMap<IndexId, Wait>>);

struct Wait {
    looked: Timestamp,
    ms: u64,
}

impl Waits {
    /// Notes that the build still waits `now`. Returns the milliseconds counted since the first call.
    pub(super) fn look(&self, id: IndexId, now: Timestamp) -> u64 {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waits.len() >= WAITS_MAX && !waits.contains_key(&id) {
            waits.clear();
        }
        let wait = waits.entry(id).or_insert(Wait { looked: now, ms: 0 });
        wait.ms += now.millis_since(wait.looked).min(LOOK_MS_MAX);
        wait.looked = now;
        wait.ms
    }

    pub(super) fn forget(&self, id: IndexId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_layout::TableId;

    #[test]
    fn a_clock_that_jumps_is_no_time_that_passed() {
        let at = |seconds: u64| Timestamp::from_unix_seconds(1_000_000 + seconds);
        let id = |number| IndexId { table: TableId(1), number };
        let waits = Waits::default();
        assert_eq!(waits.look(id(1), at(0)), 0);
        assert_eq!(waits.look(id(1), at(2)), 2_000);
        assert_eq!(waits.look(id(1), at(86_400)), 7_000);
        assert_eq!(waits.look(id(1), at(0)), 7_000);
        assert_eq!(waits.look(id(1), at(1)), 8_000);
        assert_eq!(waits.look(id(2), at(1)), 0);
        waits.forget(id(1));
        assert_eq!(waits.look(id(1), at(9)), 0);
    }
}
