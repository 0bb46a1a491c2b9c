//! A cache of each account's service properties, because every response needs them.

use crate::error::ApiResult;
use arc_swap::ArcSwap;
use lazuli_engine::Nature;
use lazuli_model::{AccountName, Clock, ServiceProperties, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long properties are cached if another writer may change them, or they may be lost. The
/// service documents that changes take effect within 30 seconds.
const SHARED_MS_MAX: u64 = 5_000;

#[derive(Debug)]
pub(crate) struct PropertiesCache {
    /// How long entries are valid; `None` until they are dropped.
    ms_max: Option<u64>,
    known: ArcSwap<BTreeMap<AccountName, Known>>,
    /// How often an entry was dropped: results read before that are not cached.
    forgotten: AtomicU64,
}

#[derive(Clone, Debug)]
struct Known {
    properties: Arc<ServiceProperties>,
    read_at: Timestamp,
}

impl PropertiesCache {
    /// A cache for properties on an engine of this nature.
    pub(crate) fn new(nature: Nature) -> Self {
        let ms_max = if nature.only_we_change_it() { None } else { Some(SHARED_MS_MAX) };
        Self { ms_max, known: ArcSwap::default(), forgotten: AtomicU64::new(0) }
    }

    /// The properties of `account`, if they are cached and have not expired.
    pub(crate) fn known(
        &self,
        account: &AccountName,
        clock: &dyn Clock,
    ) -> Option<Arc<ServiceProperties>> {
        let all = self.known.load();
        let known = all.get(account).filter(|known| self.is_believed(known, clock))?;
        Some(known.properties.clone())
    }

    /// The properties of `account` as they were last read, however long ago.
    pub(crate) fn last(&self, account: &AccountName) -> Option<Arc<ServiceProperties>> {
        self.known.load().get(account).map(|known| known.properties.clone())
    }

    /// Caches the properties of `account`, which `read` reads.
    pub(crate) async fn learn(
        &self,
        account: &AccountName,
        clock: &dyn Clock,
        read: impl Future<Output = ApiResult<ServiceProperties>>,
    ) -> ApiResult<Arc<ServiceProperties>> {
        let (forgotten, read_at) = (self.forgotten.load(Ordering::SeqCst), clock.now());
        let properties = Arc::new(read.await?);
        self.known.rcu(|known| {
            // Runs again if `forget` happened in between: then the result must not be cached.
            if self.forgotten.load(Ordering::SeqCst) != forgotten {
                return known.clone();
            }
            let mut known = BTreeMap::clone(known);
            known.insert(account.clone(), Known { properties: properties.clone(), read_at });
            Arc::new(known)
        });
        Ok(properties)
    }

    /// Drops the properties of `account`, which have changed.
    pub(crate) fn forget(&self, account: &AccountName) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.known.rcu(|known| {
            let mut known = BTreeMap::clone(known);
            known.remove(account);
            known
        });
    }

    /// If the clock stepped back, their age is unknown.
    fn is_believed(&self, known: &Known, clock: &dyn Clock) -> bool {
        let Some(ms_max) = self.ms_max else { return true };
        let now = clock.now();
        now >= known.read_at && now.millis_since(known.read_at) < ms_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_engine::{Acknowledged, ClockSource, Writers};
    use std::cell::Cell;

    struct At(Timestamp);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            self.0
        }
    }

    fn nature(writers: Writers, acknowledged: Acknowledged) -> Nature {
        Nature { clock: ClockSource::Caller, writers, acknowledged }
    }

    /// How often the store is read when the properties are requested at these seconds.
    async fn reads_at(nature: Nature, seconds: &[u64]) -> usize {
        let cache = PropertiesCache::new(nature);
        let account = AccountName::parse("acct1").unwrap();
        let (reads, begin) = (Cell::new(0), Timestamp::parse("2026-01-01T00:00:00Z").unwrap());
        for second in seconds {
            let read = async {
                reads.set(reads.get() + 1);
                Ok(ServiceProperties::default())
            };
            let clock = At(begin.plus_seconds(*second));
            if cache.known(&account, &clock).is_none() {
                cache.learn(&account, &clock, read).await.unwrap();
            }
        }
        reads.get()
    }

    #[tokio::test]
    async fn properties_that_only_we_change_are_read_once() {
        let nature = nature(Writers::Sole, Acknowledged::Kept);
        assert_eq!(reads_at(nature, &[100, 0, 100_000]).await, 1);
    }

    /// K-8.7: a store that does not answer is not asked for them again.
    #[tokio::test]
    async fn properties_that_have_expired_are_still_there_for_a_store_that_is_away() {
        let cache = PropertiesCache::new(nature(Writers::Many, Acknowledged::Kept));
        let account = AccountName::parse("acct1").unwrap();
        let begin = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        assert!(cache.last(&account).is_none());
        let read = async { Ok(ServiceProperties::default()) };
        cache.learn(&account, &At(begin), read).await.unwrap();
        assert!(cache.known(&account, &At(begin.plus_seconds(100))).is_none());
        assert!(cache.last(&account).is_some());
        cache.forget(&account);
        assert!(cache.last(&account).is_none());
    }

    #[tokio::test]
    async fn properties_that_may_have_changed_are_read_again_after_a_while() {
        for nature in [
            nature(Writers::Many, Acknowledged::Kept),
            nature(Writers::Sole, Acknowledged::MayVanish),
        ] {
            assert_eq!(reads_at(nature, &[100, 101, 104]).await, 1);
            assert_eq!(reads_at(nature, &[100, 105, 109, 110]).await, 3);
            assert_eq!(reads_at(nature, &[100, 50, 51]).await, 2);
        }
    }
}
