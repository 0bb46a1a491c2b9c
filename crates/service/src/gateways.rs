//! The status that gateways of a shared store publish for an operator; nothing else depends on it.

use crate::error::StoreError;
use crate::scan::{Rows, key_range, step};
use crate::store::Store;
use lazuli_engine::{Check, Commit, Expect, Key, Revision, ScanEnd, Visit, Write};
use lazuli_layout::cluster::GatewayRecord;
use lazuli_layout::key;
use lazuli_model::Timestamp;

/// Gateways fetched at a time.
const GATEWAYS_PER_STEP: usize = 256;
/// How long a silent gateway stays listed, in milliseconds, so that an operator sees which one is gone.
const SILENT_MS_MAX: u64 = 3_600_000;

/// A gateway, and when it was last alive by the clock that stamps the revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    pub id: String,
    pub record: GatewayRecord,
    pub revision: Revision,
}

impl Store {
    /// Records that gateway `id` is alive.
    pub async fn announce(&self, id: &str, record: &GatewayRecord) -> Result<(), StoreError> {
        let put = Write::Put(key::gateway(id).into(), record.encode().into());
        self.engine.commit(Commit::new(self.now(), vec![put])).await?;
        Ok(())
    }

    /// Removes gateway `id` from the list when it stops.
    pub async fn withdraw(&self, id: &str) -> Result<(), StoreError> {
        let delete = Write::Delete(key::gateway(id).into());
        self.engine.commit(Commit::new(self.now(), vec![delete])).await?;
        Ok(())
    }

    /// All gateways, in the order of their ids.
    pub async fn gateways(&self) -> Result<Vec<Gateway>, StoreError> {
        let view = self.engine.view().await?;
        let mut gateways = Vec::new();
        let mut next = Some(key_range(key::gateways()));
        while let Some(range) = next.take() {
            let mut visit = |key: &[u8], value: &[u8], revision| {
                let id = key::decode_gateway(key)?.to_owned();
                gateways.push(Gateway { id, record: GatewayRecord::decode(value)?, revision });
                Ok(Visit::Continue)
            };
            let rows = Rows::at_most(GATEWAYS_PER_STEP);
            if let ScanEnd::More(rest) = step(&*view, range, rows, &mut visit).await? {
                next = Some(rest);
            }
        }
        Ok(gateways)
    }

    /// Removes gateways from the list that have been silent for an hour at `now`, in the time of the
    /// clock that stamps the revisions.
    pub async fn forget_silent_gateways(&self, now: Timestamp) -> Result<(), StoreError> {
        for Gateway { id, revision, .. } in self.gateways().await? {
            let last = Timestamp::from_ticks(revision.0);
            if last.is_some_and(|last| now.millis_since(last) >= SILENT_MS_MAX) {
                let key = Key::from(key::gateway(&id));
                let commit = Commit {
                    checks: vec![Check { key: key.clone(), expect: Expect::At(revision) }],
                    ..Commit::new(self.now(), vec![Write::Delete(key)])
                };
                // If this fails, the gateway is alive again, or the next round removes it.
                let _ = self.engine.commit(commit).await;
            }
        }
        Ok(())
    }
}
