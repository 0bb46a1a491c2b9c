//! The service properties of each account, kept at hand because every answer asks for them.

use crate::error::ApiResult;
use arc_swap::ArcSwap;
use lazuli_model::{AccountName, ServiceProperties};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct PropertiesCache {
    known: ArcSwap<BTreeMap<AccountName, Arc<ServiceProperties>>>,
    /// How often something was forgotten: what was read before that is not kept.
    forgotten: AtomicU64,
}

impl PropertiesCache {
    /// The properties of `account`; `read` gets those that are not known yet.
    pub(crate) async fn of(
        &self,
        account: &AccountName,
        read: impl AsyncFnOnce() -> ApiResult<ServiceProperties>,
    ) -> ApiResult<Arc<ServiceProperties>> {
        if let Some(properties) = self.known.load().get(account) {
            return Ok(properties.clone());
        }
        let forgotten = self.forgotten.load(Ordering::SeqCst);
        let properties = Arc::new(read().await?);
        self.known.rcu(|known| {
            // Run again when `forget` came between: then it sees that it must not keep them.
            if self.forgotten.load(Ordering::SeqCst) != forgotten {
                return known.clone();
            }
            let mut known = BTreeMap::clone(known);
            known.insert(account.clone(), properties.clone());
            Arc::new(known)
        });
        Ok(properties)
    }

    /// Forgets the properties of `account`, which have changed.
    pub(crate) fn forget(&self, account: &AccountName) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.known.rcu(|known| {
            let mut known = BTreeMap::clone(known);
            known.remove(account);
            known
        });
    }
}
