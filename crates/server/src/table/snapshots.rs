//! The snapshots that clients hold: named, bounded, and ended when unused.

use crate::error::{ApiError, ApiResult};
use lazuli_meter::Counter;
use lazuli_model::{AccountName, Timestamp};
use lazuli_table::{Snapshot, SnapshotLimits};
use lazuli_wire::error_code::ErrorCode;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many snapshots clients may hold, and how long.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotOptions {
    pub max: usize,
    /// A snapshot ends after this long without use.
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

/// The snapshots that one process keeps; other processes do not know them.
pub struct Snapshots {
    options: SnapshotOptions,
    /// What the store allows.
    limits: SnapshotLimits,
    refused: Arc<Counter>,
    held: Mutex<BTreeMap<String, Held>>,
}

impl Snapshots {
    pub(crate) fn new(
        options: SnapshotOptions,
        limits: SnapshotLimits,
        refused: Arc<Counter>,
    ) -> Self {
        Self { options, limits, refused, held: Mutex::default() }
    }

    /// Drops ended snapshots. No client may ever ask for them again, and they occupy connections and
    /// the space of dropped tables.
    pub fn end_unused(&self, now: Timestamp) {
        drop(self.current(now));
    }

    /// Refuses a snapshot beyond the limit.
    pub(crate) fn admit(&self, now: Timestamp) -> ApiResult<()> {
        let (max, bound) = match (self.options.max, self.limits.kept_max) {
            (max, of_store) if of_store < max => (of_store, "what the store allows"),
            (max, _) => (max, "--snapshots-max"),
        };
        if self.current(now).len() < max {
            return Ok(());
        }
        self.refused.increment();
        let text = format!(
            "The server holds {max} snapshots, the maximum ({bound}). End one with \
             x-lazuli-snapshot: NAME;end."
        );
        Err(ApiError::with_text(ErrorCode::ServerBusy, text))
    }

    /// Keeps a snapshot under a new name.
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

    /// The account's snapshot of that name, if it has not ended; counts as a use.
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

    /// The snapshots that have not ended.
    fn current(&self, now: Timestamp) -> MutexGuard<'_, BTreeMap<String, Held>> {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let unused_max = ms(self.options.unused_max);
        let life = self.limits.life.map_or(u64::MAX, ms);
        let lives = |held: &Held| {
            now.millis_since(held.used) < unused_max
                && now.millis_since(held.snapshot.at()) < life
                && !held.snapshot.has_ended()
        };
        let mut held = self.lock();
        held.retain(|_, held| lives(held));
        held
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_engine::MemoryEngine;
    use lazuli_model::SystemClock;
    use lazuli_table::TableService;

    /// a client that is gone never asks again.
    #[tokio::test]
    async fn an_unused_snapshot_is_dropped_without_another_request() {
        let tables = TableService::new(Arc::new(MemoryEngine::default()), Arc::new(SystemClock));
        let (options, limits) = (SnapshotOptions::default(), tables.snapshot_limits());
        let snapshots = Snapshots::new(options, limits, Arc::default());
        let account = AccountName::parse("acct1").unwrap();
        let snapshot = Arc::new(tables.snapshot().await.unwrap());
        let (begun, weak) = (snapshot.at(), Arc::downgrade(&snapshot));
        snapshots.keep("a", &account, snapshot, begun).unwrap();
        let used = begun.plus_seconds(200);
        assert!(snapshots.find("a", &account, used).is_ok());
        snapshots.end_unused(used.plus_seconds(299));
        assert!(weak.upgrade().is_some());
        snapshots.end_unused(used.plus_seconds(300));
        assert!(weak.upgrade().is_none());
    }
}
