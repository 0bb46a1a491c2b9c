//! Drops changes older than their feed's retention: by ranges, never one by one.
//!
//! First the floor of the feed is raised, together with a tombstone; readers find the floor in their
//! own view. The range is reclaimed when no earlier view can be in use, like that of a dropped table.

use super::page::{first_from, last_before};
use crate::error::TableError;
use crate::service::{TableService, opened};
use lazuli_engine::{
    Check, Commit, CommitError, Expect, Found, Key, Reclaimed, Revision, ScanEnd, View, Visit,
    Write,
};
use lazuli_layout::feed::FeedRecord;
use lazuli_layout::key::feed::{decode_dropped, decode_record, dropped, records};
use lazuli_layout::{FeedId, key, table as stored};
use lazuli_model::Timestamp;
use lazuli_service::{Rows, key_range, step};

/// Feeds examined in one step.
const FEEDS_PER_STEP: usize = 256;
/// Changes may be kept this much longer, so that each drop covers a worthwhile range: five minutes.
const SLACK_TICKS: u64 = 5 * 60 * TICKS_PER_SECOND;
const TICKS_PER_SECOND: u64 = 10_000_000;
const TICKS_PER_HOUR: u64 = 3600 * TICKS_PER_SECOND;

impl TableService {
    /// Raises the floor of every feed whose oldest changes are too old at `now`, the time of the
    /// clock that stamps the revisions. A feed that fails does not block others.
    pub async fn drop_old_changes(&self, now: Timestamp) -> Result<Reclaimed, TableError> {
        let view = self.store.engine.view().await?;
        let mut failure = None;
        let mut next = Some(key_range(records()));
        while let Some(range) = next.take() {
            let mut found = Vec::new();
            let mut visit = |key: &[u8], value: &[u8], revision: Revision| {
                let value = bytes::Bytes::copy_from_slice(value);
                found.push((decode_record(key)?, Found { value, revision }));
                Ok(Visit::Continue)
            };
            let rows = Rows::at_most(FEEDS_PER_STEP);
            if let ScanEnd::More(rest) = step(&*view, range, rows, &mut visit).await? {
                next = Some(rest);
            }
            for (id, found) in found {
                if let Err(error) = self.raise_floor(&*view, id, &found, now).await {
                    failure = failure.or(Some(error));
                }
            }
        }
        failure.map_or(Ok(Reclaimed::Fully), Err)
    }

    async fn raise_floor(
        &self,
        view: &dyn View,
        id: FeedId,
        found: &Found,
        now: Timestamp,
    ) -> Result<(), TableError> {
        let record = FeedRecord::decode(&found.value)?;
        let catalog = Key::from(key::catalog(&record.account, record.table.lower()));
        // What a dropped table leaves is reclaimed with its space.
        let Some(listed) = view.get(catalog.as_slice()).await? else { return Ok(()) };
        let table = opened(catalog, Some(listed))?;
        let Some(feed) = table.settings.as_ref().and_then(|settings| settings.feed) else {
            return Ok(());
        };
        if table.feed_id() != Some(id) {
            return Ok(());
        }
        let cutoff = now.ticks().saturating_sub(feed.retention.hours() * TICKS_PER_HOUR);
        let oldest = first_from(view, id, record.floor).await?;
        if oldest.is_none_or(|oldest| oldest.0.saturating_add(SLACK_TICKS) > cutoff) {
            return Ok(());
        }
        let Some(last) = last_before(view, id, cutoff).await? else { return Ok(()) };
        let floor = last.0 + 1;
        let key = Key::from(id.record());
        let raised = FeedRecord { floor, ..record };
        let mark = stored::encode_reclaim(self.store.clock.now());
        let writes = vec![
            Write::Put(key.clone(), raised.encode().into()),
            Write::Put(id.dropped(floor).into(), mark.into()),
        ];
        let commit = Commit {
            checks: vec![Check { key, expect: Expect::At(found.revision) }],
            ..Commit::new(self.store.now(), writes)
        };
        match self.store.engine.commit(commit).await {
            Ok(_) => Ok(()),
            // Another process was faster, or the feed was turned off. The next round tries again.
            Err(
                CommitError::CheckFailed { .. }
                | CommitError::Conflict
                | CommitError::Undetermined(_),
            ) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reclaims some of the space of dropped changes.
    pub(crate) async fn reclaim_some_changes(
        &self,
        now: Timestamp,
    ) -> Result<Reclaimed, TableError> {
        let marks = &self.dropped_changes;
        let Some(mark) = marks.settled_mark(dropped(), now).await? else {
            return Ok(Reclaimed::Fully);
        };
        let (id, revision) = decode_dropped(&mark.key)?;
        let mut ranges = vec![id.entries_before(revision)];
        if revision == u64::MAX {
            let head = id.head();
            let after = [head.as_slice(), &[0]].concat();
            ranges = vec![id.entries(), head..after];
        }
        marks.reclaim_marked(mark, ranges).await?;
        Ok(Reclaimed::Partly)
    }
}
