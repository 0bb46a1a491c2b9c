//! Compares the changes of a feed with the entities.
//!
//! Every entity written since the feed became complete has the change that wrote it, with the same
//! image. No change of an entity that exists is newer than the entity, not even one that removed it. A
//! single state cannot show that an entity was removed without a change.

use crate::error::TableError;
use crate::index::verify::{ComparedRow, Comparison, DisagreementKind, FEED};
use crate::service::TableService;
use lazuli_engine::{Key, Revision, ScanEnd, View, Visit};
use lazuli_layout::feed::{ChangeRecord, FeedRecord};
use lazuli_layout::key::index::split_entity;
use lazuli_layout::{CorruptRecord, FeedId};
use lazuli_model::ChangeOperation;
use lazuli_service::{Rows, key_range, step};

/// A feed to be compared.
#[derive(Clone, Copy)]
pub(crate) struct RecordedFeed {
    pub(crate) id: FeedId,
    /// Entities written at this revision or later have a change. In a copy of the store, changes keep
    /// their old revisions, but entities have new ones: the first change shows when it was copied.
    from: Revision,
}

impl TableService {
    /// What `view` shows of a feed.
    pub(crate) async fn recorded_feed(
        &self,
        view: &dyn View,
        id: FeedId,
    ) -> Result<Option<RecordedFeed>, TableError> {
        let Some(found) = view.get(&id.record()).await? else { return Ok(None) };
        let record = FeedRecord::decode(&found.value)?;
        let mut first = None;
        let mut visit = |key: &[u8], _: &[u8], revision: Revision| {
            let (_, recorded, _) = Key::split_appended(key).ok_or(CorruptRecord("change key"))?;
            // A copy stores many entries at one revision, and entities come before changes: entities
            // at that same revision are copied, too.
            first = Some(if recorded == revision { revision } else { after(revision) });
            Ok(Visit::Continue)
        };
        let range = key_range(id.entries_from(record.floor));
        step(view, range, Rows::at_most(1), &mut visit).await?;
        let complete = Revision(self.complete_from(record.begun).ticks());
        let from = first.unwrap_or(after(found.revision)).max(complete);
        Ok(Some(RecordedFeed { id, from }))
    }
}

fn after(revision: Revision) -> Revision {
    Revision(revision.0.saturating_add(1))
}

impl Comparison {
    /// Checks that every entity has the change that wrote it.
    pub(crate) async fn compare_recorded(
        &mut self,
        rows: &[ComparedRow],
    ) -> Result<(), TableError> {
        let Some(RecordedFeed { id, from }) = self.feed else { return Ok(()) };
        for row in rows.iter().filter(|row| row.revision >= from) {
            let (_, entity) = split_entity(&row.key)?;
            let is_recorded = self.is_recorded(id, entity, row).await?;
            if !is_recorded {
                self.disagree_in(FEED.to_owned(), entity, DisagreementKind::Missing)?;
            }
        }
        Ok(())
    }

    /// Whether the transaction that wrote an entity has a change with that entity's image. The
    /// changes of one transaction may exceed what a step reads.
    async fn is_recorded(
        &self,
        id: FeedId,
        entity: &[u8],
        row: &ComparedRow,
    ) -> Result<bool, TableError> {
        let (start, end) = (row.revision.0, row.revision.0.saturating_add(1));
        let range = id.entries_from(start).start..id.entries_before(end).end;
        let mut next = Some(key_range(range));
        while let Some(range) = next.take() {
            let mut is_recorded = false;
            let mut visit = |_: &[u8], value: &[u8], _: Revision| {
                let change = ChangeRecord::decode(value)?;
                let is_same = change.new.is_none_or(|new| new == row.value);
                is_recorded |= change.entity == entity && writes(change.operation) && is_same;
                Ok(if is_recorded { Visit::StopBefore } else { Visit::Continue })
            };
            let end = step(&*self.view, range, Rows::expecting(1), &mut visit).await?;
            if is_recorded {
                return Ok(true);
            }
            if let ScanEnd::More(rest) = end {
                next = Some(rest);
            }
        }
        Ok(false)
    }

    /// Checks that no change is newer than its entity.
    pub(crate) async fn compare_changes(&mut self, rows: &[ComparedRow]) -> Result<(), TableError> {
        let changes: Vec<ChangeRecord<'_>> =
            rows.iter().map(|row| ChangeRecord::decode(&row.value)).collect::<Result<_, _>>()?;
        let entities: Vec<&[u8]> = changes.iter().map(|change| change.entity).collect();
        let found = self.entities(&entities).await?;
        for ((row, change), found) in rows.iter().zip(changes).zip(found) {
            self.page.entries += 1;
            let (_, at, _) = Key::split_appended(&row.key).ok_or(CorruptRecord("change key"))?;
            let Some(found) = found else { continue };
            let has_image = change.new.is_none_or(|new| *new == *found.value);
            if found.revision < at || (found.revision == at && !has_image) {
                self.disagree_in(FEED.to_owned(), change.entity, DisagreementKind::Surplus)?;
            }
        }
        Ok(())
    }
}

fn writes(operation: ChangeOperation) -> bool {
    !matches!(operation, ChangeOperation::Delete | ChangeOperation::Expire)
}
