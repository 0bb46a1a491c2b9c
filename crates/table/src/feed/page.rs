//! Reads the changes of a table, page by page.

use crate::error::TableError;
use crate::service::{TableService, timestamp};
use bytes::Bytes;
use lazuli_engine::retry::give_way;
use lazuli_engine::{Direction, Key, Revision, ScanEnd, View, Visit};
use lazuli_layout::feed::{ChangeRecord, FeedRecord};
use lazuli_layout::key::index::join_entity;
use lazuli_layout::{CorruptRecord, EntityRecord, FeedId, TableId, key};
use lazuli_model::limits::{FEED_PAGE_BYTES_MAX, FEED_PAGE_CHANGES_MAX};
use lazuli_model::{AccountName, ChangeOperation, TableName, Timestamp, ValueRef};
use lazuli_service::{Rows, key_range, step};

/// A reader's position in a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedToken {
    pub table: TableId,
    /// The number of the feed.
    pub feed: u32,
    /// The revision of the last commit that was read.
    pub position: u64,
    /// When the token was issued.
    pub issued: Timestamp,
}

/// Where a page of changes begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// At the oldest change that is kept.
    Oldest,
    /// After all existing changes.
    Now,
    Token(FeedToken),
}

/// Changes in commit order; those of one commit are all in one page.
#[derive(Clone, Debug)]
pub struct ChangesPage {
    pub changes: Vec<StoredChange>,
    pub next: FeedToken,
}

/// A change as stored.
#[derive(Clone, Debug)]
pub struct StoredChange {
    table: TableId,
    revision: Revision,
    value: Bytes,
}

/// A change of an entity.
#[derive(Clone, Debug)]
pub struct EntityChange<'a> {
    /// The revision of the commit, which all changes of one transaction share.
    pub revision: u64,
    pub operation: ChangeOperation,
    pub partition_key: String,
    pub row_key: String,
    pub new: Option<ChangeImage<'a>>,
    pub old: Option<ChangeImage<'a>>,
}

/// A whole entity before or after a change.
#[derive(Clone, Debug)]
pub struct ChangeImage<'a> {
    pub timestamp: Timestamp,
    /// In the order stored.
    pub properties: Vec<(&'a str, ValueRef<'a>)>,
}

impl StoredChange {
    pub fn decode(&self) -> Result<EntityChange<'_>, TableError> {
        let record = ChangeRecord::decode(&self.value)?;
        let key = join_entity(self.table, record.entity);
        let names = key::decode_entity(&key)?;
        let image = |revision: Revision, stored| {
            let properties = EntityRecord::parse(stored)?.decode()?;
            Ok::<_, CorruptRecord>(ChangeImage { timestamp: timestamp(revision), properties })
        };
        Ok(EntityChange {
            revision: self.revision.0,
            operation: record.operation,
            partition_key: names.partition.into_owned(),
            row_key: names.row.into_owned(),
            new: record.new.map(|new| image(self.revision, new)).transpose()?,
            old: record.old.map(|(at, old)| image(Revision(at), old)).transpose()?,
        })
    }
}

impl TableService {
    /// The changes of a table after a position in its feed, at most [`FEED_PAGE_CHANGES_MAX`].
    pub async fn changes(
        &self,
        account: &AccountName,
        name: &TableName,
        after: After,
    ) -> Result<ChangesPage, TableError> {
        let now = self.store.clock.now();
        let view = self.view().await?;
        let (table, settings) = view.table(account, name).await?;
        let settings = settings.ok_or(TableError::NoFeed)?;
        let feed = settings.feed.ok_or(TableError::NoFeed)?;
        let id = FeedId { table, number: settings.feeds };
        let view = &*view.entries;
        let found = view.get(&id.record()).await?.ok_or(TableError::NoFeed)?;
        let record = FeedRecord::decode(&found.value)?;
        let token = |position| FeedToken { table, feed: id.number, position, issued: now };
        let oldest = record.floor.saturating_sub(1);
        let position = match after {
            After::Oldest => oldest,
            After::Now => {
                let position = last_before(view, id, u64::MAX).await?.map_or(oldest, |last| last.0);
                return Ok(ChangesPage { changes: Vec::new(), next: token(position) });
            }
            After::Token(given) if given.table != table || given.feed > id.number => {
                return Err(TableError::TokenOfOtherFeed);
            }
            After::Token(given) => {
                let kept_ms = feed.retention.hours() * MS_PER_HOUR;
                let is_old = now.millis_since(given.issued) > kept_ms;
                if given.feed < id.number || given.position < oldest || is_old {
                    return Err(TableError::ChangesDropped { oldest: token(oldest) });
                }
                given.position
            }
        };
        let changes = read_after(view, id, position).await?;
        let position = changes.last().map_or(position, |last| last.revision.0);
        Ok(ChangesPage { changes, next: token(position) })
    }
}

const MS_PER_HOUR: u64 = 3_600_000;

/// A page being filled.
struct Gathered {
    id: FeedId,
    changes: Vec<StoredChange>,
    bytes: usize,
    /// Where the changes of the last commit begin.
    last_commit: usize,
}

impl Gathered {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<Visit, CorruptRecord> {
        let (_, revision, _) = Key::split_appended(key).ok_or(CorruptRecord("change key"))?;
        let is_new_commit = self.changes.last().is_none_or(|last| last.revision != revision);
        let is_full =
            self.changes.len() >= FEED_PAGE_CHANGES_MAX || self.bytes >= FEED_PAGE_BYTES_MAX;
        if is_new_commit && is_full {
            return Ok(Visit::StopBefore);
        }
        if is_new_commit {
            self.last_commit = self.changes.len();
        } else if self.changes.len() >= FEED_PAGE_CHANGES_MAX && self.last_commit > 0 {
            // The last commit goes to the next page.
            self.changes.truncate(self.last_commit);
            return Ok(Visit::StopBefore);
        }
        self.bytes += key.len() + value.len();
        let value = Bytes::copy_from_slice(value);
        self.changes.push(StoredChange { table: self.id.table, revision, value });
        Ok(Visit::Continue)
    }
}

async fn read_after(
    view: &dyn View,
    id: FeedId,
    position: u64,
) -> Result<Vec<StoredChange>, TableError> {
    let mut gathered = Gathered { id, changes: Vec::new(), bytes: 0, last_commit: 0 };
    let mut next = Some(key_range(id.entries_from(position.saturating_add(1))));
    while let Some(range) = next.take() {
        let mut visit = |key: &[u8], value: &[u8], _: Revision| gathered.take(key, value);
        let rows = Rows::expecting(FEED_PAGE_CHANGES_MAX);
        if let ScanEnd::More(rest) = step(view, range, rows, &mut visit).await? {
            next = Some(rest);
            give_way().await;
        }
    }
    Ok(gathered.changes)
}

/// The revision of the last entry of commits before `revision`.
pub(super) async fn last_before(
    view: &dyn View,
    id: FeedId,
    revision: u64,
) -> Result<Option<Revision>, TableError> {
    let rows = Rows::at_most(1).toward(Direction::Backward);
    one_revision(view, id.entries_before(revision), rows).await
}

/// The revision of the first entry of commits at `revision` or later.
pub(crate) async fn first_from(
    view: &dyn View,
    id: FeedId,
    revision: u64,
) -> Result<Option<Revision>, TableError> {
    one_revision(view, id.entries_from(revision), Rows::at_most(1)).await
}

async fn one_revision(
    view: &dyn View,
    range: std::ops::Range<Vec<u8>>,
    rows: Rows,
) -> Result<Option<Revision>, TableError> {
    let mut found = None;
    let mut visit = |key: &[u8], _: &[u8], _: Revision| {
        let (_, revision, _) = Key::split_appended(key).ok_or(CorruptRecord("change key"))?;
        found = Some(revision);
        Ok(Visit::Continue)
    };
    step(view, key_range(range), rows, &mut visit).await?;
    Ok(found)
}
