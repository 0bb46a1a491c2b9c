//! The snapshots that clients hold: by name, bounded, and ended when nobody uses them.

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

/// The snapshots of one server, or of one gateway: others do not know them.
pub struct Snapshots {
    options: SnapshotOptions,
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
        let max = options.max.min(limits.kept_max);
        Self {
            options: SnapshotOptions { max, ..options },
            limits,
            refused,
            held: Mutex::default(),
        }
    }

    /// Ends those that nobody used for too long. They occupy the store also while no request asks for one.
    pub fn end_unused(&self, now: Timestamp) {
        drop(self.current(now));
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
                "The server holds {} snapshots, the maximum (--snapshots-max, or what the store \
                 allows). End one with x-lazuli-snapshot: NAME;end.",
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
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let unused_max = ms(self.options.unused_max);
        let life = self.limits.life.map_or(u64::MAX, ms);
        let mut held = self.lock();
        held.retain(|_, held| {
            now.millis_since(held.used) < unused_max && now.millis_since(held.snapshot.at()) < life
        });
        held
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use lazuli_engine::{Limits, MemoryEngine, MemoryOptions, Writers};
    use lazuli_model::{Clock, SystemClock};
    use lazuli_table::TableService;

    const LIFE_MS: u64 = 60_000;

    /// Tables of a store that many gateways share.
    fn tables() -> TableService {
        let limits = Limits { view_ms_max: LIFE_MS, views_kept_max: 2, ..Limits::DEFAULT };
        let options = MemoryOptions { limits, writers: Writers::Many, ..MemoryOptions::default() };
        TableService::new(Arc::new(MemoryEngine::new(options)), Arc::new(SystemClock))
    }

    fn snapshots(tables: &TableService) -> Snapshots {
        let limits = tables.snapshot_limits();
        Snapshots::new(SnapshotOptions::default(), limits, Arc::default())
    }

    /// K-7.16: a snapshot may occupy a connection of the store.
    #[tokio::test]
    async fn a_shared_store_bounds_how_many_are_kept() {
        let tables = tables();
        let (snapshots, account) = (snapshots(&tables), AccountName::parse("acct1").unwrap());
        for name in ["a", "b"] {
            let snapshot = Arc::new(tables.snapshot().await.unwrap());
            let now = snapshot.at();
            snapshots.keep(name, &account, snapshot, now).unwrap();
        }
        assert!(snapshots.admit(SystemClock.now()).is_err());
    }

    /// K-7.14.
    #[tokio::test]
    async fn a_shared_store_ends_them_without_another_request() {
        let tables = tables();
        let (snapshots, account) = (snapshots(&tables), AccountName::parse("acct1").unwrap());
        let snapshot = Arc::new(tables.snapshot().await.unwrap());
        let (begun, weak) = (snapshot.at(), Arc::downgrade(&snapshot));
        snapshots.keep("a", &account, snapshot, begun).unwrap();
        // Use does not prolong it.
        assert!(snapshots.find("a", &account, begun.plus_seconds(LIFE_MS / 1000 - 1)).is_ok());
        snapshots.end_unused(begun.plus_seconds(LIFE_MS / 1000 - 1));
        assert!(weak.upgrade().is_some());
        snapshots.end_unused(begun.plus_seconds(LIFE_MS / 1000));
        assert!(weak.upgrade().is_none());
    }
}
