//! The snapshots that clients hold: by name, bounded, and ended when nobody uses them.

use crate::error::{ApiError, ApiResult};
use lazuli_meter::Counter;
use lazuli_model::{AccountName, Timestamp};
use lazuli_table::Snapshot;
use lazuli_wire::error_code::ErrorCode;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many snapshots clients may hold, and how long.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotOptions {
    pub max: usize,
    /// A snapshot ends after so long without use.
    pub unused_max: Duration,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self { max: 64, unused_max: Duration::from_secs(5 * 60) }
    }
}

struct Held {
    account: AccountName,
    snapshot: Arc<Snapshot>,
    used: Timestamp,
}

pub(crate) struct Snapshots {
    options: SnapshotOptions,
    refused: Arc<Counter>,
    held: Mutex<BTreeMap<String, Held>>,
}

impl Snapshots {
    pub(crate) fn new(options: SnapshotOptions, refused: Arc<Counter>) -> Self {
        Self { options, refused, held: Mutex::default() }
    }

    /// Refuses one snapshot too many.
    pub(crate) fn admit(&self, now: Timestamp) -> ApiResult<()> {
        if self.current(now).len() < self.options.max {
            return Ok(());
        }
        self.refused.increment();
        Err(ApiError::with_text(
            ErrorCode::ServerBusy,
            format!(
                "The server holds {} snapshots, the maximum (--snapshots-max). End one with \
                 x-lazuli-snapshot: NAME;end.",
                self.options.max
            ),
        ))
    }

    /// Keeps a snapshot under a name that no other has.
    pub(crate) fn keep(
        &self,
        name: &str,
        account: &AccountName,
        snapshot: Arc<Snapshot>,
        now: Timestamp,
    ) -> ApiResult<()> {
        self.admit(now)?;
        let held = Held { account: account.clone(), snapshot, used: now };
        self.current(now).insert(name.to_owned(), held);
        Ok(())
    }

    /// The snapshot of that name, if it is the account's and has not ended; it is used now.
    pub(crate) fn find(
        &self,
        name: &str,
        account: &AccountName,
        now: Timestamp,
    ) -> ApiResult<Arc<Snapshot>> {
        let mut held = self.current(now);
        let found = held.get_mut(name).filter(|held| held.account == *account);
        let found = found.ok_or(ErrorCode::SnapshotEnded)?;
        found.used = now;
        Ok(found.snapshot.clone())
    }

    pub(crate) fn end(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Those that have not ended.
    fn current(&self, now: Timestamp) -> MutexGuard<'_, BTreeMap<String, Held>> {
        let ms_max = u64::try_from(self.options.unused_max.as_millis()).unwrap_or(u64::MAX);
        let mut held = self.lock();
        held.retain(|_, held| now.millis_since(held.used) < ms_max);
        held
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
