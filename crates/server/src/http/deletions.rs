//! Simulates that a deleted name cannot be reused for a while, as in Azure; optional, for testing clients.

use lazuli_model::{AccountName, Timestamp};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of names; a further one is free immediately.
const DELETIONS_MAX: usize = 10_000;

/// The deleted tables or queues whose names are not free yet. A restart frees them.
#[derive(Debug, Default)]
pub(crate) struct Deletions {
    seconds: Option<NonZeroU64>,
    ends: Mutex<HashMap<(AccountName, Box<str>), Timestamp>>,
}

impl Deletions {
    /// Deletions that take this long; without a time, none is remembered.
    pub(crate) fn new(seconds: Option<NonZeroU64>) -> Self {
        Self { seconds, ends: Mutex::default() }
    }

    /// Records that something was deleted.
    pub(crate) fn add(&self, account: &AccountName, name: &str, now: Timestamp) {
        let Some(seconds) = self.seconds else { return };
        let mut ends = self.ends();
        if ends.len() >= DELETIONS_MAX {
            ends.retain(|_, end| *end > now);
        }
        if ends.len() < DELETIONS_MAX {
            ends.insert((account.clone(), name.into()), now.plus_seconds(seconds.get()));
        }
    }

    /// Whether the deletion of this name is still in progress.
    pub(crate) fn contains(&self, account: &AccountName, name: &str, now: Timestamp) -> bool {
        self.seconds.is_some()
            && self.ends().get(&(account.clone(), name.into())).is_some_and(|end| *end > now)
    }

    fn ends(&self) -> MutexGuard<'_, HashMap<(AccountName, Box<str>), Timestamp>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
