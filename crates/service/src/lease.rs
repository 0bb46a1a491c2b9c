//! The lease under which one gateway at a time runs the chores of a shared store (K-4.7).
//!
//! The holder rewrites one record every few seconds. Another gateway takes the lease when it has seen
//! the same revision of that record for [`ChoreLease::PATIENCE_MS`] of its own monotonic clock: clocks
//! of different machines are never compared. Two gateways may both believe that they hold it, for
//! instance when one was suspended and resumes. Every chore is idempotent, so this only wastes work.

use crate::error::StoreError;
use crate::store::Store;
use lazuli_engine::{Check, Commit, CommitError, Expect, Key, Revision, Write};
use lazuli_layout::cluster::LeaseRecord;
use lazuli_layout::key;

/// A gateway's part in the lease.
pub struct ChoreLease {
    store: Store,
    /// The id of this gateway; no other process has or had it.
    id: String,
    seen: Option<Seen>,
    held: Option<Revision>,
}

/// A revision of the record, and when it was first seen.
#[derive(Clone, Copy)]
struct Seen {
    revision: Revision,
    since_ms: u64,
}

/// Who runs the chores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This gateway, as of the beat written at this revision.
    Ours(Revision),
    Others,
}

impl ChoreLease {
    /// How often to call [`beat`](Self::beat), in milliseconds.
    pub const BEAT_MS: u64 = 5_000;
    /// How long a record stays the same before another gateway takes the lease, in milliseconds.
    pub const PATIENCE_MS: u64 = 15_000;

    pub fn new(store: Store, id: String) -> Self {
        Self { store, id, seen: None, held: None }
    }

    /// Renews the lease, or takes it if nobody holds it. `now_ms` is a clock of this process that
    /// never steps back.
    pub async fn beat(&mut self, now_ms: u64) -> Result<Turn, StoreError> {
        self.held = None;
        let key = Key::from(key::chore_lease());
        let (expect, beat) = match self.store.read_one(&key).await? {
            None => (Expect::Absent, 0),
            Some(found) => {
                let LeaseRecord { holder, beat } = LeaseRecord::decode(&found.value)?;
                if holder != self.id && !self.is_abandoned(found.revision, now_ms) {
                    return Ok(Turn::Others);
                }
                (Expect::At(found.revision), beat.wrapping_add(1))
            }
        };
        let record = LeaseRecord { holder: self.id.clone(), beat };
        let commit = Commit {
            checks: vec![Check { key: key.clone(), expect }],
            ..Commit::new(self.store.now(), vec![Write::Put(key, record.encode().into())])
        };
        match self.store.engine.commit(commit).await {
            Ok(revision) => {
                self.held = Some(revision);
                Ok(Turn::Ours(revision))
            }
            // Another gateway was faster; or the reply was lost, and the next beat finds our name.
            Err(
                CommitError::CheckFailed { .. }
                | CommitError::Conflict
                | CommitError::Undetermined(_),
            ) => Ok(Turn::Others),
            Err(error) => Err(error.into()),
        }
    }

    /// Releases the lease, so that another gateway need not wait. Nothing depends on it.
    pub async fn release(&mut self) {
        let Some(revision) = self.held.take() else { return };
        let key = Key::from(key::chore_lease());
        let commit = Commit {
            checks: vec![Check { key: key.clone(), expect: Expect::At(revision) }],
            ..Commit::new(self.store.now(), vec![Write::Delete(key)])
        };
        // If this fails, the others wait until the lease counts as abandoned.
        let _ = self.store.engine.commit(commit).await;
    }

    /// The current holder, and when it was last alive by the clock that stamps the revisions.
    pub async fn holder(store: &Store) -> Result<Option<(LeaseRecord, Revision)>, StoreError> {
        match store.read_one(&Key::from(key::chore_lease())).await? {
            Some(found) => Ok(Some((LeaseRecord::decode(&found.value)?, found.revision))),
            None => Ok(None),
        }
    }

    /// Whether the record has stayed at `revision` for so long that its holder must be gone.
    fn is_abandoned(&mut self, revision: Revision, now_ms: u64) -> bool {
        match self.seen {
            Some(seen) if seen.revision == revision => {
                now_ms.saturating_sub(seen.since_ms) >= Self::PATIENCE_MS
            }
            _ => {
                self.seen = Some(Seen { revision, since_ms: now_ms });
                false
            }
        }
    }
}
